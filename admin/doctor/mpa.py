# SPDX-License-Identifier: GPL-2.0
"""Who answers at a TCP port: iWARP, another program, or nobody. An MPA Request by a plain TCP socket tells.

The Reply has the peer's MPA revision, whether it uses CRCs, and its Read limits (RFC 5044 section 7.1, RFC 6581
section 6). For the peer's program this is a connection that ends at once. So --no-mpa leaves it out.
"""

import errno
import socket
import struct
import time

REQUEST, REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
MARKERS, CRC, REJECTED, ENHANCED = 0x80, 0x40, 0x20, 0x10
HEADER_LEN = 20
MAX_PRIVATE_DATA = 512
# IRD and ORD of 14 bits; above them are the bits of a ready-to-receive message.
DEPTH = 0x3FFF
PRIVATE_DATA = b"rsiw-doctor"
# Seconds for TCP to connect, and for the Reply, which may wait for a program to accept.
LIMIT = 5

OPEN, REFUSED, SILENT, UNREACHABLE = "open", "refused", "silent", "unreachable"
IWARP, CLOSED, MUTE, OTHER = "iwarp", "closed", "mute", "other"


def request(revision, crc=False):
    """An MPA Request. Revision 2 is enhanced: one Read each way, and the client-server model."""
    data = PRIVATE_DATA
    flags = CRC if crc else 0
    if revision >= 2:
        flags |= ENHANCED
        data = struct.pack("!HH", 1, 1) + data
    return REQUEST + struct.pack("!BBH", flags, revision, len(data)) + data


class Reply:
    """The frame of an iWARP responder."""

    def __init__(self, frame):
        self.flags, self.revision, length = struct.unpack("!BBH", frame[16:HEADER_LEN])
        data = frame[HEADER_LEN:HEADER_LEN + length]
        self.ird = self.ord = None
        if self.revision >= 2 and self.flags & ENHANCED and len(data) >= 4:
            self.ird, self.ord = (depth & DEPTH for depth in struct.unpack("!HH", data[:4]))

    crc = property(lambda self: bool(self.flags & CRC))
    markers = property(lambda self: bool(self.flags & MARKERS))
    rejected = property(lambda self: bool(self.flags & REJECTED))

    def __str__(self):
        text = f"MPA revision {self.revision}, CRCs {'on' if self.crc else 'off'}"
        if self.markers:
            text += ", wants markers"
        if self.ird is not None:
            text += f", IRD {self.ird}, ORD {self.ord}"
        return text


class Exchange:
    """What came of it: IWARP with a reply; CLOSED; MUTE; or OTHER with the first bytes of something else."""

    def __init__(self, kind, reply=None, raw=b""):
        self.kind, self.reply, self.raw = kind, reply, raw


def connect(address, port, limit=LIMIT, vrf=None):
    """(OPEN, socket), or why there is no connection and a text."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.settimeout(limit)
    try:
        if vrf:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, vrf.encode() + b"\0")
        # getaddrinfo knows the scope of a link-local address.
        sock.connect(socket.getaddrinfo(address, port, family, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)[0][4])
        return OPEN, sock
    except OSError as e:
        sock.close()
        if isinstance(e, TimeoutError) or e.errno == errno.ETIMEDOUT:
            return SILENT, "no answer"
        if e.errno == errno.ECONNREFUSED:
            return REFUSED, e.strerror
        return UNREACHABLE, e.strerror or str(e)


def receive(sock, limit):
    """A whole frame, or what has come before the time was over or the peer closed: (bytes, closed)."""
    end, got = time.monotonic() + limit, b""
    while True:
        if got[:len(REPLY)] != REPLY[:len(got)]:
            return got, False
        wanted = HEADER_LEN - len(got)
        if len(got) >= HEADER_LEN:
            length = struct.unpack("!H", got[18:HEADER_LEN])[0]
            if length > MAX_PRIVATE_DATA:
                return got, False
            wanted = HEADER_LEN + length - len(got)
            if wanted <= 0:
                return got, False
        left = end - time.monotonic()
        if left <= 0:
            return got, False
        sock.settimeout(left)
        try:
            more = sock.recv(wanted)
        except TimeoutError:
            return got, False
        except OSError:
            return got, True
        if not more:
            return got, True
        got += more


def judge(got, closed):
    complete = len(got) >= HEADER_LEN and got.startswith(REPLY)
    if complete and struct.unpack("!H", got[18:HEADER_LEN])[0] == len(got) - HEADER_LEN:
        return Exchange(IWARP, Reply(got))
    if got:
        return Exchange(OTHER, raw=got)
    return Exchange(CLOSED if closed else MUTE)


def exchange(sock, revision, limit=LIMIT):
    """Sends a Request and waits for the Reply. Closes the socket."""
    with sock:
        try:
            sock.sendall(request(revision))
        except OSError:
            return Exchange(CLOSED)
        return judge(*receive(sock, limit))


def probe(address, port, sock, limit=LIMIT, vrf=None):
    """An exchange in revision 2 and, where the peer closes without a word as old ones do, in revision 1."""
    found = exchange(sock, 2, limit)
    if found.kind == CLOSED:
        how, again = connect(address, port, limit, vrf)
        if how == OPEN:
            found = exchange(again, 1, limit)
    return found
