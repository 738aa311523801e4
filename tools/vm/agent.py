# SPDX-License-Identifier: GPL-2.0
"""The runner's end of the channel to the agent in a guest.

One thread per guest reads frames (tests/vm/guest/agent.py explains the format)
and passes each to the command that it belongs to. A guest's request to run a
command on its peer goes through here to the other guest's channel, and the
output comes back the same way.
"""

import itertools
import json
import socket
import threading
import time


class GuestDied(Exception):
    """The channel ended, or the guest no longer answers."""


class Command:
    """A command that runs in a guest."""

    def __init__(self, channel, ident, sink, at_exit=None):
        self.channel, self.ident = channel, ident
        self.sink, self.at_exit = sink, at_exit
        self.done = threading.Event()
        self.status = None          # still None when done: the guest died

    def finish(self, status):
        self.status = status
        self.done.set()
        if self.at_exit:
            self.at_exit(status)

    def wait(self, timeout):
        """Exit status, or None after the time limit. Raises GuestDied."""
        if not self.done.wait(timeout):
            return None
        if self.status is None:
            raise GuestDied("the guest died")
        return self.status

    def kill(self):
        self.channel.send({"op": "kill", "id": self.ident})


class Channel:
    def __init__(self, path):
        self.path = path
        self.sock = None
        self.stream = None
        self.write_lock = threading.Lock()
        self.numbers = itertools.count(1)
        self.commands = {}
        self.relayed = {}           # a guest's request id -> Command on its peer
        self.hello = threading.Event()
        self.release = None
        self.closed = False
        self.peer = None            # the other guest's Channel
        self.env = {}               # variables for each command
        self.record = None          # sequence number of the last kernel message

    def connect(self, alive, timeout=20):
        deadline = time.monotonic() + timeout
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        while True:
            try:
                self.sock.connect(self.path)
                break
            except OSError:
                if not alive() or time.monotonic() > deadline:
                    raise GuestDied("qemu did not start") from None
                time.sleep(0.05)
        self.stream = self.sock.makefile("rb")
        threading.Thread(target=self.read, daemon=True).start()

    def send(self, header, body=b""):
        if body:
            header["n"] = len(body)
        try:
            with self.write_lock:
                self.sock.sendall(json.dumps(header).encode() + b"\n" + body)
        except OSError:
            self.close()

    def close(self):
        self.closed = True
        for command in list(self.commands.values()):
            command.finish(None)
        self.commands.clear()
        self.hello.set()
        try:
            self.sock.close()
        except OSError:
            pass

    def read(self):
        try:
            for line in self.stream:
                header = json.loads(line)
                body = self.stream.read(header["n"]) if header.get("n") else b""
                self.dispatch(header, body)
        except (OSError, ValueError):
            pass
        self.close()

    def dispatch(self, header, body):
        op, ident = header["op"], header.get("id")
        if op == "hello":
            self.release = header["release"]
            self.hello.set()
        elif op in ("out", "kmsg"):
            command = self.commands.get(ident)
            if command and command.sink:
                command.sink(body)
            if command and op == "kmsg":
                del self.commands[ident]
                command.finish(0)
        elif op == "exit":
            command = self.commands.pop(ident, None)
            if command:
                command.finish(header["status"])
        elif op == "peer":
            self.relay(ident, header["argv"])
        elif op == "peerkill":
            command = self.relayed.pop(ident, None)
            if command:
                command.kill()

    def relay(self, ident, argv):
        """Run a command on the other guest, for a program of this one (`peer`)."""
        def out(data):
            self.send({"op": "out", "id": ident}, data)

        def ended(status):
            self.relayed.pop(ident, None)
            if status is None:
                out(b"peer: the other guest died\n")
                status = 125
            self.send({"op": "exit", "id": ident, "status": status})

        if not self.peer or self.peer.closed:
            out(b"peer: there is no other guest\n")
            self.send({"op": "exit", "id": ident, "status": 125})
            return
        self.relayed[ident] = self.peer.start(argv, sink=out, group="job", at_exit=ended)

    # Requests of the runner.

    def start(self, argv, sink=None, group="misc", env=None, at_exit=None):
        command = Command(self, next(self.numbers), sink, at_exit)
        self.commands[command.ident] = command
        if self.closed:
            self.commands.pop(command.ident)
            command.finish(None)
            return command
        self.send({"op": "run", "id": command.ident, "argv": argv, "group": group,
                   "env": {**self.env, **(env or {})}})
        return command

    def run(self, argv, timeout=30, **kwargs):
        """Run a command to its end: (status, or None after the time limit; output)."""
        output = bytearray()
        command = self.start(argv, sink=output.extend, **kwargs)
        status = command.wait(timeout)
        if status is None:
            command.kill()
        return status, output.decode(errors="replace")

    def request(self, op, timeout, **fields):
        collected = bytearray()
        command = Command(self, next(self.numbers), collected.extend)
        self.commands[command.ident] = command
        self.send({"op": op, "id": command.ident, **fields})
        if command.wait(timeout) is None:
            raise GuestDied("the guest does not answer")
        return bytes(collected)

    def kill_group(self, group, timeout=20):
        self.request("killgroup", timeout, group=group)

    def kmsg(self, timeout=20):
        """Kernel messages since the last call, as lines of text. A line of its own reports lost messages."""
        return list(self.records(self.request("kmsg", timeout).decode(errors="replace")))

    def records(self, raw):
        for record in raw.split("\n"):
            # A continuation line begins with a blank: " KEY=value"
            if ";" not in record or record.startswith(" "):
                continue
            prefix, text = record.split(";", 1)
            _, number, stamp = [int(word) if word.isdigit() else 0
                                for word in f"{prefix},,".split(",")[:3]]
            # The agent's own lines have no number.
            if number:
                if self.record is not None and number > self.record + 1:
                    yield f"[{stamp / 1e6:12.6f}] kernel log: {number - self.record - 1} messages lost"
                self.record = number
            yield f"[{stamp / 1e6:12.6f}] {text}"
