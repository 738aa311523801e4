# SPDX-License-Identifier: GPL-2.0
"""The frames of MPA's connection setup (RFC 5044 s7.1.1, RFC 6581 s4)."""

import struct

REQUEST, REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
M, C, R, S = 0x80, 0x40, 0x20, 0x10
# Reserved bits: FPDUs may be longer than a TCP segment; a responder knows the bit before.
LARGE, KNOWS = 0x08, 0x04
# IRD or ORD in its 16 bits.
DEPTH = 0x3FFF


def frame(key, flags=C, revision=1, data=b"", length=None):
    length = len(data) if length is None else length
    return key + struct.pack("!BBH", flags, revision, length) + data


def enhanced(ird, ord_):
    return struct.pack("!HH", ird, ord_)
