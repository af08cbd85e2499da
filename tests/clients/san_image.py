"""A small Debian disk that a PC boots from: GRUB in its first sectors, one partition with ext4, and in that Debian's kernel, its modules and its
busybox as init, getty, login and shell. Made of packages that are fetched and unpacked, not installed, and without being root.

srp_boot.py imports it.
"""
import os
import pathlib
import shutil
import struct
import subprocess

import weft_clients

PLACE = weft_clients.ROOT / "build" / "san-boot"      # kept for the next run
KERNEL = "linux-image-cloud-amd64"                    # that of virtual machines, which depends on the kernel proper
PACKAGES = ("busybox-static", "grub-pc-bin", "grub-common")
MODULES = ("virtio_pci", "virtio_blk", "ext4")        # which the root file system needs, and what these need
SECTOR = 512
PARTITION_SECTOR = 2048
PARTITION_BYTES = 96 << 20                            # policy
HOST_NAME = "san"
SECONDS = 120                                         # policy: of one tool

EARLY_INIT = """#!/bin/busybox sh
export PATH=/bin
busybox mount -t devtmpfs dev /dev
busybox mount -t proc proc /proc
exec </dev/console >/dev/console 2>&1
for module in $(busybox cat /modules); do busybox insmod "/$module"; done
tries=0
until [ -b /dev/vda1 ] || [ $tries = 100 ]; do busybox sleep 0.1; tries=$((tries + 1)); done
busybox mount -t ext4 /dev/vda1 /new || exec busybox poweroff -f
busybox umount /proc
exec busybox switch_root /new /sbin/init
"""
# Writes files, tells each once it has been synced, and keeps more under way that is not.
WRITER = """#!/bin/sh
echo 1048576 > /proc/sys/vm/dirty_bytes
(while :; do dd if=/dev/urandom of=/data/noise bs=64k count=64 2> /dev/null; done) &
number=0
while :; do
  number=$((number + 1))
  dd if=/dev/urandom of=/data/file$number bs=4k count=$((number % 16 + 1)) 2> /dev/null
  sum=$(sha256sum < /data/file$number)
  sync
  echo "durable file$number $sum"
done
"""
FILES = {
    "etc/inittab": f"::sysinit:/etc/rcS\nttyS0::respawn:/sbin/getty -L 115200 ttyS0 vt100\n::shutdown:/bin/umount -a -r\n",
    "etc/rcS": "#!/bin/sh\nmount -t devtmpfs dev /dev\nmount -t proc proc /proc\nmount -t sysfs sys /sys\nhostname -F /etc/hostname\n",
    "etc/hostname": f"{HOST_NAME}\n",
    "etc/passwd": "root::0:0:root:/root:/bin/sh\n",   # no password: the serial line is the test's own
    "etc/group": "root:x:0:\n",
    "etc/issue": "Debian's kernel and busybox\n",
    "usr/bin/write-files": WRITER,
    "boot/grub/grub.cfg": "linux /boot/vmlinuz root=/dev/vda1 console=ttyS0 loglevel=7 panic=-1\ninitrd /boot/initrd\nboot\n",
}


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: {(done.stdout + done.stderr).decode(errors='replace')[-600:]}")
    return done.stdout


def kernel_package():
    """The name of the package that KERNEL stands for now."""
    said = run("apt-cache", "depends", KERNEL).decode()
    return next(line.split()[1] for line in said.splitlines() if "Depends: linux-image" in line)


def fetch():
    """The packages, unpacked below PLACE; from the last run if it had the same ones."""
    weft_clients.need_programs("apt-get", "apt-cache", "dpkg-deb", "mke2fs")
    names = [kernel_package(), *PACKAGES]
    root, stamp = PLACE / "packages", PLACE / "names"
    if stamp.is_file() and stamp.read_text(encoding="utf-8").split() == names:
        return root
    shutil.rmtree(PLACE, ignore_errors=True)
    (PLACE / "deb").mkdir(parents=True)
    run("apt-get", "-q", "-o", "APT::Sandbox::User=", "download", *names, cwd=PLACE / "deb")
    for package in sorted((PLACE / "deb").glob("*.deb")):
        run("dpkg-deb", "-x", str(package), str(root))
    stamp.write_text(" ".join(names), encoding="utf-8")
    return root


