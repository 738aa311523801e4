# SPDX-License-Identifier: GPL-2.0
"""A machine with Debian on a disk of its own, which survives its reboots."""

import base64
import itertools
import os
import queue
import re
import shutil
import socket
import subprocess
import threading
import time

import arch
import tsc

OWN = arch.own_arch()
# On amd64 udev loads the driver of AES instructions, which takes for granted that there are those of CRCs, too.
CPU = OWN.stock_cpu + (",-aes,-vaes" if OWN.name == "amd64" else "")
# What the installed system says where, and that an oops ends the run. The rest is Debian's.
CMDLINE = f"root=/dev/vda rw console={OWN.console} net.ifnames=0 panic=-1 oops=panic systemd.show_status=no"


class Failed(Exception):
    """A step did not do what it should."""


class Machine:
    def __init__(self, side, image, packages, link, work):
        self.side, self.link, self.work = side, link, work
        self.disk = f"{work}/disk-{side}.ext4"
        self.fixed = (f"{image}/archive.ext4", packages)
        self.console = f"{work}/console-{side}.log"
        self.process = self.sock = None
        self.numbers = itertools.count(1)
        self.lines = queue.Queue()
        self.kmsg = []          # what the kernels said, of all boots
        subprocess.run(["cp", "--sparse=always", f"{image}/disk.ext4", self.disk], check=True)
        if os.path.exists(self.console):
            os.unlink(self.console)

    def debugfs(self, command):
        done = subprocess.run(["debugfs", "-R", command, self.disk], check=True, capture_output=True, text=True)
        return done.stdout

    def take(self, name):
        """Copies what the disk's /NAME points to, as a boot loader would."""
        target = re.search(r'Fast link dest: "(.*)"', self.debugfs(f"stat /{name}"))[1]
        copy = f"{self.work}/{name}-{self.side}"
        self.debugfs(f"dump /{target} {copy}")
        return copy

    def boot(self, timeout=180):
        """Start, and return the kernel's release when the agent is there."""
        port = f"{self.work}/agent-{self.side}"
        if os.path.exists(port):
            os.unlink(port)
        words = [CMDLINE, OWN.cmdline, OWN.stock_cmdline]
        khz = tsc.tsc_khz()
        if khz:
            words.append(f"tsc_early_khz={khz}")
        args = [*OWN.qemu, "-nodefaults", "-no-user-config", "-nographic", "-no-reboot",
                "-accel", "tcg,thread=multi", "-cpu", CPU, "-smp", "1", "-m", "1G",
                "-kernel", self.take("vmlinuz"), "-initrd", self.take("initrd.img"),
                "-append", " ".join(filter(None, words)),
                "-drive", f"file={self.disk},format=raw,if=virtio,cache=unsafe"]
        for path in self.fixed:
            args += ["-drive", f"file={path},format=raw,if=virtio,readonly=on,file.locking=off"]
        args += ["-device", "virtio-serial-pci,ioeventfd=off",
                 "-chardev", f"socket,id=agent,path={port},server=on,wait=off",
                 "-device", "virtserialport,chardev=agent,name=rsiw.agent",
                 "-device", "virtio-rng-pci",
                 "-serial", f"file:{self.console}.now", *self.link.arguments(self.side)]
        self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL,
                                        stdout=open(f"{self.work}/qemu-{self.side}.log", "ab"),
                                        stderr=subprocess.STDOUT)
        self.connect(port)
        word, release = self.line(timeout).split()
        assert word == "hello"
        return release

    def connect(self, port):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        for _ in range(200):
            try:
                self.sock.connect(port)
                break
            except OSError:
                time.sleep(0.05)
        else:
            raise Failed(f"host {self.side}: QEMU did not start")
        self.lines = queue.Queue()
        threading.Thread(target=self.read, args=(self.sock.makefile("r"), self.lines), daemon=True).start()

    @staticmethod
    def read(stream, lines):
        try:
            for line in stream:
                lines.put(line)
        except OSError:
            pass
        lines.put("")

    def line(self, timeout):
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            raise Failed(f"host {self.side} does not answer within {timeout} s") from None
        if not line:
            raise Failed(f"host {self.side} died")
        return line

    def ask(self, script):
        number = next(self.numbers)
        self.sock.sendall(f"{number} {base64.b64encode(script.encode()).decode()}\n".encode())
        return number

    def run(self, script, timeout=120):
        """(exit status, output) of a bash script."""
        number = self.ask(script)
        fields = self.line(timeout).split()
        assert fields[0] == str(number)
        return int(fields[1]), base64.b64decode("".join(fields[2:])).decode(errors="replace")

    def reboot(self, timeout=180):
        """Through the system's own shutdown; QEMU ends where a machine would start anew."""
        self.keep_log()
        # The agent may end before it can answer.
        self.ask("systemctl --no-block reboot")
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            raise Failed(f"host {self.side} does not shut down") from None
        self.after()
        return self.boot(timeout)

    def keep_log(self):
        self.kmsg += self.run("dmesg")[1].splitlines()

    def after(self):
        """Keeps what the console said."""
        with open(self.console, "ab") as console, open(f"{self.console}.now", "rb") as now:
            shutil.copyfileobj(now, console)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if os.path.exists(f"{self.console}.now"):
            self.after()
