# SPDX-License-Identifier: GPL-2.0
"""The program victim, and peers that attack it.

The program tests/vm/prog/victim.c accepts connections, or opens them. An Attacker is the other end
of a connection, and makes its messages itself; `told` has the regions that the victim gave it.
"""

import copy
import errno
import itertools
import socket
import struct
import subprocess
import threading

from peer import SLOW, Failed, check, mpa, reset, tls
from peer.messages import RESPONSE, TERMINATE, WRITE, read_of, tagged
from peer.mpa import C, DEPTH, REPLY, REQUEST, S, frame
from peer.rping import Peer
from peer.stream import Stream

# tests/vm/prog/victim.c has the same numbers.
READS, FLOOD, EMPTY, PLACES_NOTHING, NO_READS, ATOMICS = 1, 2, 4, 8, 16, 32
FLOODS, RECEIVES, SINK_STEP, SINK_SIZE = 8, 8, 256, 64
DENY_AFTER = 24
RANGES = {"both": 0x1064, "write": 0x4010, "read": 0x6020, "other": 0x19008, "stale": 0x1a010,
          "local": 0x1c004}
AREA = 0x20000
# Byte i is i * 31 + (i >> 8) + 7.
_FIRST, _BYTES = bytes((i * 31 + 7) & 0xFF for i in range(256)), 2 * bytes(range(256))
PATTERN = b"".join(_FIRST.translate(_BYTES[n % 256:][:256]) for n in range(AREA >> 8))
# RFC 6581 s9: peer-to-peer, with the RTR that is a Write.
WRITE_RTR = 0x8000 | 4, 0x8000 | 4
# An STag that does not exist: the device has not come to this index.
UNKNOWN = 0x7FFFFF01
# The sink of a Read that tests whether a connection lives.
PROBE = 0x50524F42


class Range:
    """A region of memory, and its STag."""

    def __init__(self, name, at, size, stag):
        self.name, self.at, self.size, self.stag = name, at, size, stag

    def holds(self, at, size):
        return self.at <= at and at + size <= self.at + self.size


class Told:
    """The private data in which the victim describes a connection's memory."""

    def __init__(self, data):
        self.qpn, self.receive_size, self.receive_at, self.sink_at = struct.unpack("!IIQQ", data[:24])
        self.ranges = {}
        for i, name in enumerate(RANGES):
            given = Range(name, *struct.unpack("!QII", data[24 + 16 * i:40 + 16 * i]))
            self.ranges[name] = given
            setattr(self, name, given)
        self.area = self.both.at - RANGES["both"]

    def pattern(self, at, size):
        return PATTERN[at - self.area:at - self.area + size]


class Program:
    """A program of the job. A thread handles the lines that it prints."""

    def __init__(self, *command):
        self.name = command[0]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        self.news = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            with self.news:
                self.line(line.strip())
                self.news.notify_all()

    def lives(self):
        check(self.process.poll() is None, f"{self.name} has ended: {self.last()}")

    def wait(self, what, message, seconds=10):
        with self.news:
            check(self.news.wait_for(what, seconds * SLOW), f"{self.name}: {message}")


class Victim(Program):
    # Whether the victim opens the connections.
    calls = False

    def __init__(self, address, port):
        self.address, self.port = address, port
        self.ready, self.ends, self.odd, self.bad = False, {}, [], 0
        self.denied, self.freed = set(), set()
        self.tokens, self.lock = itertools.count(1), threading.Lock()
        super().__init__("victim", address, str(port))
        self.wait(lambda: self.ready, "not ready")

    def line(self, line):
        words = line.split()
        if words[:1] == ["end"]:
            verdict = " ".join(words[2:-1])
            self.ends[int(words[1])] = verdict, int(words[-1].partition("=")[2])
            if verdict not in ("ok", "gone"):
                self.odd.append(line)
        elif line == "ready":
            self.ready = True
        elif words[:1] == ["denied"]:
            self.denied.add(int(words[1]))
        elif words[:1] == ["freed"]:
            self.freed.add(int(words[1]))
        else:
            self.odd.append(line)

    def last(self):
        return " / ".join(self.odd[-3:])

    def say(self, line):
        with self.lock:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def caller(self):
        """The same victim, but it connects to its attackers."""
        other = copy.copy(self)
        other.calls = True
        return other

    def call(self, sock, token, flags, receives):
        """Has the victim connect to the socket; returns the connection."""
        sock.bind((self.address, 0))
        sock.listen(1)
        self.say(f"connect {sock.getsockname()[1]} {token} {flags} {receives}")
        with sock:
            return sock.accept()[0]

    def deny(self, token):
        """Has the victim take the right to write from a peer, which has written DENY_AFTER bytes."""
        self.say(f"deny {token}")
        self.wait(lambda: token in self.denied or self.odd, "the right is not taken away")
        check(token in self.denied, self.last())

    def free(self, token, name=None):
        """Has the victim deregister a region, BOTH when the peer has written DENY_AFTER bytes, or destroy the
        queue pair."""
        self.say(f"free {token} {[*RANGES, None].index(name)}")
        self.wait(lambda: token in self.freed or self.odd, f"the end of {name or 'the queue pair'} does not return")
        check(token in self.freed, self.last())

    def ended(self, token, seconds=10):
        """Waits for the end of a connection, whose memory and queues have to be intact; returns how
        many messages it received."""
        self.wait(lambda: token in self.ends or self.process.poll() is not None,
                  "a connection does not end", seconds)
        self.lives()
        verdict, got = self.ends.pop(token)
        check(verdict in ("ok", "gone"), verdict)
        return got

    def forgive(self, token):
        """Drops what the victim has printed of this connection."""
        self.odd[:] = [line for line in self.odd if line.split()[:2] != ["end", str(token)]]

    def stop(self):
        self.process.stdin.close()
        check(self.process.wait(10 * SLOW) == 0, f"the victim fails: {self.last()}")


