# SPDX-License-Identifier: GPL-2.0
"""A machine that is reached by ssh, in place of a guest.

Two machines with an interface each, which is cabled to the other's or to a switch, run the jobs that
say "machines: yes". The runner copies tests and modules there, and starts tests/vm/guest/machine, which
checks that nothing else uses the interface, moves it to a namespace, and runs the same agent that
guests have. Whatever ends the connection, that script makes the machine what it was.
"""

import io
import re
import shlex
import socket
import subprocess
import tarfile
from dataclasses import dataclass

import output
from agent import Channel, GuestDied
from kernels import is_wanted

# What a machine gets a copy of: (directory of ours, its name there).
COPIES = (("tests", "tests"), ("build", "build"))
# So long, in seconds, a machine may take to become what it was.
UNDO = 60


@dataclass(frozen=True)
class Address:
    """How to reach a machine, and which of its interfaces is for the tests."""
    target: str
    interface: str

    @classmethod
    def parse(cls, text):
        """[USER@]HOST,INTERFACE"""
        match = re.fullmatch(r"(?:(\w[\w.-]*)@)?(\w[\w.:-]*|\[[\w.:%]+\]),([\w.@:-]{1,15})", text)
        if not match:
            raise SystemExit(f"vm: {text!r} is no machine: say [USER@]HOST,INTERFACE")
        return cls(f"{match[1] or 'root'}@{match[2]}", match[3])


class NamedLink:
    """The link is the machines' own."""
    name = "machines"


class Machine:
    """The interface of guest.Guest, as far as a session uses it."""

    kind = "ssh"

    def __init__(self, side, config, _link, _rundir, cpus):
        self.side, self.config, self.cpus = side, config, cpus
        self.address = config.machines["ab".index(side)]
        self.process = self.channel = None
        self.boots = 0
        self.errors = f"{config.logs}/ssh-{side}.log"

    def ssh(self, *command):
        return ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20",
                "-o", "ServerAliveInterval=15", *self.config.ssh_options, self.address.target,
                " ".join(shlex.quote(word) for word in command)]

    def boot(self):
        """Make the machine a host for jobs, without waiting until it is. It is done once: what a job has
        left behind that its end does not undo is for its owner to look at."""
        self.boots += 1
        if self.boots > 1:
            raise GuestDied(f"{self.address.target} was not as a job expects it to be after the last one: "
                            "look at it, and start again")
        directory = self.copy()
        ours, theirs = socket.socketpair()
        with theirs, open(self.errors, "ab") as errors:
            self.process = subprocess.Popen(
                self.ssh("bash", f"{directory}/tests/guest/machine", directory, self.side,
                         self.address.interface),
                stdin=theirs, stdout=theirs, stderr=errors)
        self.channel = Channel(None)
        self.channel.attach(ours)

    def copy(self):
        """Returns the directory there."""
        script = "set -e; d=$(mktemp -d /var/tmp/rsiw-tests.XXXXXX); tar -xf - -C $d; echo $d"
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for ours, there in COPIES:
                tar.add(getattr(self.config, ours), there, filter=wanted)
        try:
            done = subprocess.run(self.ssh("sh", "-c", script), input=archive.getvalue(),
                                  capture_output=True, timeout=300)
        except subprocess.TimeoutExpired:
            raise GuestDied(f"{self.address.target} does not take the copy of the tests") from None
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no reason"]
            raise GuestDied(f"{self.address.target}: {reason[0]}")
        return done.stdout.decode().strip()

    def wait_up(self, timeout):
        if not self.channel.hello.wait(timeout) or self.channel.closed:
            self.kill()
            reason = self.console_tail(1) or ["it did not come up"]
            raise GuestDied(f"{self.address.target}: {reason[0]}")
        # What the kernel said before is not the tests' doing.
        self.channel.kmsg()
        return []

    @property
    def alive(self):
        return (self.process is not None and self.process.poll() is None
                and not self.channel.closed)

    def begin_output(self, name):
        output.make(self.channel, name)

    def end_output(self, name):
        output.fetch(self.channel, name, self.config.out)

    def responds(self, timeout=15):
        try:
            return self.channel.run(["true"], timeout=timeout)[0] == 0
        except GuestDied:
            return False

    def stacks(self):
        """A machine is not made to crash."""

    def cpu_seconds(self):
        return 0

    def ending(self):
        return "hangs" if self.alive else "closed the connection"

    def console_tail(self, lines=40):
        try:
            with open(self.errors, errors="replace") as errors:
                return errors.read().splitlines()[-lines:]
        except FileNotFoundError:
            return []

    def kill(self):
        if self.channel:
            # The agent reads its input's end, and the machine becomes what it was.
            self.channel.shut()
        if self.process:
            try:
                self.process.wait(UNDO)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                print(f"vm: {self.address.target} may not be as it was: look at it", flush=True)
        if self.channel:
            self.channel.close()


def wanted(member):
    """Not the objects that a build leaves beside its modules."""
    parts = member.name.split("/")
    return member if parts[0] != "build" or len(parts) == 1 or is_wanted(parts[1]) else None
