#!/bin/bash
# Disks between Weft and Linux's own SRP, iSER and iSCSI, each as target and as initiator, on two machines with Soft-RoCE: the
# verbs driver over a provider without on-demand paging, ib_srp and ib_srpt, open-iscsi with ib_iser, LIO with ib_isert.
#
#   tests/interop/storage.sh LAB [KERNEL...]      (6.12 6.1)
#
# LAB is as of blockd.sh, and so is what is needed, of the target weft_programs; beside it nbdkit, nbdcopy, e2fsprogs and
# libiscsi-bin of this machine go along. Some minutes for each kernel. STEPS names some of the groups of storage_steps.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/pack.sh"
build=${WEFT_BUILD_DIR:-$here/../../build/release}
[ $# -ge 1 ] || { sed -n '/^#   /s/^#   /usage: /p' "$0" >&2; exit 2; }
lab=$1; shift
[ $# -gt 0 ] || set -- 6.12 6.1
extra=$(mktemp -d "${TMPDIR:-/tmp}/weft-interop.XXXXXX")
trap 'rm -rf "$extra"' EXIT
PATH=$PATH:/usr/sbin:/sbin
programs=()
for name in nbdkit nbdcopy nbdinfo mke2fs e2fsck iscsi-test-cu; do
    programs+=("$(command -v $name)") || { echo "storage.sh: $name is missing (scripts/bootstrap)" >&2; exit 2; }
done
filters=$(nbdkit --dump-config | sed -n 's/^filterdir=//p')
mkdir -p "$extra/filters"
cp "$filters/nbdkit-blocksize-filter.so" "$extra/filters/"
echo "$filters" >"$extra/filters/place"
pack "$extra" "$build"/src/programs/{srp/weft-srp,iscsi/weft-iscsi,iser/weft-iser,nbd/libweft-nbd.so} "${programs[@]}"
status=0
for kernel in "$@"; do
    echo "== Soft-RoCE of Linux $kernel"
    INTEROP_SIW=0 INTEROP_EXTRA=$extra INTEROP_KERNEL=$kernel "$lab/build-guest.sh"
    INTEROP_APPEND="interop.steps=${STEPS:-srp,iser,iscsi}" \
        "$lab/pair.sh" -k "$kernel" -m 1792 -t 1500 -o "${TMPDIR:-/tmp}/weft-interop-pcaps/$kernel" "$here/storage_steps.sh" || status=1
done
exit $status
