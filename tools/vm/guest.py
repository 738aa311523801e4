# SPDX-License-Identifier: GPL-2.0
"""One guest: its QEMU process, console and boot."""

import os
import re
import subprocess
import time

from agent import Channel, GuestDied

COMMON = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-nographic",
          "-no-reboot", "-machine", "q35,usb=off,vmport=off,smbus=off"]
# Timers are real and the machine may be busy: what only means "slow" must
# not look like a bug. A user-space machine check of speed is not our test.
CMDLINE = ("console=ttyS0 loglevel=5 panic=-1 oops=panic unknown_nmi_panic "
           "log_buf_len=4M printk.devkmsg=on tsc=reliable no_timer_check "
           "watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120 net.ifnames=0 "
           "hung_task_panic=0 sysctl.kernel.hung_task_timeout_secs=60 "
           "mitigations=off")


# What emulation is slow at where real processors are fast, so that the kernel uses what it has for
# processors without: "rep movsb" and "crc32" go byte by byte and bit by bit. Without them copies
# are four times faster, zeroed pages ten times, CRCs twice.
CPU = "max,la57=off,-erms,-fsrm,-fsrs,-fzrm,-sse4.2,-pclmulqdq,-vpclmulqdq"
# Without SMAP (which throws away QEMU's translations at each access to a process's memory; the
# debug kernel looks after those accesses) and pages cleared twice it takes a tenth less time.
STOCK_CPU = f"{CPU},-smap"
STOCK_CMDLINE = "init_on_alloc=0"


def accelerator(kvm, cpu=CPU):
    return ["-accel", "kvm", "-cpu", "host"] if kvm else \
        ["-accel", "tcg,thread=multi", "-cpu", cpu]


def probe_kvm(boot, cache):
    """Whether KVM really runs a guest here: on some machines /dev/kvm opens
    and then fails. Asked once per start of the machine."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    with open("/proc/sys/kernel/random/boot_id") as boot_id:
        answer_file = f"{cache}/kvm-{boot_id.read().strip()}"
    try:
        with open(answer_file) as answer:
            return answer.read().strip() == "yes"
    except FileNotFoundError:
        pass
    try:
        probe = subprocess.run(
            [*COMMON, *accelerator(True), "-m", "512M", "-serial", "stdio",
             "-kernel", f"{boot}/vmlinuz", "-initrd", f"{boot}/initrd",
             "-append", f"{CMDLINE} rsiw.probe"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
        good = b"rsiw-probe-ok" in probe.stdout
    except subprocess.TimeoutExpired:
        good = False
    with open(answer_file, "w") as answer:
        answer.write("yes" if good else "no")
    return good


class Guest:
    def __init__(self, side, config, link, rundir, cpus):
        self.side, self.config, self.link = side, config, link
        self.rundir, self.cpus = rundir, cpus
        self.console = f"{config.logs}/console-{side}-{os.path.basename(rundir)}.log"
        self.boots = 0
        self.process = None
        self.channel = None
        self.started = None
        self.aborted = None     # by which signal QEMU died in the boot

    def command(self, serial, mode=""):
        config, port = self.config, f"{self.rundir}/agent-{self.side}"
        if os.path.exists(port):
            os.unlink(port)
        disk = "format=raw,if=virtio,readonly=on,file.locking=off"
        args = [*COMMON, *accelerator(config.kvm, config.cpu),
                # Each in a socket: the firmware's MP table lists these.
                "-smp", f"{self.cpus},sockets={self.cpus}", "-m", config.memory, "-name", f"host{self.side}",
                "-kernel", f"{config.boot}/vmlinuz", "-initrd", f"{config.boot}/initrd",
                "-append", f"{CMDLINE} rsiw.side={self.side} {mode} {config.append}",
                "-drive", f"file={config.disk},{disk}"]
        modules = f"{config.boot}/modules.ext4"
        if os.path.exists(modules):
            args += ["-drive", f"file={modules},{disk}"]
        for tag, path, access in (("tests", config.tests, "readonly=on"),
                                  ("build", config.build, "readonly=on"),
                                  ("out", config.out, "readonly=off"),
                                  # The build root, for jobs that want a compiler.
                                  ("root", "/", "readonly=on")):
            args += ["-virtfs", f"local,path={path},mount_tag={tag},"
                                f"security_model=none,{access},multidevs=remap"]
        args += ["-device", "virtio-serial-pci,ioeventfd=off",
                 "-chardev", f"socket,id=agent,path={port},server=on,wait=off",
                 "-device", "virtserialport,chardev=agent,name=rsiw.agent",
                 "-device", "virtio-rng-pci",
                 "-monitor", f"unix:{self.rundir}/monitor-{self.side},server=on,wait=off",
                 "-serial", serial]
        return args + self.link.arguments(self.side) + config.qemu_args

    def boot(self):
        """Start, without waiting until it is up."""
        self.boots += 1
        if os.path.exists(self.console):
            # Keep what an earlier, perhaps crashed, guest said.
            os.rename(self.console, f"{self.console}.{self.boots - 1}")
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            self.command(f"file:{self.console}"), stdin=subprocess.DEVNULL,
            stdout=open(f"{self.config.logs}/qemu-{self.side}.log", "ab"),
            stderr=subprocess.STDOUT)
        self.channel = Channel(f"{self.rundir}/agent-{self.side}")
        self.channel.connect(lambda: self.process.poll() is None)

    def wait_up(self, timeout):
        self.aborted = None
        if not self.channel.hello.wait(timeout) or self.channel.closed:
            time.sleep(0.5)
            status = self.process.poll()
            if status is not None and status < 0:
                self.aborted = -status
            self.kill()
            raise GuestDied(f"host{self.side} did not come up")
        # What the boot said is no job's concern, except that it went wrong.
        return self.channel.kmsg()

    def cpu_seconds(self):
        """The processor time of this boot."""
        try:
            with open(f"/proc/{self.process.pid}/stat") as stat:
                fields = stat.read().rpartition(")")[2].split()
        except (AttributeError, OSError):
            return 0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def kind(self):
        return "KVM" if self.config.kvm else "TCG"

    def begin_output(self, name):
        """A job's output directory is the machine's, which the guest has mounted."""

    def end_output(self, name):
        """See begin_output."""

    @property
    def alive(self):
        return (self.process is not None and self.process.poll() is None
                and not self.channel.closed)

    def ending(self):
        """What became of QEMU, if it is that which ended."""
        status = self.process.poll() if self.process else None
        if status is None:
            return "hangs" if not self.channel.closed else "closed its channel"
        return "crashed" if status == 0 else f"was ended (QEMU: status {status})"

    def responds(self, timeout=15):
        try:
            status, _ = self.channel.run(["true"], timeout=timeout)
        except GuestDied:
            return False
        return status == 0

    def stacks(self):
        """Ask a hung guest where it is: an NMI makes it print and die."""
        try:
            subprocess.run(["socat", "-", f"UNIX-CONNECT:{self.rundir}/monitor-{self.side}"],
                           input=b"nmi\n", capture_output=True, timeout=5)
        except (OSError, subprocess.TimeoutExpired):
            return
        time.sleep(3)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()
        if self.channel:
            self.channel.close()

    def console_tail(self, lines=40):
        try:
            with open(self.console, errors="replace") as console:
                text = console.read()
        except FileNotFoundError:
            return []
        # Terminal control has no place in a log.
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", text).splitlines()[-lines:]