def module_files(root, busybox):
    """Paths below `root` of MODULES and what they need, in the order to load them; less what is part of the kernel itself."""
    [folder] = (root / "lib" / "modules").iterdir()
    run(busybox, "depmod", "-b", str(root), folder.name)
    needs = {}
    for line in (folder / "modules.dep").read_text(encoding="utf-8").splitlines():
        file, _, rest = line.partition(":")
        needs[file] = rest.split()
    by_name = {pathlib.Path(file).name.split(".")[0].replace("-", "_"): file for file in needs}
    built_in = {pathlib.Path(line).stem.replace("-", "_") for line in (folder / "modules.builtin").read_text(encoding="utf-8").split()}
    # What the kernel's crypto layer asks for by name only.
    wanted = [*MODULES, *(name for name in ("crc32c_generic", "crc32c_intel") if name in by_name)]
    ordered = []

    def add(file):
        for other in needs[file]:
            add(other)
        if file not in ordered:
            ordered.append(file)

    for name in wanted:
        if name in by_name:
            add(by_name[name])
        elif name not in built_in:
            raise RuntimeError(f"{folder.name} has no {name}")
    return [(folder / file).relative_to(root) if not pathlib.Path(file).is_absolute() else pathlib.Path(file.lstrip("/")) for file in ordered]


def early_root(root, busybox):
    """The archive that the kernel begins with."""
    early = PLACE / "early"
    shutil.rmtree(early, ignore_errors=True)
    for name in ("bin", "dev", "proc", "new"):
        (early / name).mkdir(parents=True)
    shutil.copy(busybox, early / "bin" / "busybox")
    modules = module_files(root, busybox)
    for module in modules:
        shutil.copy(root / module, early / module.name)
    (early / "modules").write_text("".join(f"{module.name}\n" for module in modules), encoding="utf-8")
    (early / "init").write_text(EARLY_INIT, encoding="utf-8")
    (early / "init").chmod(0o755)
    names = "".join(f"{path.relative_to(early)}\n" for path in sorted(early.rglob("*")))
    return run(busybox, "cpio", "-o", "-H", "newc", input=names.encode(), cwd=early)


def system(root, busybox):
    """The folder that becomes the root file system."""
    made = PLACE / "root"
    shutil.rmtree(made, ignore_errors=True)
    for name in ("bin", "sbin", "usr/bin", "usr/sbin", "etc", "boot/grub", "dev", "proc", "sys", "root", "data", "tmp"):
        (made / name).mkdir(parents=True)
    shutil.copy(busybox, made / "bin" / "busybox")
    for name in run(busybox, "--list-full").decode().split():
        if not (made / name).exists():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            os.symlink("/bin/busybox", made / name)
    for name, text in FILES.items():
        (made / name).write_text(text, encoding="utf-8")
        (made / name).chmod(0o755 if text.startswith("#!") else 0o644)
    [kernel] = (root / "boot").glob("vmlinuz-*")
    shutil.copy(kernel, made / "boot" / "vmlinuz")
    (made / "boot" / "initrd").write_bytes(early_root(root, busybox))
    return made


def loader(root):
    """The first sectors: GRUB's boot sector with the table of partitions, and the rest of GRUB in the gap behind it."""
    modules = root / "usr" / "lib" / "grub" / "i386-pc"
    core = PLACE / "core.img"
    run(str(root / "usr" / "bin" / "grub-mkimage"), "-d", str(modules), "-O", "i386-pc", "-p", "(hd0,msdos1)/boot/grub", "-o", str(core),
        "biosdisk", "part_msdos", "ext2", "normal", "linux")
    sector = bytearray((modules / "boot.img").read_bytes())
    entry = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", PARTITION_SECTOR, PARTITION_BYTES // SECTOR)
    sector[440:512] = bytes(6) + entry + bytes(3 * 16) + b"\x55\xaa"
    image = bytes(sector) + core.read_bytes()
    if len(image) > PARTITION_SECTOR * SECTOR:
        raise RuntimeError("GRUB does not fit before the partition")
    return image


def make(path):
    """The disk, as a new file."""
    root = fetch()
    [busybox] = (root / "bin").glob("busybox")
    folder = system(root, str(busybox))
    with open(path, "wb") as file:
        file.write(loader(root))
        file.truncate(PARTITION_SECTOR * SECTOR + PARTITION_BYTES)
    # Without the features that GRUB's reader does not know.
    run("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^metadata_csum_seed,^orphan_file", "-d", str(folder), "-E", f"offset={PARTITION_SECTOR * SECTOR},root_owner=0:0",
        str(path), f"{PARTITION_BYTES >> 10}k")


def file_system(path):
    """How e2fsprogs name the partition inside the file."""
    return f"{path}?offset={PARTITION_SECTOR * SECTOR}"
