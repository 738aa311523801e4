# SPDX-License-Identifier: GPL-2.0
"""The agent in a guest, which carries out what the runner asks for.

They talk over a virtio-serial port, not over the network under test. A frame is one line of JSON, and "n" raw bytes
if the JSON has such a field.

From the runner: run (id argv env cwd group), kill (id), killgroup (group, id),
kmsg (id). To the runner: hello, out (id n), exit (id status), kmsg (id n).
A program of this guest can have a command run on the other one (see
tests/vm/prog/peer.c): the agent gets the request on a Unix socket and passes it to the runner, which
answers with out and exit under the same id.
"""

import errno
import json
import os
import selectors
import signal
import socket
import subprocess

PORT_NAME = "rsiw.agent"
PEER_SOCKET = "/run/rsiw/peer"
CGROUPS = "/sys/fs/cgroup"


def open_port():
    ports = "/sys/class/virtio-ports"
    for port in os.listdir(ports):
        with open(f"{ports}/{port}/name") as name:
            if name.read().strip() == PORT_NAME:
                return os.open(f"/dev/{port}", os.O_RDWR | os.O_NONBLOCK)
    raise SystemExit("agent: no virtio-serial port")


class Frames:
    """Cuts a byte stream into (header, data) frames."""

    def __init__(self):
        self.buffer = bytearray()

    def feed(self, data):
        self.buffer += data
        while True:
            end = self.buffer.find(b"\n")
            if end < 0:
                return
            header = json.loads(self.buffer[:end])
            size = header.get("n", 0)
            if len(self.buffer) < end + 1 + size:
                return
            body = bytes(self.buffer[end + 1:end + 1 + size])
            del self.buffer[:end + 1 + size]
            yield header, body


def frame(header, body=b""):
    if body:
        header["n"] = len(body)
    return json.dumps(header).encode() + b"\n" + body


