#!/bin/bash
# blockd, both forms, between two machines that run Linux's own Soft-RoCE: the verbs driver over libibverbs and librdmacm as
# their distribution has them, the kernel's IB CM and a provider that is not ours.
#
#   tests/interop/blockd.sh LAB [KERNEL...]      (6.12 6.1)
#
# LAB is a folder with the scripts of a laboratory of QEMU guests: build-guest.sh, which packs INTEROP_EXTRA into the guests of
# INTEROP_KERNEL, and pair.sh, which boots two that run one script with `step` and `rxe_up`. Needs root, as those do, and the
# targets weft_programs, blockd and blockd++ of a build: WEFT_BUILD_DIR, by default build/release. A minute for each kernel.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/pack.sh"
build=${WEFT_BUILD_DIR:-$here/../../build/release}
[ $# -ge 1 ] || { sed -n '/^#   /s/^#   /usage: /p' "$0" >&2; exit 2; }
lab=$1; shift
[ $# -gt 0 ] || set -- 6.12 6.1
extra=$(mktemp -d "${TMPDIR:-/tmp}/weft-interop.XXXXXX")
trap 'rm -rf "$extra"' EXIT
pack "$extra" "$build/examples/blockd++/blockd++" "$build/examples/blockd/blockd.so" "$build/src/programs/module/weft-module"
status=0
for kernel in "$@"; do
    echo "== Soft-RoCE of Linux $kernel"
    INTEROP_SIW=0 INTEROP_EXTRA=$extra INTEROP_KERNEL=$kernel "$lab/build-guest.sh"
    "$lab/pair.sh" -k "$kernel" -o "${TMPDIR:-/tmp}/weft-interop-pcaps/$kernel" "$here/blockd_steps.sh" || status=1
done
exit $status
