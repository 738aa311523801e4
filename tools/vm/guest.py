# SPDX-License-Identifier: GPL-2.0
"""One guest: its QEMU process, console and boot."""

import io
import os
import re
import subprocess
import tarfile
import time

from agent import Channel, GuestDied


PMEM_UNIT = 2 << 20
PMEM_ROOM = ",maxmem=64G"   # of the guest's addresses


def pmem(nth, path):
    """QEMU's arguments for a disk that is memory of the guest. To read it is to copy memory: a guest that waits for
    no device is not idle, so its virtual time does not jump."""
    size = -(-os.path.getsize(path) // PMEM_UNIT) * PMEM_UNIT
    if os.path.getsize(path) != size:
        os.truncate(path, size)
    return ["-object", f"memory-backend-file,id=pmem{nth},mem-path={path},size={size},share=off",
            "-device", f"virtio-pmem-pci,memdev=pmem{nth}"]


class Guest:
    def __init__(self, side, config, link, rundir, cpus=1):
        self.side, self.config, self.link = side, config, link
        self.kernel = config.kernels["ab".index(side)]
        self.rundir, self.cpus = rundir, cpus
        self.virtual = False    # whether it is on virtual time
        self.console = f"{config.logs}/console-{side}-{os.path.basename(rundir)}.log"
        self.boots = 0
        self.process = None
        self.channel = None
        self.started = None

    def command(self, serial, mode=""):
        config, kernel, port = self.config, self.kernel, f"{self.rundir}/agent-{self.side}"
        if os.path.exists(port):
            os.unlink(port)
        args = [*kernel.command(self.virtual),
                # A socket for each CPU: the firmware's MP table lists sockets, not cores.
                "-smp", f"{self.cpus},sockets={self.cpus}", "-m", config.memory + (PMEM_ROOM if self.virtual else ""),
                "-name", f"host{self.side}"]
        disks = {"root": kernel.disk, "modules": f"{kernel.boot}/modules.ext4", "shares": self.shares}
        for nth, (name, path) in enumerate((name, path) for name, path in disks.items() if os.path.exists(path)):
            if self.virtual:
                args += pmem(nth, path)
                mode += f" rsiw.{name}=/dev/pmem{nth}"
            else:
                args += ["-drive", f"file={path},format=raw,if=virtio,readonly=on,file.locking=off"]
                mode += f" rsiw.{name}=/dev/vd{'abc'[nth]}"
        args += ["-append", f"{kernel.words(self.virtual)} rsiw.side={self.side} {mode}"]
        for tag, path, access in (("tests", config.tests, "readonly=on"),
                                  ("build", kernel.build, "readonly=on"),
                                  ("out", config.out, "readonly=off"),
                                  # The build root, for jobs that need a compiler.
                                  ("root", "/", "readonly=on")) if not self.shares else ():
            args += ["-virtfs", f"local,path={path},mount_tag={tag},"
                                f"security_model=none,{access},multidevs=remap"]
        args += ["-device", "virtio-serial-pci,ioeventfd=off",
                 "-chardev", f"socket,id=agent,path={port},server=on,wait=off",
                 "-device", "virtserialport,chardev=agent,name=rsiw.agent",
                 "-device", "virtio-rng-pci",
                 "-monitor", f"unix:{self.rundir}/monitor-{self.side},server=on,wait=off",
                 "-serial", serial]
        if config.insns:
            # Jobs see the file as /out/insns-SIDE.
            args += ["-plugin", f"{config.top}/build/insns.so,out={config.out}/insns-{self.side}"]
        return args + self.link.arguments(self.side) + config.qemu_args

    def boot(self):
        """Start the guest; wait_up() waits for it."""
        self.boots += 1
        if os.path.exists(self.console):
            # Keep the console of the earlier boot, which may have crashed.
            os.rename(self.console, f"{self.console}.{self.boots - 1}")
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            self.command(f"file:{self.console}"), stdin=subprocess.DEVNULL,
            stdout=open(f"{self.config.logs}/qemu-{self.side}.log", "ab"),
            stderr=subprocess.STDOUT)
        self.channel = Channel(f"{self.rundir}/agent-{self.side}")
        self.channel.connect(lambda: self.process.poll() is None)

    def wait_up(self, timeout):
        if not self.channel.hello.wait(timeout) or self.channel.closed:
            time.sleep(0.5)
            ending = self.ending()
            self.kill()
            raise GuestDied(f"host{self.side} {ending}, before it was up")
        # Messages of the boot belong to no job; the caller looks for reports among them.
        return self.channel.kmsg()

    def cpu_seconds(self):
        """QEMU's processor time since this boot began."""
        try:
            with open(f"/proc/{self.process.pid}/stat") as stat:
                fields = stat.read().rpartition(")")[2].split()
        except (AttributeError, OSError):
            return 0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def kind(self):
        return "virtual time" if self.virtual else "KVM" if self.kernel.kvm else "TCG"

    @property
    def shares(self):
        """A disk with tests and build, if this guest has no 9p."""
        return self.kernel.shares if self.virtual or not self.kernel.has_9p else ""

    def begin_output(self, name):
        """A job writes its output to a directory of the machine, or, if the guest cannot mount that, to one
        in the guest, which end_output() fetches."""
        if self.shares:
            self.channel.run(["mkdir", "-p", f"/out/{name}"])

    def end_output(self, name):
        """See begin_output."""
        if not self.shares:
            return
        archive = bytearray()
        try:
            command = self.channel.start(["tar", "-C", "/out", "-cf", "-", name], sink=archive.extend)
            if command.wait(60) != 0:
                return
            with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
                tar.extractall(self.config.out, filter="data")
        except (GuestDied, tarfile.TarError):
            pass        # The session notices by itself.

    @property
    def alive(self):
        return (self.process is not None and self.process.poll() is None
                and not self.channel.closed)

    def ending(self):
        """How the guest ended, as words for a report."""
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
        """Make a hung guest print its stacks and panic, by an NMI."""
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
        # Without terminal control sequences.
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", text).splitlines()[-lines:]