class Agent:
    def __init__(self):
        self.port = open_port()
        self.selector = selectors.DefaultSelector()
        self.incoming = Frames()
        self.outgoing = bytearray()
        self.commands = {}      # id -> Popen
        self.peers = {}         # id -> socket of the local program that asked
        self.next_peer = 0
        self.kmsg = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)

        os.makedirs(os.path.dirname(PEER_SOCKET), exist_ok=True)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(PEER_SOCKET)
        self.listener.listen(64)

        # A child's end interrupts select() through this pipe.
        wake_r, wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

        watch = self.selector.register
        watch(self.port, selectors.EVENT_READ, self.on_port)
        self.full = False       # the port takes no more at the moment
        watch(self.listener, selectors.EVENT_READ, self.on_listener)
        watch(wake_r, selectors.EVENT_READ, self.on_child)
        self.wake = wake_r

    def send(self, header, body=b""):
        self.outgoing += frame(header, body)
        self.flush()

    def flush(self):
        while self.outgoing:
            try:
                del self.outgoing[:os.write(self.port, self.outgoing[:65536])]
            except BlockingIOError:
                break
        if self.full != bool(self.outgoing):
            self.full = bool(self.outgoing)
            # Has on_port called when a full port takes more.
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.full else 0)
            self.selector.modify(self.port, events, self.on_port)

    def on_port(self, events):
        if events & selectors.EVENT_WRITE:
            self.flush()
        if not events & selectors.EVENT_READ:
            return
        try:
            data = os.read(self.port, 65536)
        except BlockingIOError:
            return
        if not data:
            raise SystemExit("agent: the runner is gone")
        for header, body in self.incoming.feed(data):
            getattr(self, "op_" + header["op"])(header, body)

    # Commands of the runner.

    def op_run(self, header, _body):
        ident, group = header["id"], header.get("group", "misc")
        cgroup = f"{CGROUPS}/{group}"
        os.makedirs(cgroup, exist_ok=True)

        def enter():
            with open(f"{cgroup}/cgroup.procs", "w") as procs:
                procs.write("0")

        try:
            child = subprocess.Popen(
                header["argv"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=enter,
                cwd=header.get("cwd", "/tmp"),
                env={**os.environ, **header.get("env", {})})
        except (OSError, subprocess.SubprocessError) as error:
            self.send({"op": "out", "id": ident}, f"agent: {error}\n".encode())
            self.send({"op": "exit", "id": ident, "status": 127})
            return
        os.set_blocking(child.stdout.fileno(), False)
        self.commands[ident] = child
        self.selector.register(child.stdout, selectors.EVENT_READ,
                               lambda _events: self.on_output(ident, child))

    def op_kill(self, header, _body):
        child = self.commands.get(header["id"])
        if child:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def op_killgroup(self, header, _body):
        # The kernel kills the group as a whole: nothing can fork away.
        try:
            with open(f"{CGROUPS}/{header['group']}/cgroup.kill", "w") as kill:
                kill.write("1")
        except FileNotFoundError:
            pass
        self.send({"op": "exit", "id": header["id"], "status": 0})

    def op_kmsg(self, header, _body):
        records = []
        while True:
            try:
                records.append(os.read(self.kmsg, 8192))
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.EPIPE:
                    raise
                records.append(b"4,0,0,-;kernel log: records lost, it overran\n")
        self.send({"op": "kmsg", "id": header["id"]}, b"".join(records))

    # Output and end of what was started.

    def on_output(self, ident, child):
        if child.stdout.closed:     # ended earlier in this round of events
            return False
        try:
            data = os.read(child.stdout.fileno(), 65536)
        except BlockingIOError:
            return False
        if data:
            self.send({"op": "out", "id": ident}, data)
            return True
        self.selector.unregister(child.stdout)
        child.stdout.close()
        return False

    def on_child(self, _events):
        os.read(self.wake, 4096)
        for ident, child in list(self.commands.items()):
            status = child.poll()
            if status is None:
                continue
            # What is left in the pipe is output of the command. A daemon may still hold the
            # other end; the command has ended all the same.
            while not child.stdout.closed and self.on_output(ident, child):
                pass
            if not child.stdout.closed:
                self.selector.unregister(child.stdout)
                child.stdout.close()
            del self.commands[ident]
            if status < 0:
                status = 128 - status
            self.send({"op": "exit", "id": ident, "status": status})

    # Requests of programs of this guest to run a command on the other one.

    def on_listener(self, _events):
        client, _ = self.listener.accept()
        client.setblocking(False)
        self.next_peer += 1
        ident, request = f"peer{self.next_peer}", bytearray()
        self.peers[ident] = client
        self.selector.register(
            client, selectors.EVENT_READ,
            lambda _events: self.on_client(ident, client, request))

    def on_client(self, ident, client, request):
        try:
            data = client.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.drop_client(ident)
            self.send({"op": "peerkill", "id": ident})
            return
        request += data
        if len(request) >= 4 and len(request) == 4 + int.from_bytes(request[:4], "big"):
            argv = request[4:].decode(errors="surrogateescape").split("\0")[:-1]
            self.send({"op": "peer", "id": ident, "argv": argv})

    def drop_client(self, ident):
        client = self.peers.pop(ident, None)
        if client:
            self.selector.unregister(client)
            client.close()

    def to_client(self, ident, kind, number, data=b""):
        client = self.peers.get(ident)
        if not client:
            return
        try:
            client.settimeout(5)
            client.sendall(kind + number.to_bytes(4, "big") + data)
            client.setblocking(False)
        except OSError:
            self.drop_client(ident)

    def op_out(self, header, body):
        self.to_client(header["id"], b"o", len(body), body)

    def op_exit(self, header, _body):
        self.to_client(header["id"], b"x", header["status"])
        self.drop_client(header["id"])

    def loop(self):
        self.send({"op": "hello", "release": os.uname().release})
        while True:
            for key, events in self.selector.select():
                key.data(events)


if __name__ == "__main__":
    Agent().loop()
