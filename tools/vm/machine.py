# SPDX-License-Identifier: GPL-2.0
"""A machine that is reached by ssh, in place of a guest.

Jobs that say "machines: yes" can run between two machines, each with an interface that is cabled to the
other's, or to a switch. The runner copies tests and modules there, and starts tests/vm/guest/machine. That
script checks that nothing else uses the interface, moves it to a network namespace, and runs the agent that
guests have, too. When the connection ends, for whatever reason, it restores the machine's state.
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

# Directories that are copied to a machine: (the attribute of the configuration, the name there).
COPIES = (("tests", "tests"), ("build", "build"))
# Seconds that a machine has to restore its state.
UNDO = 60


@dataclass(frozen=True)
class Address:
    """A machine's ssh target, and its interface for the tests."""
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
    """Stands in for a link: machines have one of their own."""
    name = "machines"


class Machine:
    """The interface of guest.Guest, as far as a session uses it."""

    kind = "ssh"

    def __init__(self, side, config, _link, _rundir):
        self.side, self.config = side, config
        self.cpus, self.virtual = 1, False      # as a session wants guests
        self.address = config.machines["ab".index(side)]
        self.process = self.channel = None
        self.boots = 0
        self.errors = f"{config.logs}/ssh-{side}.log"

    def ssh(self, *command):
        return ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20",
                "-o", "ServerAliveInterval=15", *self.config.ssh_options, self.address.target,
                " ".join(shlex.quote(word) for word in command)]

    def boot(self):
        """Prepare the machine for jobs; wait_up() waits for it. A guest that a job has left in disorder is
        booted again. A machine is not prepared again: its owner has to look at it."""
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
        """Copies tests and modules to the machine. Returns the directory there."""
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
        # Discard earlier kernel messages, which the tests have not caused.
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
        """Does nothing: the way to a guest's stacks is a crash."""

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
            # The agent sees the end of its input, and the machine restores its state.
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
    """A filter for tar: leaves out the build directories beside the modules."""
    parts = member.name.split("/")
    return member if parts[0] != "build" or len(parts) == 1 or is_wanted(parts[1]) else None
