#!/bin/bash
# Disks between Weft and Linux's own SRP, iSER and iSCSI, each as target and as initiator, on two machines with Soft-RoCE: the
# verbs driver over a provider without on-demand paging, ib_srp and ib_srpt, open-iscsi with ib_iser, LIO with ib_isert.
#
#   tests/interop/storage.sh LAB [KERNEL...]      (6.12 6.1)
#
# LAB is as of blockd.sh, and so is what is needed, of the target weft_programs; beside it nbdkit, nbdcopy, e2fsprogs and
# libiscsi-bin of this machine go along, and tshark judges logins and copies that were captured. Some minutes for each group and kernel. STEPS names some of the groups of storage_steps.sh,
# or parts of them (STEPS=srp,iser_attach): disk, tests and attach. LIMIT is how many seconds both guests may take, of a busy machine.
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
command -v tshark >/dev/null || { echo "storage.sh: tshark is missing (scripts/bootstrap)" >&2; exit 2; }
for name in nbdkit nbdcopy nbdinfo mke2fs e2fsck iscsi-test-cu; do
    programs+=("$(command -v $name)") || { echo "storage.sh: $name is missing (scripts/bootstrap)" >&2; exit 2; }
done
filters=$(nbdkit --dump-config | sed -n 's/^filterdir=//p')
mkdir -p "$extra/filters"
cp "$filters/nbdkit-blocksize-filter.so" "$extra/filters/"
echo "$filters" >"$extra/filters/place"
pack "$extra" "$build"/src/programs/{srp/weft-srp,iscsi/weft-iscsi,iser/weft-iser,nbd/libweft-nbd.so} "${programs[@]}"
# What tshark makes of the captures in a folder: none malformed, and PDUs of iSCSI where there are some. Of SRP over RDMA it knows
# InfiniBand's headers alone, and iSER it takes for RPC over RDMA unless it knows the port. Answers to INQUIRY are not judged: of a page
# that it has not whole, as where Linux asks for its first four octets, it says that it is malformed.
dissected() { # dissected FOLDER
    local file protocol status=0
    for file in "$1"/*.pcap; do
        case ${file##*/} in iser_*) protocol=iser:iscsi ;; iscsi_*) protocol=tcp:iscsi ;; *) protocol=infiniband ;; esac
        tshark -n -r "$file" -o iser.target_ports:3260-3264 -o iscsi.target_ports:3260-3264 -T fields \
            -e frame.protocols -e _ws.malformed -e _ws.col.Info 2>/dev/null |
            awk -F '\t' -v file="${file##*/}" -v protocol="$protocol" '
                index($1, protocol) { known++ }
                $2 != "" && $3 !~ /Inquiry Response Data/ { bad++ }
                END {
                    printf "%s: %d packets, %d of %s, %d malformed\n", file, NR, known, protocol, bad
                    exit known == 0 || bad > 0
                }' || status=1
    done
    return $status
}
status=0
for kernel in "$@"; do
    echo "== Soft-RoCE of Linux $kernel"
    INTEROP_SIW=0 INTEROP_EXTRA=$extra INTEROP_KERNEL=$kernel "$lab/build-guest.sh"
    captures=${TMPDIR:-/tmp}/weft-interop-pcaps/$kernel/storage
    rm -rf "$captures"
    INTEROP_APPEND="interop.steps=${STEPS:-srp,iser,iscsi}" \
        "$lab/pair.sh" -k "$kernel" -m 1792 -t "${LIMIT:-1500}" -o "$captures" "$here/storage_steps.sh" || status=1
    dissected "$captures" || status=1
done
exit $status
