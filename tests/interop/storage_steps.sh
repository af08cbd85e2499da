# What both guests of storage.sh run: a has the targets, Weft's and Linux's, b the initiators.
sync_mount
rxe_up rxe0 eth0; sleep 1
export LD_LIBRARY_PATH=/extra/lib PATH=/extra/bin:$PATH WEFT_RUN=/tmp/weft
mkdir -p $WEFT_RUN /etc/target /var/target
filters=$(cat /extra/filters/place); mkdir -p $(dirname $filters); ln -sfn /extra/filters $filters
T=/sys/kernel/config/target
IQN=iqn.2026-01.org.example
wants() { # wants GROUP PART...: the group, or one of these parts of it, as GROUP_PART
    local group=$1 part; shift
    for part in '' "$@"; do
        case ",$INTEROP_steps," in *",$group${part:+_$part},"*) return 0 ;; esac
    done
    return 1
}

# --- guest a
start() { # start NAME COMMAND...: it goes on when the step is over
    local name=$1; shift
    setsid "$@" >/tmp/$name.log 2>&1 </dev/null &
    echo $! >/tmp/$name.pid
    wait_for 20 grep -q 'listening on' /tmp/$name.log || { cat /tmp/$name.log; return 1; }
}
UNITS="--lun ram:64M --lun ram:16M,ro"
weft_srp() { start weft_srp weft-srp target --name 1 --portal 0.0.0.0:5600 --lun /tmp/srp.img $UNITS &&
    sed -n 's/^target 0x//p' /tmp/weft_srp.log >/sync/weft_srp; }
weft_iser() { start weft_iser weft-iser target --target $IQN:weft --portal iser:$A:3261 --portal $A:3262 --lun /tmp/iser.img $UNITS; }
again() { # again NAME: killed as by a crash, and started anew two seconds later
    kill -9 $(cat /tmp/$1.pid); sleep 2; $1
}
LIO_MIB=64
lio_disk() { # lio_disk NAME FILE
    mkdir -p $T/core/fileio_0/$1
    echo "fd_dev_name=$2,fd_dev_size=$((LIO_MIB << 20))" >$T/core/fileio_0/$1/control
    echo "interop-$1" >$T/core/fileio_0/$1/wwn/vpd_unit_serial
    echo 1 >$T/core/fileio_0/$1/enable
}
lio_srp() {
    modprobe target_core_file; modprobe ib_srpt || return 1
    lio_disk srp /tmp/lio_srp.img || return 1
    mkdir $T/srpt; echo 5555 >$T/srpt/discovery_auth/rdma_cm_port || return 1
    local guid tpg acl
    guid=$(cut -d: -f5-8 /sys/class/infiniband/rxe0/ports/1/gids/0)
    tpg=$T/srpt/$guid/$guid
    mkdir -p $tpg/lun/lun_0; ln -s $T/core/fileio_0/srp $tpg/lun/lun_0/link
    for acl in $A $B; do # ib_srpt looks its own address up
        mkdir -p $tpg/acls/$acl/lun_0; ln -s $tpg/lun/lun_0 $tpg/acls/$acl/lun_0/link
    done
    echo 1 >$tpg/enable && cat /sys/module/ib_srpt/parameters/srpt_service_guid >/sync/lio_srp
}
lio_iscsi() { # by TCP at 3263, by iSER at 3264
    modprobe iscsi_target_mod; modprobe ib_isert || return 1
    lio_disk iscsi /tmp/lio_iscsi.img || return 1
    local tpg=$T/iscsi/$IQN:lio/tpgt_1
    mkdir -p $tpg/lun/lun_0; ln -s $T/core/fileio_0/iscsi $tpg/lun/lun_0/link
    echo 0 >$tpg/attrib/authentication; echo 1 >$tpg/attrib/generate_node_acls; echo 0 >$tpg/attrib/demo_mode_write_protect
    mkdir $tpg/np/$A:3263 $tpg/np/$A:3264; echo 1 >$tpg/np/$A:3264/iser && echo 1 >$tpg/enable
}

