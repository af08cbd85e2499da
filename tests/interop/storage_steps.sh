# What both guests of storage.sh run: a has the targets, Weft's and Linux's, b the initiators.
sync_mount
rxe_up rxe0 eth0; sleep 1
export LD_LIBRARY_PATH=/extra/lib PATH=/extra/bin:$PATH WEFT_RUN=/tmp/weft
mkdir -p $WEFT_RUN /etc/target /var/target
filters=$(cat /extra/filters/place); mkdir -p $(dirname $filters); ln -sfn /extra/filters $filters
T=/sys/kernel/config/target
IQN=iqn.2026-01.org.example
wants() { case ",$INTEROP_steps," in *,$1,*) return 0 ;; esac; return 1; }

# --- guest a
start() { # start NAME COMMAND...: it goes on when the step is over
    local name=$1; shift
    setsid "$@" >/tmp/$name.log 2>&1 </dev/null &
    echo $! >/tmp/$name.pid
    wait_for 20 grep -q 'listening on' /tmp/$name.log || { cat /tmp/$name.log; return 1; }
}
weft_srp() { start weft_srp weft-srp target --name 1 --portal 0.0.0.0:5600 --lun /tmp/srp.img --lun ram:64M &&
    sed -n 's/^target 0x//p' /tmp/weft_srp.log >/sync/weft_srp; }
