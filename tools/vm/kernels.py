# SPDX-License-Identifier: GPL-2.0
"""The kernels that guests boot, each with its files, QEMU's machine and its command line."""

import os
import shutil
import subprocess
from dataclasses import dataclass

from arch import Arch, arch_of, own_arch

# The watchdogs' limits are long, because emulated guests on a busy machine are slow in real time, which must
# not look like a bug.
CMDLINE = ("loglevel=5 panic=-1 oops=panic log_buf_len=4M printk.devkmsg=on "
           "watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120 net.ifnames=0 "
           "hung_task_panic=0 sysctl.kernel.hung_task_timeout_secs=60 mitigations=off")
# The kernels that tools/kernel-debug builds. All others are the distribution's, which jobs call stock.
OWN = ("debug", "kcsan")
# The clock of a guest on virtual time counts instructions, 2 ns for each. While the guest is idle the clock jumps to
# the next timer. The TSC is this clock in nanoseconds.
ICOUNT = "shift=1,sleep=off"
ICOUNT_TSC_KHZ = 1_000_000


@dataclass
class Kernel:
    name: str           # as in tools/flavour.sh
    arch: Arch
    boot: str           # directory of vmlinuz, initrd and modules.ext4
    disk: str           # the guest's disk, of the same architecture
    build: str          # directory of the modules and programs for it
    kvm: bool = False
    cpu: str = ""
    cmdline: str = ""
    tsc_khz: int = 0    # 0: the guest measures it
    shares: str = ""    # a disk with tests and build, for guests without 9p

    @property
    def family(self):
        """The name that jobs use: stock, debug or kcsan."""
        return self.name if self.name in OWN else "stock"

    def command(self, virtual=False):
        """QEMU's command line for this kernel, without disks and devices."""
        if virtual:
            accel = ["-accel", "tcg,thread=single", "-icount", ICOUNT, "-cpu", self.cpu]
        elif self.kvm:
            accel = ["-accel", "kvm", "-cpu", "host"]
        else:
            accel = ["-accel", "tcg,thread=multi", "-cpu", self.cpu]
        return [*self.arch.qemu, "-nodefaults", "-no-user-config", "-nographic", "-no-reboot", *accel,
                "-kernel", f"{self.boot}/vmlinuz", "-initrd", f"{self.boot}/initrd"]

    def words(self, virtual=False):
        """The kernel's command line."""
        khz = ICOUNT_TSC_KHZ if virtual and self.arch.name == "amd64" else self.tsc_khz
        return f"{self.cmdline} tsc_early_khz={khz}" if khz else self.cmdline

    @property
    def has_9p(self):
        return not os.path.exists(f"{self.boot}/no-9p")

    @property
    def has_pmem(self):
        return not os.path.exists(f"{self.boot}/no-pmem")


def probe_kvm(kernel, cache):
    """Whether KVM can run a guest here: on some machines /dev/kvm opens, but
    guests fail. The answer is kept until the machine reboots."""
    if kernel.arch != own_arch() or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    with open("/proc/sys/kernel/random/boot_id") as boot_id:
        answer_file = f"{cache}/kvm-{boot_id.read().strip()}"
    try:
        with open(answer_file) as answer:
            return answer.read().strip() == "yes"
    except FileNotFoundError:
        pass
    kernel.kvm = True
    try:
        probe = subprocess.run(
            [*kernel.command(), "-m", "512M", "-serial", "stdio",
             "-append", f"console={kernel.arch.console} {kernel.arch.cmdline} {CMDLINE} rsiw.probe"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
        good = b"rsiw-probe-ok" in probe.stdout
    except subprocess.TimeoutExpired:
        good = False
    kernel.kvm = False
    with open(answer_file, "w") as answer:
        answer.write("yes" if good else "no")
    return good


def make_kernel(args, name, boot, disk, tsc_khz):
    """The kernel with this name and the runner's options; tsc_khz() measures the time stamp counter."""
    arch = arch_of(name)
    kernel = Kernel(name, arch, boot, disk, f"{args.top}/build/{args.build or name}")
    kernel.kvm = args.accel == "kvm" or args.accel == "auto" and probe_kvm(kernel, args.cache)
    own = kernel.family != "stock"
    kernel.cpu = args.cpu or (arch.cpu if own else arch.stock_cpu)
    words = [f"console={arch.console}", arch.cmdline, CMDLINE]
    if not own and not args.cpu:
        words.append(arch.stock_cmdline)
    if not kernel.kvm and arch.name == "amd64":
        kernel.tsc_khz = tsc_khz() or 0
    if own:
        # With all checks on, ACPI takes minutes under emulation.
        words.append("acpi=off")
        # A module's KUnit suites run when it is loaded, if they match the filter. This filter matches none; the
        # job kunit/suites sets its own.
        words.append("kunit.enable=1 kunit.autorun=1 kunit.filter_glob=none.none")
    if name == "kcsan":
        # KCSAN watches one access in 2000, and delays it long enough for the guest's other processor to get a
        # processor of the machine. The guest's init enables KCSAN.
        words.append("kcsan.early_enable=0 kcsan.skip_watch=2000 kcsan.udelay_task=500 "
                     "kcsan.udelay_interrupt=200")
    kernel.cmdline = " ".join([*filter(None, words), args.append])
    return kernel


def is_wanted(name):
    """Whether a guest needs a file of build/KERNEL: modules, programs and libraries, but not the build directories."""
    return name.endswith(".ko") or name in ("bin", "provider")


def make_shares(kernel, tests, rundir):
    """Makes a disk with tests and products, for guests without 9p. Later changes do not reach the guests."""
    tree, kernel.shares = f"{rundir}/shares-{kernel.name}", f"{rundir}/shares-{kernel.name}.ext4"
    shutil.copytree(tests, f"{tree}/tests", symlinks=True)
    os.mkdir(f"{tree}/build")
    for name in filter(is_wanted, os.listdir(kernel.build)):
        source = f"{kernel.build}/{name}"
        (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, f"{tree}/build/{name}")
    size = sum(os.lstat(os.path.join(folder, name)).st_size + 4096
               for folder, folders, names in os.walk(tree) for name in folders + names)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", tree,
                    kernel.shares, f"{size * 5 // 4 // 2**20 + 20}M"], check=True)
    shutil.rmtree(tree)
