# SPDX-License-Identifier: GPL-2.0
"""The tables of the adversary: groups of cases.

A group yields (name, function): the function plays one case against the victim, and raises Failed
if the device breaks a rule.
"""

import os
import struct

from peer import Failed, check
from peer.messages import (CMP_SWAP, DDP_TAGGED, DDP_UNTAGGED, MPA, RDMAP, RDMA_OPERATION,
                           RDMA_PROTECTION, RESPONSE, SEND, SEND_INV, TERMINATE, VERSION, WRITE,
                           atomic_of, atomic_response, immediate, read_of, tagged, untagged)
from peer.stream import crc32c, fpdu
from peer.tls import DIRECTORY
from peer.verdicts import Verdict, answered, judge, terminated
from peer.victim import (DENY_AFTER, EMPTY, PLACES_NOTHING, READS, RECEIVES, SINK_SIZE,
                         SINK_STEP, UNKNOWN, Attacker)

# Whether the driver was loaded with verify_first=1.
VERIFY_FIRST = bool(os.environ.get("VERIFY_FIRST"))


def conclude(a, verdict, offender):
    """Checks that the connection ends as the verdict says."""
    if verdict.what == "terminated":
        a.passing = True
        header = offender if verdict.kind != MPA else None
        a.terminated(verdict.kind, verdict.code, header, read_request=verdict.read)
    elif verdict.what == "closed":
        a.closed()
    elif verdict.what == "open":
        a.fin()
        a.closed()
    else:
        if verdict.what == "lives":
            a.lives(verdict.reads)
        a.fin()
        check(a.next() == b"", "something behind the last answer")
        answered(a.passed, verdict.answers)
    a.over(verdict.got)


def single(make, receives=RECEIVES):
    """A case of one segment; judge() gives the verdict."""
    def play(victim):
        a = Attacker(victim, receives=receives)
        ulpdu = make(a.told)
        a.send(ulpdu)
        conclude(a, judge(a.told, ulpdu, receives), ulpdu)
    return play


def script(make, verdict, **more):
    """A case of several segments, of which the last one is wrong, with its verdict."""
    def play(victim):
        a = Attacker(victim, **more)
        ulpdus = make(a.told)
        a.send(*ulpdus)
        conclude(a, verdict, ulpdus[-1])
    return play


LIVES = Verdict("lives")

# --- one segment: every field of every header -----------------------------------------------------

BASES = {
    "write": lambda t: tagged(WRITE, t.both.stag, t.both.at + 16, b"stray..."),
    "response": lambda t: tagged(RESPONSE, t.local.stag, t.sink_at, b"stray..."),
    "send": lambda t: untagged(SEND, b"sixteen bytes.."),
    "send_inv": lambda t: untagged(SEND_INV, b"sixteen bytes..", stag=t.both.stag),
    "read": lambda t: read_of(t.read.stag, t.read.at + 3, 16),
    "terminate": lambda t: untagged(TERMINATE, bytes((0x11, 1, 0, 0)), queue=2),
    # Legal only where verdicts.EXTENDED is set.
    "immediate": lambda t: immediate(),
    "add": lambda t: atomic_of(t.both.stag, value_of(t)),
    "swap": lambda t: atomic_of(t.both.stag, value_of(t), code=CMP_SWAP, mask=0xFF00),
    "atomic_response": lambda t: atomic_response(0x1D, 5),
}
EXTENSIONS = "immediate", "add", "swap", "atomic_response"
# Bytes of a base's ULPDU.
SIZES = {"write": 22, "response": 22, "read": 46, "terminate": 22, "immediate": 26, "add": 70, "swap": 70,
         "atomic_response": 30}


def value_of(t):
    """The address of an aligned value."""
    return t.both.at + 7 & ~7