class Attacker(Peer):
    """A connection with the victim, with TLS or without. While `passing`, next() skips all but a Terminate, and
    keeps it in `passed`. ("enhanced" has no meaning where the victim connects.) `offers`: reserved bits of
    a Request with `enhanced`, or of a Reply."""

    def __init__(self, victim, flags=0, receives=RECEIVES, window=None, enhanced=None,
                 behind=b"", offers=0, mss=None):
        self.victim, self.token = victim, next(victim.tokens)
        self.passing, self.passed = False, []
        sock = socket.socket()
        if window:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        if mss:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(10 * SLOW)
        if victim.calls:
            Stream.__init__(self, tls.over(victim.call(sock, self.token, flags, receives), server=True))
            head = self.receive(20)
            check(head[:16] == REQUEST and head[16] & S, f"no Request: {head!r}")
            data = self.receive(struct.unpack("!H", head[18:])[0])
            self.ird = struct.unpack("!H", data[:2])[0] & DEPTH
            self.told = Told(data[4:])
            # The victim sends an RTR, in the only form that this Reply offers, a Write.
            knows = mpa.KNOWS if offers else 0
            self.sock.sendall(frame(REPLY, C | S | offers | knows, 2, mpa.enhanced(*WRITE_RTR)) + behind)
            rtr = super().next()
            check(rtr[:2] == tagged(WRITE, 0, 0)[:2] and len(rtr) == 14, f"no RTR: {rtr.hex()}")
            return
        sock.connect((victim.address, victim.port))
        Stream.__init__(self, tls.over(sock))
        data = struct.pack("!IBB", self.token, flags, receives)
        if enhanced is None:
            self.sock.sendall(frame(REQUEST, data=data) + behind)
        else:
            self.sock.sendall(frame(REQUEST, C | S | offers, 2, mpa.enhanced(*enhanced) + data))
        data = self.accepted()
        if enhanced:
            self.ird = struct.unpack("!H", data[:2])[0] & DEPTH
        self.told = Told(data[4:] if enhanced else data)

    def next(self):
        ulpdu = super().next()
        while self.passing and ulpdu and ulpdu[1] & 0xF != TERMINATE:
            self.passed.append(ulpdu)
            ulpdu = super().next()
        return ulpdu

    def next_or_reset(self):
        try:
            return self.next()
        except Failed as e:
            if isinstance(e.__cause__, ConnectionResetError):
                return b""
            raise

    def deliver(self, data, cuts=()):
        """Sends data in TCP segments that end at the cuts, as far as TCP_NODELAY ensures that."""
        start = 0
        for cut in [*cuts, len(data)]:
            self.sock.sendall(data[start:cut])
            start = cut

    def fin(self):
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError as e:
            # The victim has ended the connection.
            check(e.errno == errno.ENOTCONN, f"no FIN: {e}")

    def reset(self):
        reset(self.sock)

    def lives(self, reads=0):
        """After so many Reads, the victim answers another one with the right data."""
        t = self.told
        at = t.read.at + 5
        self.send(read_of(t.read.stag, at, 16, 1 + reads, sink=(PROBE, 0x10)))
        while (ulpdu := self.next())[2:6] != struct.pack("!I", PROBE):
            check(ulpdu, "the connection has ended")
            check(ulpdu[1] & 0xF != TERMINATE, f"a Terminate: {ulpdu[18:20].hex()}")
            self.passed.append(ulpdu)
        check(ulpdu == tagged(RESPONSE, PROBE, 0x10, t.pattern(at, 16)),
              f"not what was to be read: {ulpdu.hex()}")

    def closed(self):
        """The victim ends the connection with a FIN or a reset, and sends nothing before."""
        got = self.heard()
        check(not got, f"something comes before the end: {got and got.hex()}")

    def over(self, got=0):
        """Closes the connection; the victim's consumer has received so many messages."""
        self.sock.close()
        count = self.victim.ended(self.token)
        check(got is None or count == got, f"{count} messages delivered, not {got}")