# --- guest b
disks() { ls /sys/class/block | grep '^sd[a-z]*$'; }
disk() { # disk LUN: of the newest host
    local found
    found=$(ls -d /sys/class/scsi_device/*:0:0:$1 2>/dev/null | sort -V | tail -1)
    ls $found/device/block 2>/dev/null
}
generic() { ls /sys/class/block/$(disk $1)/device/scsi_generic; }
appear() { # appear COUNT
    wait_for 20 sh -c "[ \$(ls /sys/class/block | grep -c '^sd[a-z]*$') -ge $1 ]" && sleep 1 && disks | xargs echo "disks:"
}
# libiscsi's tests move 1 MiB at a time. SG_IO copies that into pieces, of which ib_srp takes 12 in a command: so these are larger than
# sg's 32 KiB, and the host's limit of a command is as much.
generic_module() { modprobe sd_mod; modprobe sg scatter_elem_sz=131072; }
srp_login() {
    generic_module; modprobe ib_srp reconnect_delay=2 fast_io_fail_tmo=120 dev_loss_tmo=600 || return 1
    wait_for 10 test -e /sys/class/infiniband_srp/srp-rxe0-1/add_target || return 1
    local name; name=$(cat /sync/weft_srp)
    echo "id_ext=${name:0:16},ioc_guid=${name:16},dest=$A:5600,max_sect=2048" >/sys/class/infiniband_srp/srp-rxe0-1/add_target && appear 3
}
srp_logout() {
    local port
    for port in /sys/class/srp_remote_ports/port-*; do echo 1 >$port/delete; done
    sleep 2; ! disks
}
iscsi_login() { # iscsi_login TRANSPORT PORT
    generic_module; modprobe iscsi_tcp; modprobe ib_iser max_sectors=2048 || return 1
    mkdir -p /etc/iscsi /run/lock/iscsi /var/lib/iscsi
    echo InitiatorName=$IQN:linux >/etc/iscsi/initiatorname.iscsi
    pidof iscsid >/dev/null || { iscsid; sleep 1; }
    iscsiadm -m discovery -t st -p $A:$2 -I $1 && iscsiadm -m node -T $IQN:weft -p $A:$2 -I $1 --login && appear 3
}
iscsi_logout() { # iscsi_logout TRANSPORT PORT
    iscsiadm -m node -T $IQN:weft -p $A:$2 -I $1 --logout && wait_for 20 sh -c '! ls /sys/class/block | grep -q "^sd"'
}
file_system() { # a file of 256 MiB, read again from the disk
    local at; at=/dev/$(disk 0)
    mke2fs -q -t ext4 -E nodiscard $at && mkdir -p /mnt && mount -t ext4 $at /mnt || return 1
    head -c 16M /dev/urandom >/tmp/piece
    for _ in $(seq 16); do cat /tmp/piece; done >/mnt/file || return 1
    umount /mnt; echo 3 >/proc/sys/vm/drop_caches
    mount -t ext4 $at /mnt || return 1
    local is asked
    is=$(md5sum </mnt/file); asked=$(for _ in $(seq 16); do cat /tmp/piece; done | md5sum)
    umount /mnt; e2fsck -f -n $at >/tmp/fsck.log 2>&1 || { cat /tmp/fsck.log; return 1; }
    echo "256 MiB: $is, asked $asked"; [ "$is" = "$asked" ]
}
commands() { # sg3-utils
    local at to; at=/dev/$(generic 0) to=/dev/$(generic 1)
    sg_inq $at && sg_vpd -p di $at && sg_vpd -p bl $at && sg_readcap -l $at && sg_turs $at && sg_luns $at && sg_modes $at >/dev/null &&
        sg_opcodes $at >/dev/null && sg_sync $at && sg_verify --lba=0 --count=128 $at && sg_persist --in --read-full-status $at || return 1
    head -c 1M /dev/urandom >/tmp/copied
    dd if=/tmp/copied of=/dev/$(disk 0) bs=64k oflag=direct conv=fsync 2>/dev/null || return 1
    # Between two units of the target, which copies by itself.
    sg_xcopy if=$at of=$to count=2048 bs=512 id_usage=disable || return 1
    dd if=/dev/$(disk 1) bs=64k count=16 iflag=direct 2>/dev/null | cmp - /tmp/copied && echo "an EXTENDED COPY between units"
}
# Of Debian's libiscsi, through the kernel; a family at a time, since one that crashes takes the rest with it. What no target passes
# here, README.md says why.
MISTAKES=ReceiveCopyResults.CopyStatus,Sanitize.OverwriteReserved,WriteSame10.UnmapUntilEnd,WriteSame16.Unmap
unit_of() { # unit_of TEST: the LUN on which it runs; 1, in memory, has no physical blocks of several logical ones
    case $1 in
    ReadOnly.*) echo 2 ;;
    *.InvalidDataOutSize | *.UnmapUnaligned) echo 0 ;;
    *) echo 1 ;;
    esac
}
verdicts() { # verdicts FAMILY: "passed|skipped|failed|died FAMILY.TEST WHY" of each test, of what iscsi-test-cu prints
    awk -v family="$1" '
        function judge(verdict) { print verdict, family "." name, verdict == "passed" ? "" : why; name = "" }
        /^  Test: / { if (name != "") judge("died"); name = $2; why = ""; is_skipped = 0 }
        name == "" { next }
        /\[SKIPPED\]/ { is_skipped = 1 }
        why == "" && match($0, /\[(SKIPPED|FAILED)\] .*/) { why = substr($0, RSTART + index(substr($0, RSTART), " ")) }
        /(^|\.\.\.)passed$/ { judge(is_skipped ? "skipped" : "passed") }
        /(^|\.\.\.)FAILED$/ { judge("failed") }
        END { if (name != "") judge("died") }'
}
test_on() { # test_on LUN NAME: verdicts of a family or a test
    local status=0
    iscsi-test-cu --dataloss --allow-sanitize --test SCSI.$2 /dev/$(generic $1) >/tmp/cu.log 2>&1 </dev/null || status=$?
    verdicts ${2%%.*} </tmp/cu.log >/tmp/verdicts_on
    cat /tmp/verdicts_on
    # What it had not yet printed is lost with it.
    [ $status -le 1 ] || grep -q ^died /tmp/verdicts_on || echo "died $2 exit status $status"
}
family_on() { # family_on LUN FAMILY: its tests one at a time where one of them takes the process with it
    test_on $1 $2 >/tmp/verdicts_of
    if grep -q ^died /tmp/verdicts_of; then
        local test
        for test in $(iscsi-test-cu --list 2>/dev/null | grep "^SCSI\.$2\." | cut -d. -f3); do
            test_on $1 $2.$test
        done
    else
        cat /tmp/verdicts_of
    fi
}
conformance() { # conformance LETTERS: of families that begin with one
    local family verdict test why failed=0 passed=0 skipped=0 known=0
    for family in $(iscsi-test-cu --list 2>/dev/null | grep -oE "^SCSI\.$1[A-Za-z0-9]+\$" | cut -d. -f2); do
        family_on 1 $family
    done >/tmp/verdicts
    while read -r verdict test why; do
        [ $(unit_of $test) = 1 ] || read -r verdict test why < <(test_on $(unit_of $test) $test)
        case $verdict in
        passed) passed=$((passed + 1)) ;;
        skipped) skipped=$((skipped + 1)); echo "$test: $why" >>/tmp/skipped ;;
        *) case ",$MISTAKES," in
            *,$test,*) known=$((known + 1)); echo "as README.md says: $test $verdict: $why" ;;
            *) failed=$((failed + 1)); echo "$test $verdict: $why" ;;
            esac ;;
        esac
    done </tmp/verdicts
    echo "$passed passed, $skipped skipped, $failed failed, $known more as README.md says"
    [ $failed = 0 ] && [ $passed -gt 10 ]
}
told_skips() { # for each reason the tests that are skipped
    [ -s /tmp/skipped ] || return 0
    awk -F': ' '{ tests[$2] = tests[$2] " " $1 } END { for (why in tests) print "skipped: " why ":" tests[why] }' /tmp/skipped
    rm /tmp/skipped
}
# The link carries nothing for some seconds while blocks are written. (Taken down by `ip link`, the port of rxe goes as well, and
# ib_srp of Linux 6.12 stays in its first attempt to reconnect: "QP creation failed", then a hung task.)
lose_all() { sleep 0.5; tc qdisc add dev eth0 root netem loss 100%; sleep 15; tc qdisc del dev eth0 root; }
flap() {
    local at; at=/dev/$(disk 0)
    head -c 32M /dev/urandom >/tmp/in
    dd if=/tmp/in of=$at bs=256k oflag=direct conv=fsync 2>/tmp/dd.log & local writer=$!
    lose_all
    wait $writer || { cat /tmp/dd.log; return 1; }
    same $at
}
crash() { # the target is killed, and comes again, while blocks are written; `again` runs beside
    local at; at=/dev/$(disk 0)
    head -c 32M /dev/urandom >/tmp/in
    dd if=/tmp/in of=$at bs=256k oflag=direct conv=fsync 2>/tmp/dd.log || { cat /tmp/dd.log; return 1; }
    same $at
}
same() { # same DEVICE: it begins with /tmp/in
    echo 3 >/proc/sys/vm/drop_caches
    dd if=$1 bs=256k count=128 iflag=direct 2>/dev/null | cmp - /tmp/in && echo "32 MiB as they were written"
}
attach() { # attach PROGRAM URL [TROUBLE]: Weft's initiator, a file to the disk, during trouble perhaps, and back
    head -c ${LIO_MIB}M /dev/urandom >/tmp/in
    rm -f /tmp/nbd.sock
    setsid $1 attach $2 --nbd /tmp/nbd.sock --fast-fail 120 >/tmp/attach.log 2>&1 </dev/null & local attached=$!
    wait_for 30 test -S /tmp/nbd.sock || { cat /tmp/attach.log; return 1; }
    local uri="nbd+unix:///?socket=/tmp/nbd.sock" status=0 trouble=
    nbdinfo --size "$uri" || status=1 # the first client logs in
    [ -z "$3" ] || { $3 & trouble=$!; }
    [ $status = 0 ] && nbdcopy --flush /tmp/in "$uri" && rm -f /tmp/out || status=1
    [ -z "$trouble" ] || wait $trouble
    [ $status = 0 ] && nbdcopy "$uri" /tmp/out && cmp /tmp/in /tmp/out || status=1
    kill $attached; wait $attached 2>/dev/null
    [ $status = 0 ] || cat /tmp/attach.log
    [ $status = 0 ] && echo "$LIO_MIB MiB there and back"
    return $status
}