CONTROL = {"ddp": (0, 1), "rdmap": (1, 1)}
UNTAGGED = {**CONTROL, "stag": (2, 4), "queue": (6, 4), "number": (10, 4), "offset": (14, 4)}
FIELDS = {
    **dict.fromkeys(("write", "response"), {**CONTROL, "stag": (2, 4), "to": (6, 8)}),
    **dict.fromkeys(("send", "send_inv"), UNTAGGED),
    "read": {**UNTAGGED, "sink": (18, 4), "sink_to": (22, 8), "size": (30, 4),
             "source": (34, 4), "at": (38, 8)},
    "terminate": {**UNTAGGED, "kind": (18, 1), "code": (19, 1), "bits": (20, 2)},
    "immediate": UNTAGGED,
    **dict.fromkeys(("add", "swap"), {**UNTAGGED, "operation": (18, 4), "id": (22, 4),
                                      "source": (26, 4), "at": (30, 8)}),
    "atomic_response": {**UNTAGGED, "id": (18, 4)},
}


def values(field, size, everything):
    """Values for a field, each a function of the victim's regions."""
    top = 1 << 8 * size
    if size == 1 and everything:
        numbers = range(256)
    elif size == 1:
        numbers = sorted({0, 0xFF, *(0x41 ^ 1 << bit for bit in range(8)),
                          *range(0x40, 0x50), 0xC1, 0xC2, 0x81})
    elif everything:
        numbers = (0, 1, 2, 3, 4, 0xFF, 0x100, top // 2 - 1, top // 2, *range(top - 17, top))
    else:
        numbers = (0, 1, 2, 3, top // 2, top - 9, top - 8, top - 1)
    for number in numbers:
        yield f"{number:#x}", lambda t, n=number: n
    if field in ("stag", "source"):
        for name in ("both", "write", "read", "other", "stale", "local"):
            yield name, lambda t, n=name: getattr(t, n).stag
        yield "unknown", lambda t: UNKNOWN
        yield "another key", lambda t: t.both.stag ^ 1
        yield "another index", lambda t: t.both.stag ^ 0x80000000
    if field in ("to", "at"):
        for name in ("both", "write", "read", "other"):
            for where, of in EDGES.items():
                yield f"{where} {name}", lambda t, n=name, f=of: f(getattr(t, n))
    if field == "size":
        for number in (4096, 65535, 69997, 69998):
            yield str(number), lambda t, n=number: n


# Places for 8 or 16 bytes at the borders of a region.
EDGES = {
    "before": lambda g: g.at - 1, "at": lambda g: g.at, "at the end of": lambda g: g.at + g.size - 8,
    "over the end of": lambda g: g.at + g.size - 7, "behind": lambda g: g.at + g.size,
    "16 before the end of": lambda g: g.at + g.size - 16,
}


def fields(everything):
    for base, make in BASES.items():
        for field, (at, size) in FIELDS[base].items():
            for value, of in values(field, size, everything):
                def changed(t, make=make, at=at, size=size, of=of):
                    ulpdu = make(t)
                    return ulpdu[:at] + of(t).to_bytes(size, "big") + ulpdu[at + size:]
                yield f"{base}: {field} {value}", single(changed)
    # STag and offset of a right message, in or near another region.
    for name in ("both", "write", "read", "other", "stale", "local"):
        for where, of in EDGES.items():
            yield f"write: {where} {name}", single(lambda t, n=name, f=of: tagged(
                WRITE, getattr(t, n).stag, f(getattr(t, n)), b"stray..."))
            yield f"read: {where} {name}", single(lambda t, n=name, f=of: read_of(
                getattr(t, n).stag, f(getattr(t, n)), 16))


def lengths(everything):
    """Segments of all lengths, and messages of the greatest lengths."""
    sizes = {*range(20), 27, 28, 29, 63, 64, 65, 127, 128, 999, 1000, 1001, 4096}
    if everything:
        sizes |= {*range(140), 5000, 5001, 32768, 65000}
    for base, make in BASES.items():
        header = 14 if base in ("write", "response") else 18
        for size in sorted(sizes):
            yield f"{base}: {size} bytes", single(lambda t, m=make, s=size, h=header:
                                                   (m(t)[:h] + m(t)[h:] + bytes(s))[:h + s])
        for size in range(header):
            yield f"{base}: {size} bytes of the header", single(lambda t, m=make, s=size: m(t)[:s])
    for size in (64767, 64768, 64769, 65535):
        yield f"write: a ULPDU of {size}", single(lambda t, s=size: tagged(
            WRITE, t.both.stag, t.both.at, bytes(s - 14)))
    for last in (True, False):
        yield f"write: nothing, last {last}", single(
            lambda t, e=last: tagged(WRITE, UNKNOWN, 5, last=e))
    for base in ("send", "send_inv", "immediate"):
        yield f"{base}: no receive", single(BASES[base], receives=0)
        yield f"{base}: not the last", single(lambda t, m=BASES[base]: bytes((VERSION,)) + m(t)[1:])


# --- streams of segments ----------------------------------------------------------------------------

def messages(everything):
    def send(number, size=8, offset=0, last=True, queue=0, opcode=SEND):
        return untagged(opcode, bytes(size), number=number, offset=offset, last=last,
                             queue=queue)

    def full(t):
        return [send(n) for n in range(1, RECEIVES + 2)]
    mo, number = terminated(DDP_UNTAGGED, 4), terminated(DDP_UNTAGGED, 3)
    opcode = terminated(RDMA_OPERATION, 6)
    yield "Sends for all receives", script(lambda t: full(t)[:-1], Verdict("lives", got=RECEIVES))
    yield "one Send too many", script(full, terminated(DDP_UNTAGGED, 2, got=RECEIVES))
    yield "number repeated", script(lambda t: [send(1), send(1)],
                                    terminated(DDP_UNTAGGED, 3, got=1))
    yield "number skipped", script(lambda t: [send(1), send(3)],
                                   terminated(DDP_UNTAGGED, 3, got=1))
    yield "number changes", script(lambda t: [send(1, last=False), send(2, offset=8)], number)
    yield "offset skips", script(lambda t: [send(1, last=False), send(1, offset=9)], mo)
    yield "offset overlaps", script(lambda t: [send(1, last=False), send(1, offset=7)], mo)
    yield "offset begins again", script(lambda t: [send(1, last=False), send(1)], mo)
    yield "too long in pieces", script(lambda t: [send(1, 64, last=False), send(1, 1, 64)],
                                       terminated(DDP_UNTAGGED, 5))
    yield "as long as may be", script(lambda t: [send(1, 63, last=False), send(1, 1, 63)],
                                      Verdict("lives", got=1))
    yield "empty pieces", script(lambda t: [send(1, 0, last=False)] * 50 + [send(1)],
                                 Verdict("lives", got=1))
    yield "another Send within one", script(
        lambda t: [send(1, last=False), send(1, offset=8, opcode=5)], opcode)
    yield "a Read within a Send", script(
        lambda t: [send(1, last=False), read_of(t.read.stag, t.read.at, 8)], opcode)
    yield "a Write within a Send", script(
        lambda t: [send(1, last=False), BASES["write"](t), send(1, offset=8)],
        Verdict("lives", got=1))
    yield "a Terminate within a Send", script(
        lambda t: [send(1, last=False), BASES["terminate"](t)], Verdict("closed"))
    yield "something behind a Terminate", script(
        lambda t: [BASES["terminate"](t), BASES["write"](t), send(1)], Verdict("closed"))
    yield "a Write in pieces that go back", script(
        lambda t: [tagged(WRITE, t.both.stag, t.both.at + 8, bytes(8), last=False),
                   tagged(WRITE, t.both.stag, t.both.at, bytes(8))], LIVES)
    yield "a Write changes its STag", script(
        lambda t: [tagged(WRITE, t.both.stag, t.both.at, bytes(8), last=False),
                   tagged(WRITE, t.write.stag, t.write.at, bytes(8))],
        terminated(DDP_TAGGED, 0))
    yield "a Write leaves its region", script(
        lambda t: [tagged(WRITE, t.write.stag, t.write.at, bytes(1000), last=False),
                   tagged(WRITE, t.write.stag, t.write.at + 1000, b"x")],
        terminated(DDP_TAGGED, 1))
    # Segments of one length: the driver takes those that continue each other together.
    def pieces(region, count, at=0):
        return [tagged(WRITE, region.stag, region.at + at + 8 * i, bytes([i]) * 8, last=False)
                for i in range(count)]
    yield "a Write in equal pieces", script(
        lambda t: pieces(t.both, 9) + [tagged(WRITE, t.both.stag, t.both.at + 72, b"x")], LIVES)
    yield "a Write in equal pieces leaves its region", script(
        lambda t: pieces(t.write, 4, 1000 - 3 * 8), terminated(DDP_TAGGED, 1))
    yield "a Write in equal pieces changes its STag", script(
        lambda t: pieces(t.both, 3) + pieces(t.write, 4)[3:], terminated(DDP_TAGGED, 0))
    yield "a Write in equal pieces loses its right", loses_right(pieces)
    yield "a Send in equal pieces", script(
        lambda t: [send(1, 16, 16 * i, last=i == 3) for i in range(4)], Verdict("lives", got=1))
    yield "a Send in equal pieces is too long", script(
        lambda t: [send(1, 16, 16 * i, last=False) for i in range(5)], terminated(DDP_UNTAGGED, 5))
    yield "a Send in equal pieces changes its number", script(
        lambda t: [send(1 + i // 3, 16, 16 * i, last=False) for i in range(4)], number)
    yield "a Response within a Write", script(
        lambda t: [tagged(WRITE, t.both.stag, t.both.at, bytes(8), last=False),
                   BASES["response"](t)], opcode)
    yield "an STag that was invalidated", script(
        lambda t: [BASES["send_inv"](t), BASES["write"](t)], terminated(DDP_TAGGED, 0, got=1))
    yield "invalidated twice", script(
        lambda t: [BASES["send_inv"](t),
                   untagged(SEND_INV, b"x", number=2, stag=t.both.stag)],
        terminated(RDMA_PROTECTION, 0, got=1))
    yield "invalidated within its Write", script(
        lambda t: [tagged(WRITE, t.both.stag, t.both.at, bytes(8), last=False),
                   BASES["send_inv"](t),
                   tagged(WRITE, t.both.stag, t.both.at + 8, bytes(8))],
        Verdict("lives", got=1))
    # What comes behind the first segment of a Write is delivered behind its last.
    def within(*segments, last=True):
        def make(t):
            first = tagged(WRITE, t.both.stag, t.both.at, b"written.", last=False)
            rest = [tagged(WRITE, t.both.stag, t.both.at + 8, b"behind..")] * last
            return [first, *(of(t) for of in segments), *rest]
        return make
    read = lambda t: read_of(t.both.stag, t.both.at, 16)
    yield "a Send within a Write", script(within(lambda t: send(1)), Verdict("lives", got=1))
    yield "a Send within a Write without an end", script(within(lambda t: send(1), last=False),
                                                         Verdict("open"))
    yield "a Read within a Write", script(within(read), Verdict(
        "lives", reads=1, answers=[(0x100, 0x1000, b"written.behind..")]))
    yield "a Read within a Write without an end", script(within(read, last=False), Verdict("open"))
    yield "a Terminate behind a Send within a Write", script(
        within(lambda t: send(1), BASES["terminate"], last=False), Verdict("closed"))
    yield "two Sends within a Write", script(
        within(lambda t: send(1), lambda t: send(2), last=False), opcode)
    yield "a Send and a Read within a Write", script(
        within(lambda t: send(1), read, last=False), opcode)
    yield "Reads beyond IRD", beyond_ird
    # Each twice in succession: the second time the victim has the other role.
    for role in ("", ", again"):
        yield f"as many Reads as IRD{role}", reads_at_once(0)
    for role in ("", ", again"):
        yield f"one Read more than IRD{role}", reads_at_once(1)
    yield "a Write and a Read of nothing", nothing_named
    for name in ("write", "send", "read"):
        yield f"{name}: in single bytes", in_single_bytes(BASES[name])


def loses_right(pieces):
    """The victim takes the right to write away between two pieces that continue each other."""
    def play(victim):
        a = Attacker(victim)
        ulpdus = pieces(a.told.both, DENY_AFTER // 8 + 2)
        a.send(*ulpdus[:-2])
        a.victim.deny(a.token)
        a.send(*ulpdus[-2:])
        conclude(a, terminated(DDP_TAGGED, 0), ulpdus[-2])
    return play


def in_single_bytes(make):
    def play(victim):
        a = Attacker(victim)
        ulpdu = make(a.told)
        data = fpdu(ulpdu)
        a.deliver(data, range(1, len(data)))
        conclude(a, judge(a.told, ulpdu), ulpdu)
    return play


def beyond_ird(victim):
    """All Reads come in one TCP segment, from a peer with a small window."""
    a = Attacker(victim, window=4096)
    t = a.told
    a.send(*(read_of(t.read.stag, t.read.at, t.read.size, n) for n in range(1, 101)))
    a.read_ahead()
    a.passing = True
    ulpdu = a.next()
    check(ulpdu[18:20] == bytes((DDP_UNTAGGED, 2)), f"no Terminate for it: {ulpdu.hex()}")
    check(a.next() == b"", "something behind the Terminate")
    check(sum(len(u) - 14 for u in a.passed) < 50 * t.read.size, "far too many are answered")
    a.over()


def one_read(t, number):
    """A Read, and the opcode of its answer."""
    return read_of(t.read.stag, t.read.at, 8, 1 + number), RESPONSE


def reads_at_once(more, make=one_read):
    """As many Reads as were agreed on, and so many more, in one TCP segment: all of them arrive
    before the first is answered."""
    def play(victim):
        a = Attacker(victim, enhanced=(4, 5))
        t, count = a.told, a.ird + more
        check(a.ird >= 4, f"an IRD of {a.ird}")
        requests = [make(t, i) for i in range(count)]
        a.send(*(request for request, _ in requests))
        if more:
            a.passing = True
            ulpdu = a.next()
            check(ulpdu[18:20] == bytes((DDP_UNTAGGED, 2)), f"no Terminate for it: {ulpdu.hex()}")
        else:
            for i, (_, opcode) in enumerate(requests):
                ulpdu = a.next()
                check(ulpdu[1:2] == bytes((RDMAP | opcode,)), f"no answer to {i}: {ulpdu.hex()}")
            a.lives(count)
            a.fin()
        check(a.next() == b"", "something behind the last answer")
        a.over()
    return play


def nothing_named(victim):
    """The victim posts a Write and a Read of no bytes without an STag. On the wire they have one,
    as some RNICs refuse STag 0."""
    a = Attacker(victim, flags=EMPTY)
    a.send(tagged(WRITE, 0, 0))
    ulpdu = a.next()
    check(len(ulpdu) == 14 and ulpdu[1] & 0xF == WRITE, f"no empty Write: {ulpdu.hex()}")
    check(any(ulpdu[2:6]), "a Write with STag 0")
    sink, to, size, source, _at = a.read_request()
    check(size == 0 and sink and source, f"a Read of {size} bytes, STags {sink:#x} {source:#x}")
    a.send(tagged(RESPONSE, sink, to))
    a.lives()
    a.fin()
    check(a.next() == b"", "something behind the last answer")
    a.over()


def placement(everything):
    """Of a damaged FPDU nothing is placed if it arrives in one piece; with verify_first=1, in any."""
    def damaged(make, cuts):
        def play(victim):
            # Once in a thousand times a piece crosses a page of this host, and arrives as two.
            for last in (False, False, True):
                a = Attacker(victim, flags=PLACES_NOTHING)
                data = fpdu(make(a.told))
                a.deliver(data[:-1] + bytes((data[-1] ^ 0x10,)), cuts(data))
                a.terminated(MPA, 2)
                try:
                    return a.over()
                except Failed:
                    if last:
                        raise
                    victim.forgive(a.token)
        return play

    kinds = {
        "write": BASES["write"], "send": BASES["send"],
        "longer write": lambda t: tagged(WRITE, t.both.stag, t.both.at, bytes(4000)),
    }
    for name, make in kinds.items():
        yield f"{name}: in one piece", damaged(make, lambda data: ())
        if VERIFY_FIRST:
            yield f"{name}: cut at the end", damaged(make, lambda data: (len(data) - 1,))
            for at in (1, 2, 3, 16, 20, 24):
                yield f"{name}: cut after {at} bytes", damaged(make, lambda data, n=at: (n,))
    if VERIFY_FIRST:
        yield "write: in single bytes", damaged(BASES["write"], lambda data: range(1, len(data)))


def responses(everything):
    """The victim reads twice 64 bytes of this end, to sinks that are close to each other."""
    def case(name, make, verdict):
        def play(victim):
            a = Attacker(victim, flags=READS)
            # The victim may not send before this end has.
            a.send(tagged(WRITE, 0, 0))
            for i in (0, 1):
                sink, to, size, stag, at = a.read_request(1 + i)
                check((sink, to, size, stag, at) ==
                      (a.told.local.stag, a.told.sink_at + i * SINK_STEP, SINK_SIZE, 0x100, 0x1000),
                      "another Read")
            ulpdus = make(a.told)
            a.send(*ulpdus)
            conclude(a, verdict, ulpdus[-1])
        return name, play

    def response(t, i=0, size=SINK_SIZE, skip=0, last=True, stag=None):
        return tagged(RESPONSE, t.local.stag if stag is None else stag,
                           t.sink_at + i * SINK_STEP + skip, bytes(size), last=last)
    stag, bounds = terminated(DDP_TAGGED, 0), terminated(DDP_TAGGED, 1)
    opcode = terminated(RDMA_OPERATION, 6)
    yield case("both", lambda t: [response(t), response(t, 1)], LIVES)
    yield case("one", lambda t: [response(t)], LIVES)
    yield case("in pieces", lambda t: [
        response(t, size=30, last=False), response(t, size=34, skip=30, last=False),
        response(t, size=0, skip=64)], LIVES)
    yield case("the second first", lambda t: [response(t, 1)], bounds)
    yield case("one more", lambda t: [response(t), response(t, 1), response(t)], opcode)
    yield case("to another sink", lambda t: [response(t, stag=t.both.stag)], stag)
    yield case("to nothing", lambda t: [response(t, stag=UNKNOWN)], stag)
    yield case("one byte too early", lambda t: [response(t, skip=-1)], bounds)
    yield case("one byte too far", lambda t: [response(t, skip=1)], bounds)
    yield case("too long", lambda t: [response(t, size=65)], bounds)
    yield case("much too long", lambda t: [response(t, size=4096)], bounds)
    yield case("too long in pieces", lambda t: [
        response(t, last=False), response(t, size=1, skip=64)], bounds)
    yield case("in equal pieces", lambda t: [
        response(t, size=8, skip=8 * i, last=i == 7) for i in range(8)], LIVES)
    yield case("in equal pieces, too long", lambda t: [
        response(t, size=8, skip=8 * i, last=False) for i in range(9)], bounds)
    yield case("too short", lambda t: [response(t, size=63)], terminated(RDMA_OPERATION, 0xFF))
    yield case("empty", lambda t: [response(t, size=0)], terminated(RDMA_OPERATION, 0xFF))
    yield case("a hole in it", lambda t: [
        response(t, size=8, last=False), response(t, size=8, skip=9)], bounds)
    yield case("changes its STag", lambda t: [
        response(t, size=8, last=False), response(t, size=56, skip=8, stag=t.both.stag)], stag)
    yield case("a Write within", lambda t: [
        response(t, size=8, last=False), BASES["write"](t)], opcode)
    yield case("a Send within", lambda t: [
        response(t, size=8, last=False), BASES["send"](t), response(t, size=56, skip=8)],
        Verdict("lives", got=1))
    yield case("a Write to the sink", lambda t: [
        tagged(WRITE, t.local.stag, t.sink_at, bytes(8))], stag)
    yield case("a Read of the sink", lambda t: [read_of(t.local.stag, t.sink_at, 8)],
               terminated(RDMA_PROTECTION, 2, read=True))
    yield case("the sink invalidated", lambda t: [
        untagged(SEND_INV, b"x", stag=t.local.stag)], terminated(RDMA_PROTECTION, 9))
    for bits in (0, 0x80, 0xC0, 0xE0):
        for kind in (0x00, 0x01, 0x11, 0x20, 0xFF):
            yield case(f"a Terminate {kind:#x}, bits {bits:#x}", lambda t, b=bits, k=kind: [
                untagged(TERMINATE, bytes((k, 0, b, 0)) + struct.pack("!H", 46) +
                              read_of(t.both.stag, t.both.at, 8), queue=2)], Verdict("closed"))
    for size in range(0, 60, 1 if everything else 7):
        yield case(f"{size} bytes of a Terminate", lambda t, s=size: [
            untagged(TERMINATE, (bytes((0x01, 0, 0xE0, 0)) + struct.pack("!H", 46) +
                                      read_of(t.both.stag, t.both.at, 8) + bytes(9))[:s],
                          queue=2)], Verdict("closed"))


# --- below DDP ----------------------------------------------------------------------------------------

def below_ddp(everything):
    """Below DDP: wrong CRCs, wrong lengths, streams that end anywhere."""
    def damaged(base, at, bit):
        def play(victim):
            a = Attacker(victim)
            data = bytearray(fpdu(BASES[base](a.told)))
            data[at] ^= 1 << bit
            a.deliver(bytes(data))
            if at < 2:
                # The length is wrong, so the victim looks for the CRC elsewhere, or waits for it.
                a.fin()
                ulpdu = a.next_or_reset()
                check(not ulpdu or ulpdu[18] == MPA, f"not MPA's: {ulpdu.hex()}")
            else:
                a.terminated(MPA, 2)
            a.over()
        return play

    def cut(base, at, how):
        def play(victim):
            a = Attacker(victim)
            data = fpdu(BASES[base](a.told))
            a.deliver(data[:at], (at // 2,) if at > 1 else ())
            if how == "FIN":
                a.fin()
                a.closed()
            else:
                a.reset()
            a.over()
        return play

    def urgent(base, at):
        """FPDUs before the urgent byte are delivered."""
        def play(victim):
            a = Attacker(victim)
            data = fpdu(BASES[base](a.told)) + b"!"
            a.urgent(data[:at])
            a.over(1 if base == "send" and at == len(data) else 0)
        return play

    def claims(base, length):
        def play(victim):
            a = Attacker(victim)
            ulpdu = BASES[base](a.told)
            body = struct.pack("!H", length) + ulpdu + bytes(max(0, length - len(ulpdu)))
            body = body[:2 + length] + bytes(-(2 + length) % 4)
            a.deliver(body + crc32c(body))
            ulpdu = body[2:2 + length]
            conclude(a, judge(a.told, ulpdu), ulpdu)
        return play

    for base in BASES if everything else ("write", "send"):
        # Every FPDU of this kind has that length.
        size = len(fpdu(bytes(SIZES.get(base, 34))))
        for at in range(size):
            for bit in range(8) if everything else (at % 8,):
                yield f"{base}: bit {bit} of byte {at} damaged", damaged(base, at, bit)
        for at in range(1, size):
            for how in ("FIN", "RST"):
                yield f"{base}: {how} after {at} bytes", cut(base, at, how)
        # Beneath TLS, urgent bytes are a matter of tests/vm/tls/records.py.
        for at in () if DIRECTORY or base in EXTENSIONS else (1, size // 2, size, size + 1):
            yield f"{base}: byte {at} is urgent", urgent(base, at)
        for length in (0, 1, 2, 3, 13, 14, 15, 17, 18, 19, 64768, 64769, 65534, 65535):
            yield f"{base}: claims {length} bytes", claims(base, length)


GROUPS = {f.__name__: f for f in (fields, lengths, messages, placement, responses, below_ddp)}
