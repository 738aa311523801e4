# SPDX-License-Identifier: GPL-2.0
"""A client of rping, which is the peer of rping's server."""

import socket
import struct

from peer import SLOW, check, mpa
from peer.messages import LAST, RDMAP, RESPONSE, SEND, VERSION, WRITE, tagged, untagged
from peer.stream import Stream

# What rping's server posts: one receive of 16 bytes.
RECEIVE = 16


def advertise(address=0x1000, stag=0x100, size=64):
    """The first message of rping's client: it says where its buffer is."""
    return struct.pack("!QII", address, stag, size)


class Peer(Stream):
    """A connection to rping's server."""

    def __init__(self, address, port, window=None):
        self.address, self.port = address, port
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        if window:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        sock.settimeout(10 * SLOW)
        sock.connect((address, port))
        super().__init__(sock)
        self.sock.sendall(mpa.frame(mpa.REQUEST))
        self.accepted()


def good(peer):
    """A whole round of rping: Send, Read, Send, Send, Write, Send."""
    a_round(peer, 1)


def a_round(peer, first, size=64, read=1):
    """A round, given the numbers of its first Send and of the server's Read."""
    peer.send(untagged(SEND, advertise(size=size), number=first))
    sink, to, length, source, address = peer.read_request(read)
    check((length, source, address) == (size, 0x100, 0x1000), "reads something else")
    goes_on(peer, sink, to, first + 1, size)


def goes_on(peer, sink, to, number=2, size=64):
    """The rest of a round, beginning with the answer to the server's Read."""
    # A C string that is as long as the buffer.
    data = bytes(1 + i % 251 for i in range(size - 1)) + b"\0"
    # The answer has three segments, the last of which is empty.
    peer.send(tagged(RESPONSE, sink, to, data[:30], last=False),
              tagged(RESPONSE, sink, to + 30, data[30:], last=False),
              tagged(RESPONSE, sink, to + size))
    check(peer.next()[:2] == bytes((LAST | VERSION, RDMAP | SEND)), "no Send")
    peer.send(untagged(SEND, advertise(0x2000, 0x200, size), number=number))
    written = b""
    while len(written) < size:
        # The segments of a Write come in order, and the last one has the flag L.
        ulpdu = peer.next()
        part = ulpdu[14:]
        last = len(written) + len(part) == size
        check(part and ulpdu == tagged(WRITE, 0x200, 0x2000 + len(written), part, last=last),
              f"not the Write's next segment: {ulpdu.hex()}")
        written += part
    check(written == data, f"not what was read: {written.hex()}")
    check(peer.next()[:2] == bytes((LAST | VERSION, RDMAP | SEND)), "no Send")