dead_link() { # dead_link PROGRAM URL: nothing answers the first login, though the neighbour is known: a reason, in time
    local status=0
    ping -c 1 -W 5 $A >/dev/null
    tc qdisc add dev eth0 root netem loss 100%
    timeout 90 $1 attach $2 --nbd /tmp/dead.sock >/tmp/dead.log 2>&1 </dev/null || status=$?
    tc qdisc del dev eth0 root
    cat /tmp/dead.log
    [ $status = 1 ] || { echo "exit status $status"; return 1; }
}

# group NAME TARGET LOGIN LOGOUT ATTACH...: Weft's target by Linux's initiator, then Weft's initiator at Linux's target
group() {
    local name=$1 target=$2 login=$3 logout=$4; shift 4
    if wants $name disk tests; then
        step ${name}_login -c true "$login"
        if wants $name disk; then
            step ${name}_file_system true file_system
            step ${name}_commands true commands
            step ${name}_link_flaps true flap
            step ${name}_target_crashes "bash -c 'sleep 0.5; again $target'" crash
        fi
        if [ $name != iscsi ] && wants $name tests; then # scripts/test has them by TCP
            step ${name}_tests_1 true 'conformance [A-O]'
            step ${name}_tests_2 true 'conformance P'
            step ${name}_tests_3 true 'conformance [QR]'
            step ${name}_tests_4 true 'conformance [S-V]'
            step ${name}_tests_5 true 'conformance [W-Z]'
            told_skips
        fi
        step ${name}_logout true "$logout"
    fi
    if wants $name attach; then
        step ${name}_attach -c true "attach $*"
        step ${name}_attach_link_flaps true "attach $* lose_all"
        step ${name}_attach_dead_link true "dead_link $*"
    fi
}