weft_iser() { start weft_iser weft-iser target --target $IQN:weft --portal iser:$A:3261 --portal $A:3262 --lun /tmp/iser.img --lun ram:64M; }
again() { # again NAME: killed as by a crash, and started anew two seconds later
    kill -9 $(cat /tmp/$1.pid); sleep 2; $1
}
lio_disk() { # lio_disk NAME FILE
    mkdir -p $T/core/fileio_0/$1
    echo "fd_dev_name=$2,fd_dev_size=$((320 << 20))" >$T/core/fileio_0/$1/control
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
srp_login() {
    modprobe sd_mod; modprobe sg; modprobe ib_srp reconnect_delay=2 fast_io_fail_tmo=120 dev_loss_tmo=600 || return 1
    wait_for 10 test -e /sys/class/infiniband_srp/srp-rxe0-1/add_target || return 1
    local name; name=$(cat /sync/weft_srp)
    # libiscsi's tests move 1 MiB at a time, which SG_IO refuses unless the host's limit is as much.
    echo "id_ext=${name:0:16},ioc_guid=${name:16},dest=$A:5600,max_sect=2048" >/sys/class/infiniband_srp/srp-rxe0-1/add_target && appear 2
}
iscsi_login() { # iscsi_login TRANSPORT PORT
    modprobe sd_mod; modprobe sg; modprobe iscsi_tcp; modprobe ib_iser max_sectors=2048 || return 1
    mkdir -p /etc/iscsi /run/lock/iscsi /var/lib/iscsi
    echo InitiatorName=$IQN:linux >/etc/iscsi/initiatorname.iscsi
    pidof iscsid >/dev/null || { iscsid; sleep 1; }
    iscsiadm -m discovery -t st -p $A:$2 -I $1 && iscsiadm -m node -T $IQN:weft -p $A:$2 -I $1 --login && appear 2
}
iscsi_logout() { iscsiadm -m node -T $IQN:weft -p $A:$2 -I $1 --logout && wait_for 20 sh -c '! ls /sys/class/block | grep -q "^sd"'; }
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
# Of Debian's libiscsi, through the kernel; a family at a time, since one that crashes takes the rest with it. What is known to be
# the tests' own mistake, or the kernel's limit, README.md says why.
MISTAKES=${MISTAKES:-ReceiveCopyResults.CopyStatus,ExtendedCopy.Simple}
conformance() { # conformance LETTERS: of families that begin with one
    local at family failed=0 passed=0 skipped=0; at=/dev/$(generic 1)
    for family in $(iscsi-test-cu --list 2>/dev/null | grep -E "^SCSI\.$1[A-Za-z0-9]+\$"); do
        iscsi-test-cu --dataloss --allow-sanitize --test $family $at >/tmp/cu.log 2>&1 || echo "$family: exit status $?"
        passed=$((passed + $(grep -c 'passed$' /tmp/cu.log))) skipped=$((skipped + $(grep -c 'SKIPPED' /tmp/cu.log)))
        grep -A1 -E '^  Test: .*FAILED|^  Test: .*Failed' /tmp/cu.log | head -6
        grep -oE '^  Test: [A-Za-z0-9-]+ .*FAILED' /tmp/cu.log | sed -E "s/^  Test: ([A-Za-z0-9-]+) .*/${family#SCSI.}.\1/" >/tmp/cu.failed
        for test in $(cat /tmp/cu.failed); do
            case ",$MISTAKES," in *,$test,*) echo "known: $test" ;; *) failed=$((failed + 1)); echo "failed: $test" ;; esac
        done
    done
    echo "$passed passed, $failed failed, $skipped skipped"
    [ $failed = 0 ] && [ $passed -gt 20 ]
}
# The link carries nothing for some seconds while blocks are written. (Taken down by `ip link`, the port of rxe goes as well, and
# ib_srp of Linux 6.12 stays in its first attempt to reconnect: "QP creation failed", then a hung task.)
flap() {
    local at; at=/dev/$(disk 0)
    head -c 32M /dev/urandom >/tmp/in
    dd if=/tmp/in of=$at bs=256k oflag=direct conv=fsync 2>/tmp/dd.log & local writer=$!
    sleep 0.5; tc qdisc add dev eth0 root netem loss 100%; sleep 15; tc qdisc del dev eth0 root
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
attach() { # attach PROGRAM URL: Weft's initiator, a file to the disk and back
    head -c 64M /dev/urandom >/tmp/in; truncate -s 320M /tmp/in
    rm -f /tmp/nbd.sock
    setsid $1 attach $2 --nbd /tmp/nbd.sock >/tmp/attach.log 2>&1 </dev/null & local attached=$!
    wait_for 30 test -S /tmp/nbd.sock || { cat /tmp/attach.log; return 1; }
    local uri="nbd+unix:///?socket=/tmp/nbd.sock" status=0
    nbdinfo --size "$uri" && nbdcopy /tmp/in "$uri" && rm -f /tmp/out && nbdcopy "$uri" /tmp/out &&
        cmp -n $((64 << 20)) /tmp/in /tmp/out || status=1
    kill $attached; wait $attached 2>/dev/null
    [ $status = 0 ] || cat /tmp/attach.log
    [ $status = 0 ] && echo "64 MiB there and back"
    return $status
}

if [ "$(hostname)" = a ]; then
    truncate -s 320M /tmp/srp.img /tmp/iser.img /tmp/lio_srp.img /tmp/lio_iscsi.img
    if wants srp; then
        weft_srp && echo "Weft's SRP target is up" || STEPFAIL=1
        lio_srp && echo "Linux's SRP target is up" || { dmesg | tail -5; STEPFAIL=1; }
    fi
    if wants iser || wants iscsi; then
        weft_iser && echo "Weft's iSCSI target is up" || STEPFAIL=1
        lio_iscsi && echo "Linux's iSCSI target is up" || { dmesg | tail -5; STEPFAIL=1; }
    fi
    export -f start weft_srp weft_iser again wait_for
    export T IQN A B
fi
step ready true true
if wants srp; then
    step srp_login -c true srp_login
    step srp_file_system true file_system
    step srp_commands true commands
    step srp_link_flaps true flap
    step srp_target_crashes "bash -c 'sleep 0.5; again weft_srp'" crash
    step srp_conformance_1 true 'conformance [A-O]'
    step srp_conformance_2 true 'conformance [P-R]'
    step srp_conformance_3 true 'conformance [S-Z]'
    step srp_logout true 'for port in /sys/class/srp_remote_ports/port-*; do echo 1 >$port/delete; done; sleep 2; ! disks'
    step srp_attach -c true 'g=$(cat /sync/lio_srp); attach weft-srp srp://$A:5555/$(printf %016x ${g/#0x/0x})/0'
fi
if wants iser; then
    step iser_login -c true 'iscsi_login iser 3261'
    step iser_file_system true file_system
    step iser_commands true commands
    step iser_link_flaps true flap
    step iser_target_crashes "bash -c 'sleep 0.5; again weft_iser'" crash
    step iser_conformance_1 true 'conformance [A-O]'
    step iser_conformance_2 true 'conformance [P-R]'
    step iser_conformance_3 true 'conformance [S-Z]'
    step iser_logout true 'iscsi_logout iser 3261'
    step iser_attach -c true "attach weft-iser iser://$A:3264/$IQN:lio/0"
fi
if wants iscsi; then
    step iscsi_login true 'iscsi_login default 3262'
    step iscsi_file_system true file_system
    step iscsi_commands true commands
    step iscsi_link_flaps true flap
    step iscsi_target_crashes "bash -c 'sleep 0.5; again weft_iser'" crash
    step iscsi_logout true 'iscsi_logout default 3262'
    step iscsi_attach true "attach weft-iscsi iscsi://$A:3263/$IQN:lio/0"
fi
[ $STEPFAIL = 0 ] || { dmesg | grep -vi virtio | tail -25; tail -n 5 /tmp/weft_*.log 2>/dev/null; }
sync_set end.$(hostname); sync_wait end.a 60; sync_wait end.b 60
exit $STEPFAIL
