# SPDX-License-Identifier: GPL-2.0
"""For the adversary: how the RFCs judge the first segment on a connection to the victim.

judge() has the rules of RFC 5041 s7.1 and RFC 5040 s7.2, in their order, and judges any segment.
Where the RFCs leave a choice, it takes the driver's (Documentation/rfc-map).
"""

import os
import struct
from dataclasses import dataclass, field

from peer import check
from peer.messages import (ATOMIC, ATOMIC_RESPONSE, CMP_SWAP, DDP_TAGGED, DDP_UNTAGGED,
                           FETCH_ADD, IMMEDIATE, IMMEDIATE_SE, LAST, MPA, RDMAP, RDMA_OPERATION,
                           RDMA_PROTECTION, READ, RESPONSE, TAGGED, TERMINATE, VERSION, WRITE,
                           atomic_response, untagged)

# Whether the victim knows the messages of RFC 7306. Without that their opcodes are reserved.
EXTENDED = bool(os.environ.get("EXTENDED"))
INVALIDATING = (4, 6)
SENDS = (3, 4, 5, 6)
QUEUES = {**dict.fromkeys(SENDS, 0), READ: 1, TERMINATE: 2}
if EXTENDED:
    QUEUES.update({IMMEDIATE: 0, IMMEDIATE_SE: 0, ATOMIC: 1, ATOMIC_RESPONSE: 3})
MAX_ULPDU = 64768


@dataclass
class Verdict:
    """What has to happen after a segment."""
    # "lives": the connection goes on; "quiet": it goes on, but no Read can show that; "terminated":
    # the victim sends a Terminate and closes; "closed": it closes and sends nothing; "open": it
    # waits for more, and closes if the stream ends here.
    what: str
    kind: int = 0
    code: int = 0
    # The Terminate has the Read Request's header.
    read: bool = False
    # How many messages the consumer receives.
    got: int = 0
    # How many Read Requests are accepted, and the answers to them.
    reads: int = 0
    answers: list = field(default_factory=list)


def terminated(kind, code, **more):
    return Verdict("terminated", kind, code, **more)


def access(t, stag, at, size, right):
    """Whether the STag may be used: None, or the reason why not (RFC 5040 s4.8)."""
    for name, given in t.ranges.items():
        if given.stag == stag and name != "stale":
            break
    else:
        return "invalid"
    if name == "other":
        return "not associated"
    if name not in ("both", right):
        return "no right"
    if not given.holds(at, size):
        return "bounds"
    return None


# DDP has no code for a missing right.
TAGGED_CODES = {"invalid": 0, "no right": 0, "bounds": 1, "not associated": 2}
READ_CODES = {"invalid": 0, "bounds": 1, "no right": 2, "not associated": 3}


def judge(t, ulpdu, receives=8):
    """The verdict on a segment that is the first of its connection."""
    if len(ulpdu) < 14 or not ulpdu[0] & TAGGED and len(ulpdu) < 18:
        return terminated(MPA, 3)
    if len(ulpdu) > MAX_ULPDU:
        return terminated(MPA, 3)
    control, rdmap = ulpdu[:2]
    if control & 3 != VERSION:
        return terminated(DDP_TAGGED, 4) if control & TAGGED else terminated(DDP_UNTAGGED, 6)
    if rdmap & 0xC0 != RDMAP:
        return terminated(RDMA_OPERATION, 5)
    if rdmap & 0xF > max(QUEUES):
        return terminated(RDMA_OPERATION, 6)
    if control & TAGGED:
        return judge_tagged(t, ulpdu, rdmap & 0xF)
    return judge_untagged(t, ulpdu, rdmap & 0xF, receives)


def judge_tagged(t, ulpdu, opcode):
    stag, to = struct.unpack("!IQ", ulpdu[2:14])
    size = len(ulpdu) - 14
    # A Read Response is wrong, too: the victim has no Read under way.
    if opcode != WRITE:
        return terminated(RDMA_OPERATION, 6)
    if size:
        if to + size >= 1 << 64:
            return terminated(DDP_TAGGED, 3)
        why = access(t, stag, to, size, "write")
        if why:
            return terminated(DDP_TAGGED, TAGGED_CODES[why])
    return Verdict("lives" if ulpdu[0] & LAST else "open")


def judge_untagged(t, ulpdu, opcode, receives):
    stag, queue, number, offset = struct.unpack("!IIII", ulpdu[2:18])
    size, last = len(ulpdu) - 18, ulpdu[0] & LAST
    if queue > max(QUEUES.values()):
        return terminated(DDP_UNTAGGED, 1)
    if QUEUES.get(opcode) != queue:
        return terminated(RDMA_OPERATION, 6)
    if number != 1:
        return terminated(DDP_UNTAGGED, 3)
    if offset != 0:
        return terminated(DDP_UNTAGGED, 4)
    if opcode == TERMINATE:
        return Verdict("closed")
    if opcode == READ:
        return judge_read(t, ulpdu[18:], last)
    if opcode == ATOMIC:
        return judge_atomic(t, ulpdu[18:], last)
    if opcode == ATOMIC_RESPONSE:
        # The victim has asked for nothing.
        return terminated(RDMA_OPERATION, 6 if last and size == 12 else 0xFF)
    if opcode in (IMMEDIATE, IMMEDIATE_SE) and size > 8:
        return terminated(DDP_UNTAGGED, 5)
    if not receives:
        return terminated(DDP_UNTAGGED, 2)
    if size > t.receive_size:
        return terminated(DDP_UNTAGGED, 5)
    if not last:
        return Verdict("open")
    if opcode in (IMMEDIATE, IMMEDIATE_SE) and size < 8:
        return terminated(RDMA_OPERATION, 0xFF)
    if opcode in INVALIDATING:
        why = access(t, stag, 0, 0, "")
        if why == "invalid":
            return terminated(RDMA_PROTECTION, 0)
        if why == "not associated" or stag == t.local.stag:
            return terminated(RDMA_PROTECTION, 9)
        if stag == t.read.stag:
            # The region is invalidated from which lives() would read.
            return Verdict("quiet", got=1)
    return Verdict("lives", got=1)