if [ "$(hostname)" = a ]; then
    truncate -s 320M /tmp/srp.img /tmp/iser.img; truncate -s ${LIO_MIB}M /tmp/lio_srp.img /tmp/lio_iscsi.img
    up() { # up WHAT COMMAND
        if $2; then echo "$1 is up"; else dmesg | tail -5; STEPFAIL=1; fi
    }
    if wants srp disk tests; then up "Weft's SRP target" weft_srp; fi
    if wants srp attach; then up "Linux's SRP target" lio_srp; fi
    if wants iser disk tests || wants iscsi disk; then up "Weft's iSCSI target" weft_iser; fi
    if wants iser attach || wants iscsi attach; then up "Linux's iSCSI target" lio_iscsi; fi
    export -f start weft_srp weft_iser again wait_for
    export T IQN A B UNITS
fi
step ready true true
if wants srp disk tests attach; then
    group srp weft_srp srp_login srp_logout weft-srp 'srp://$A:5555/$(printf %016x 0x$(sed s/^0x// /sync/lio_srp))/0'
fi
if wants iser disk tests attach; then
    group iser weft_iser 'iscsi_login iser 3261' 'iscsi_logout iser 3261' weft-iser iser://$A:3264/$IQN:lio/0
    if wants iser attach; then step iser_discover true "weft-iser discover $A:3264 | grep -F $IQN:lio"; fi
fi
if wants iscsi disk attach; then
    group iscsi weft_iser 'iscsi_login default 3262' 'iscsi_logout default 3262' weft-iscsi iscsi://$A:3263/$IQN:lio/0
    if wants iscsi attach; then step iscsi_discover true "weft-iscsi discover $A:3263 | grep -F $IQN:lio"; fi
fi
[ $STEPFAIL = 0 ] || { dmesg | grep -vi virtio | tail -25; tail -n 5 /tmp/weft_*.log 2>/dev/null; }
sync_set end.$(hostname); sync_wait end.a 60; sync_wait end.b 60
exit $STEPFAIL
