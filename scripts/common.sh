# shellcheck shell=bash
# Shared by the scripts beside it; sourced, never run.

# is_of_elsewhere ROOT BUILD: whether the build folder was configured at another path, by a checkout that was moved or copied
# since. Its files name that path: cmake refuses them, and ninja would build what lies there.
is_of_elsewhere() {
  local root=$1 build=$2 cache=$2/CMakeCache.txt entry
  [ -e "$cache" ] || return 1
  for entry in "CMAKE_HOME_DIRECTORY $root" "CMAKE_CACHEFILE_DIR $build"; do
    [ "$(readlink -f "$(sed -n "s/^${entry%% *}:INTERNAL=//p" "$cache")")" = "$(readlink -f "${entry#* }")" ] || return 0
  done
  return 1
}

# build_programs ROOT BUILD [PRESET]: the programs and libraries that a user runs, without the tests. Silent when there is
# nothing to do; one caller at a time.
build_programs() {
  local root=$1 build=$2 preset=${3:-release} log notice status
  if ! command -v cmake >/dev/null || ! command -v ninja >/dev/null || ! command -v g++ >/dev/null; then
    echo "weft: cmake, ninja or g++ is missing: run scripts/bootstrap first" >&2
    return 1
  fi
  mkdir -p "$build"
  log=$build/build_programs.log
  (
    flock 9
    if is_of_elsewhere "$root" "$build"; then
      echo "weft: $build is of a checkout at another path; everything is built anew" >&2
      rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles" "$build/build.ninja" "$build/.ninja_deps" "$build/.ninja_log"
    fi
    if [ ! -e "$build/build.ninja" ]; then
      echo "weft: configuring $build" >&2
      if ! cmake -S "$root" --preset "$preset" -B "$build" >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        echo "weft: configuring failed; is everything installed? Run scripts/bootstrap. All of it: $log" >&2
        exit 1
      fi
    fi
    # A sleep outlives the kill below, and must not hold a pipe open that somebody reads this from.
    {
      sleep 3 >/dev/null 2>&1 && echo "weft: building in $build" >&2
      while sleep 30 >/dev/null 2>&1; do  # policy: from nothing it takes ten minutes on two CPUs
        echo "weft: built so far, of all: $(grep -o '^\[[0-9]*/[0-9]*\]' "$log" | tail -n 1)" >&2
      done
    } 9>&- &
    notice=$!
    status=0
    ninja -C "$build" weft_programs >"$log" 2>&1 || status=$?
    kill "$notice" 2>/dev/null || true
    if [ "$status" -ne 0 ]; then
      grep -E -A 5 'FAILED|error:' "$log" | head -n 40 >&2
      echo "weft: the build failed; all of it: $log" >&2
      exit 1
    fi
  ) 9>"$build/build_programs.lock"
}

# ordinary_user: prints the name of a user without privileges to run programs as, when this is root.
ordinary_user() {
  local user=${WEFT_DEMO_USER:-nobody}
  id -u "$user" >/dev/null 2>&1 || { echo "weft: there is no user '$user'" >&2; return 1; }
  echo "$user"
}
