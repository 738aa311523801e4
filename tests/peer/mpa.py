# SPDX-License-Identifier: GPL-2.0
"""The frames of MPA's connection setup (RFC 5044 s7.1.1, RFC 6581 s4)."""

import struct

from peer import check, receive

REQUEST, REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
M, C, R, S = 0x80, 0x40, 0x20, 0x10
# Reserved bits: FPDUs may be longer than a TCP segment; a responder knows the bit before.
LARGE, KNOWS = 0x08, 0x04
# Beside LARGE: an end takes Sends with immediate data, flushes and atomic Writes.
IMMEDIATE_SENDS = 0x02
# IRD or ORD in its 16 bits. With the IRD: peer-to-peer; the RTR may be a Send. With the ORD: it may
# be a Write, a Read.
DEPTH = 0x3FFF
A, B = 0x8000, 0x4000
RTR_WRITE, RTR_READ = 0x8000, 0x4000


def frame(key, flags=C, revision=1, data=b"", length=None):
    length = len(data) if length is None else length
    return key + struct.pack("!BBH", flags, revision, length) + data


def enhanced(ird, ord_):
    return struct.pack("!HH", ird, ord_)


def receive_frame(sock, key, seconds=15):
    """Receives a frame; returns its flags, revision and private data."""
    head = receive(sock, 20, seconds)
    check(len(head) == 20, f"no frame, but {head!r}")
    check(head[:16] == key, f"not the key: {head[:16]!r}")
    flags, revision, length = struct.unpack("!BBH", head[16:])
    data = receive(sock, length, seconds)
    check(len(data) == length, "the private data are cut off")
    return flags, revision, data
