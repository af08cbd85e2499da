#!/bin/sh
# Runs a link command. mold 1.10 lays some programs out again and again without an end, by their sizes, about one in a thousand: after a
# while ld.bfd links such a program instead. CMake puts this before every link (weft_build.cmake).
seconds=30  # policy: mold takes two, or ten on a machine that is busy
case " $* " in
  *" -fuse-ld=mold "*) ;;
  *) exec "$@" ;;
esac
timeout --kill-after=5 "$seconds" "$@"
status=$?
[ "$status" -eq 124 ] || exit "$status"
echo "mold did not end in $seconds s; ld.bfd links instead" >&2
for argument; do
  shift
  [ "$argument" = -fuse-ld=mold ] && argument=-fuse-ld=bfd
  set -- "$@" "$argument"
done
exec "$@"
