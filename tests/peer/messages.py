# SPDX-License-Identifier: GPL-2.0
"""DDP segments, with the messages of RDMAP (RFC 5040, RFC 5041, RFC 7306)."""

import struct

WRITE, READ, RESPONSE, SEND, SEND_INV, TERMINATE = 0, 1, 2, 3, 4, 7
# Of RFC 7306, and the codes of atomics. A device takes these messages if the program knows them.
IMMEDIATE, IMMEDIATE_SE, ATOMIC, ATOMIC_RESPONSE = 8, 9, 10, 11
FETCH_ADD, CMP_SWAP = 0, 2
TAGGED, LAST, VERSION = 0x80, 0x40, 1
RDMAP = 0x40
# Terminates: layer and type in one byte, then the code.
RDMA_PROTECTION, RDMA_OPERATION, DDP_TAGGED, DDP_UNTAGGED, MPA = 0x01, 0x02, 0x11, 0x12, 0x20


def tagged(opcode, stag, offset, data=b"", last=True, version=VERSION, rdmap=RDMAP):
    control = TAGGED | (LAST if last else 0) | version
    return struct.pack("!BBIQ", control, rdmap | opcode, stag, offset) + data


def untagged(opcode, data=b"", queue=0, number=1, offset=0, last=True, version=VERSION,
             rdmap=RDMAP, stag=0):
    control = (LAST if last else 0) | version
    return struct.pack("!BBIIII", control, rdmap | opcode, stag, queue, number, offset) + data


def read_of(stag, offset=0, size=16, number=1, sink=(0x100, 0x1000)):
    """A Read Request for bytes of the other end, to a sink (STag, offset) of this end."""
    return untagged(READ, struct.pack("!IQIIQ", *sink, size, stag, offset), queue=1,
                    number=number)


def immediate(data=b"eight...", number=1, opcode=IMMEDIATE, **more):
    return untagged(opcode, data, number=number, **more)


def atomic_of(stag, offset, number=1, code=FETCH_ADD, ident=0x1D, data=1, mask=0, compare=0,
              compare_mask=(1 << 64) - 1):
    """An Atomic Request for a value of the other end."""
    header = struct.pack("!IIIQQQQQ", code, ident, stag, offset, data, mask, compare, compare_mask)
    return untagged(ATOMIC, header, queue=1, number=number)


def atomic_response(ident, value=0, number=1, **more):
    return untagged(ATOMIC_RESPONSE, struct.pack("!IQ", ident, value), queue=3, number=number,
                    **more)