def judge_read(t, header, last):
    if len(header) > 28:
        return terminated(DDP_UNTAGGED, 5)
    if not last:
        return Verdict("open")
    if len(header) < 28:
        return terminated(RDMA_OPERATION, 0xFF)
    sink, to, size, stag, at = struct.unpack("!IQIIQ", header)
    answer = b""
    if size:
        if at + size >= 1 << 64:
            return terminated(RDMA_PROTECTION, 4, read=True)
        why = access(t, stag, at, size, "read")
        if why:
            return terminated(RDMA_PROTECTION, READ_CODES[why], read=True)
        answer = t.pattern(at, size)
    return Verdict("lives", reads=1, answers=[(sink, to, answer)])


def judge_atomic(t, header, last):
    if len(header) > 52:
        return terminated(DDP_UNTAGGED, 5)
    if not last:
        return Verdict("open")
    if len(header) < 52:
        return terminated(RDMA_OPERATION, 0xFF)
    code, ident, stag, at = struct.unpack("!IIIQ", header[:20])
    if code & 0xF not in (FETCH_ADD, CMP_SWAP):
        return terminated(RDMA_OPERATION, 6)
    why = access(t, stag, at, 8, "atomic")
    if why == "bounds" and at + 8 >= 1 << 64:
        return terminated(RDMA_PROTECTION, 4)
    if why:
        return terminated(RDMA_PROTECTION, READ_CODES[why])
    # The device finds this when it executes the operation.
    if at % 8:
        return terminated(RDMA_OPERATION, 7)
    value = int.from_bytes(t.pattern(at, 8), "little")
    return Verdict("lives", reads=1, answers=[atomic_response(ident, value)])


def answered(passed, answers):
    """The Responses that came are these answers, complete and in order: those of Reads are STag, address and data of
    the sink, those of atomics a whole segment."""
    for answer in answers:
        if isinstance(answer, bytes):
            check(passed, "an answer is missing")
            ulpdu = passed.pop(0)
            check(ulpdu == answer, f"no answer, or a wrong one: {ulpdu.hex()}")
            continue
        sink, to, data = answer
        while True:
            check(passed, "an answer is missing")
            ulpdu = passed.pop(0)
            check(ulpdu[0] & TAGGED and ulpdu[1] == RDMAP | RESPONSE,
                       f"no answer: {ulpdu[:20].hex()}")
            part = ulpdu[14:]
            check(ulpdu[2:14] == struct.pack("!IQ", sink, to % (1 << 64)),
                       f"the answer goes elsewhere: {ulpdu[:14].hex()}")
            check(part == data[:len(part)], "the answer is wrong")
            data, to = data[len(part):], to + len(part)
            check(bool(ulpdu[0] & LAST) == (not data), "the last segment is another one")
            if not data:
                break
    check(not passed, "more is answered than was asked")


# What a Terminate may contain: layer and type, codes, and whether it has the segment's header.
KINDS = {
    0x00: (range(256), False),
    RDMA_PROTECTION: ((0, 1, 2, 3, 4, 9, 0xFF), True),
    RDMA_OPERATION: ((5, 6, 7, 8, 9, 0xFF), True),
    0x10: ((0,), False),
    DDP_TAGGED: (range(5), True),
    DDP_UNTAGGED: (range(1, 7), True),
    MPA: (range(1, 8), False),
}


def well_formed(ulpdu, sent):
    """The Terminate has known codes, and its header, if any, is that of a segment that was sent."""
    check(ulpdu[:18] == untagged(TERMINATE, queue=2), f"odd header: {ulpdu.hex()}")
    term = ulpdu[18:]
    check(len(term) >= 4 and term[0] in KINDS, f"says nothing: {term.hex()}")
    codes, has_header = KINDS[term[0]]
    check(term[1] in codes, f"says {term[0]:#04x} {term[1]:#04x}")
    check(not term[2] & 0x1F and not term[3], "reserved bits are set")
    rest = term[4:]
    if not has_header:
        check(not term[2] and not rest, f"has a header: {term.hex()}")
        return
    check(term[2] in (0xC0, 0xE0) and len(rest) >= 16, f"header bits {term[2]:#04x}")
    size = 14 if rest[2] & TAGGED else 18
    read = 28 if term[2] == 0xE0 else 0
    check(len(rest) == 2 + size + read, f"the length of its headers: {term.hex()}")
    length = struct.unpack("!H", rest[:2])[0]
    if sent is not None:
        check(any(len(s) == length and s[:size] == rest[2:2 + size] for s in sent),
                   f"the header of something else: {rest.hex()}")
