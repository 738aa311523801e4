# SPDX-License-Identifier: GPL-2.0
"""Calls queue pairs by name by hand, for programs whose first arguments are DEVICE GID-INDEX ADDRESS, those of the
queue pairs on this host. The caller has addresses of its own, OURS and OTHER, below that."""

import fcntl
import os
import socket
import struct
import subprocess
import sys
import termios
import threading

from peer import SLOW, Failed, check, wait_until
from peer.messages import SEND, WRITE, tagged, untagged
from peer.mpa import (A, B, C, R, REPLY, REQUEST, RTR_READ, RTR_WRITE, S, enhanced, frame,
                      receive_frame)
from peer.stream import Stream

DEVICE, INDEX, ADDRESS = sys.argv[1:4]
PORT = int(os.environ.get("RC_PORT", "4791"))
OURS, OTHER = "10.7.88.1", "10.7.88.9"
LOCAL_OURS, LOCAL = "fe80::1", "fe80::99"
QPN = 77
# The code of 2.56 ms.
SHORT = 16


def gid(address):
    if ":" in address:
        return socket.inet_pton(socket.AF_INET6, address)
    return bytes(10) + b"\xff\xff" + socket.inet_aton(address)


def call(to_qpn, from_qpn=QPN, to=None, from_=OURS, magic=b"rsRC", version=2, rest=b"\0\0\0"):
    """The private data of a call."""
    return (magic + bytes([version]) + rest + struct.pack("!II", to_qpn, from_qpn) +
            gid(to or ADDRESS) + gid(from_))


class Waiting:
    """Queue pairs that wait for a caller."""

    def __init__(self, count=1, peer=OURS, index=None, rnr=(7, 0)):
        peer = peer if ":" in peer else "::ffff:" + peer
        command = ["rcwait", DEVICE, index or INDEX, peer, str(QPN), str(count), "0", "0",
                   *map(str, rnr)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.qpn = self.number()
        except Failed:
            self.process.kill()
            raise

    def line(self, seconds=60):
        """The next line of the program. If it says nothing for so long, it ends."""
        late = threading.Timer(seconds * SLOW, self.process.kill)
        late.start()
        said = self.process.stdout.readline()
        late.cancel()
        check(said, f"rcwait has ended, or has said nothing for {seconds} s")
        return said.strip()

    def number(self):
        line = self.line()
        check(line.isdigit(), f"rcwait says {line!r}")
        return int(line)

    def says(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def states(self):
        self.says("state")
        return self.line().split()[1:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def dial(private_data, from_=OURS, flags=C | S, depths=None, port=0):
    """Sends a Request from an address."""
    return ask(socket.create_connection((ADDRESS, PORT), timeout=30, source_address=(from_, port)), private_data,
               flags, depths)


def dial_local(private_data, netdev):
    """Sends a Request from and to a link-local address."""
    scope = socket.if_nametoindex(netdev)
    sock = socket.socket(socket.AF_INET6)
    sock.settimeout(30)
    sock.bind((LOCAL_OURS, 0, 0, scope))
    sock.connect((LOCAL, PORT, 0, scope))
    return ask(sock, private_data)


def ask(sock, private_data, flags=C | S, depths=None):
    depths = enhanced(A | B | 4, RTR_WRITE | RTR_READ | 4) if depths is None else depths
    sock.sendall(frame(REQUEST, flags, 2, depths + private_data))
    return sock


def taken(sock):
    """Waits until the device has read what was sent."""
    ends = f"( sport = :{PORT} and dport = :{sock.getsockname()[1]} )"

    def under_way():
        acknowledged = fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)) == bytes(4)
        said = subprocess.run(["ss", "-Htn", ends], stdout=subprocess.PIPE, text=True, check=True)
        return not acknowledged or said.stdout.split()[1] != "0"

    wait_until(lambda: not under_way(), "the device does not read")


def rejected(sock):
    flags, _, _ = receive_frame(sock, REPLY)
    check(flags & R, f"not rejected: flags {flags:#x}")


def admitted(sock):
    """The Reply accepts."""
    flags, revision, data = receive_frame(sock, REPLY)
    check(revision == 2 and not flags & R, f"flags {flags:#x}, revision {revision}")
    check(struct.unpack("!H", data[:2])[0] & A, "not peer-to-peer")


def accepted(sock):
    """The Reply accepts, and the queue pair takes a Send."""
    admitted(sock)
    stream = Stream(sock)
    stream.send(tagged(WRITE, 0, 0))
    return stream


def receives(waiting, stream, n=0):
    stream.send(untagged(SEND, b"hello"))
    said = waiting.line()
    check(said == f"received {n}", f"rcwait says {said!r}")
