# SPDX-License-Identifier: GPL-2.0
"""A group of the adversary: sequences with the messages of RFC 7306.

Single messages, with every field and length, are in the groups of cases.py. Where the victim does not know these
messages (verdicts.EXTENDED), each sequence ends at the first of them, as with any reserved opcode.
"""

import struct

from peer import check
from peer.messages import (ATOMIC, ATOMIC_RESPONSE, CMP_SWAP, DDP_UNTAGGED, IMMEDIATE,
                           IMMEDIATE_SE, LAST, RDMA_OPERATION, RDMA_PROTECTION, READ, RESPONSE,
                           SEND, VERSION, WRITE, atomic_of, atomic_response, immediate, read_of,
                           tagged, untagged)
from peer.mpa import IMMEDIATE_SENDS, LARGE
from peer.verdicts import EXTENDED, SENDS, Verdict, terminated
from peer.victim import ATOMICS, READS, RECEIVES, SINK_SIZE, SINK_STEP, Attacker

from cases import BASES, EDGES, conclude, one_read, reads_at_once, script, single, value_of

OPCODE, NUMBER = terminated(RDMA_OPERATION, 6), terminated(DDP_UNTAGGED, 3)
SHORT, LONG = terminated(RDMA_OPERATION, 0xFF), terminated(DDP_UNTAGGED, 5)


def is_extension(ulpdu):
    return ulpdu[1] & 0xF >= IMMEDIATE


def sequence(make, verdict):
    """A case of several segments. Where no extension is known, the Sends before the first one are received."""
    if EXTENDED:
        return script(make, verdict)

    def play(victim):
        a = Attacker(victim)
        ulpdus = make(a.told)
        first = next(i for i, ulpdu in enumerate(ulpdus) if is_extension(ulpdu))
        got = sum(u[1] & 0xF in SENDS and bool(u[0] & LAST) for u in ulpdus[:first])
        # A Send that comes within a Write is delivered behind its end, which is not sent.
        open_write = any(u[1] & 0xF == WRITE and not u[0] & LAST for u in ulpdus[:first])
        a.send(*ulpdus[:first + 1])
        conclude(a, terminated(RDMA_OPERATION, 6, got=0 if open_write else got), ulpdus[first])
    return play


def send(number, size=8, offset=0, last=True):
    return untagged(SEND, bytes(size), number=number, offset=offset, last=last)


def two_immediates(front, back, opcode=IMMEDIATE, second=None):
    """Immediate Data in two segments, perhaps of another kind each."""
    return [untagged(opcode, bytes(front), last=False),
            untagged(opcode if second is None else second, bytes(back), offset=front)]


def value(t):
    return int.from_bytes(t.pattern(value_of(t), 8), "little")


def halves(t):
    """An RDMA Write of 16 bytes, in two segments, at the value."""
    return [tagged(WRITE, t.both.stag, value_of(t), b"written.", last=False),
            tagged(WRITE, t.both.stag, value_of(t) + 8, b"behind..")]


def within_a_write(*messages, end=True):
    def make(t):
        first, last = halves(t)
        return [first, *(of(t) for of in messages), *[last] * end]
    return make


def immediates():
    received = lambda n: Verdict("lives", got=n)
    yield "one", lambda t: [immediate()], received(1)
    yield "one that is solicited", lambda t: [immediate(opcode=IMMEDIATE_SE)], received(1)
    yield "for all receives", \
        lambda t: [immediate(number=n) for n in range(1, RECEIVES + 1)], received(RECEIVES)
    yield "one too many", lambda t: [immediate(number=n) for n in range(1, RECEIVES + 2)], \
        terminated(DDP_UNTAGGED, 2, got=RECEIVES)
    yield "one too many, of a wrong length", \
        lambda t: [*(immediate(number=n) for n in range(1, RECEIVES + 1)),
                   immediate(bytes(7), RECEIVES + 1)], terminated(DDP_UNTAGGED, 2, got=RECEIVES)
    yield "among Sends", lambda t: [send(1), immediate(number=2), send(3)], received(3)
    yield "with the number of a Send", lambda t: [send(1), immediate(number=1)], \
        terminated(DDP_UNTAGGED, 3, got=1)
    yield "before a Send of its number", lambda t: [immediate(), send(1)], \
        terminated(DDP_UNTAGGED, 3, got=1)
    yield "in two segments", lambda t: two_immediates(3, 5), received(1)
    yield "in two segments, too short", lambda t: two_immediates(3, 4), SHORT
    yield "in two segments, too long", lambda t: two_immediates(3, 6), LONG
    yield "in two segments, of two kinds", lambda t: two_immediates(3, 5, second=IMMEDIATE_SE), OPCODE
    yield "without an end", lambda t: two_immediates(3, 5)[:1], Verdict("open")
    yield "within a Send", lambda t: [send(1, last=False), immediate()], OPCODE
    yield "a Send within it", lambda t: [two_immediates(3, 5)[0], send(1, 5, 3)], OPCODE
    yield "behind a Write", \
        lambda t: [tagged(WRITE, t.both.stag, t.both.at, bytes(999)), immediate()], received(1)
    yield "within a Write", within_a_write(lambda t: immediate()), received(1)
    yield "within a Write without an end", within_a_write(lambda t: immediate(), end=False), \
        Verdict("open")
    yield "two within a Write", \
        within_a_write(lambda t: immediate(), lambda t: immediate(number=2), end=False), OPCODE
    yield "of wrong length within a Write", lambda t: [
        *halves(t)[:1], immediate(bytes(9))], LONG
    yield "a Terminate behind it", lambda t: [immediate(), BASES["terminate"](t)], \
        Verdict("closed", got=1)


def atomics():
    add = lambda t, n=1, **more: atomic_of(t.both.stag, value_of(t), n, ident=n, **more)
    word = lambda data: int.from_bytes(data, "little")
    memory = lambda number: (number % (1 << 64)).to_bytes(8, "little")

    def answers(make):
        """The verdict's answers depend on the victim's memory, which is told later."""
        def play(victim):
            a = Attacker(victim)
            ulpdus, expected = make(a.told)
            a.send(*ulpdus)
            ends = [u[1] & 0xF for u in ulpdus if u[0] & LAST]
            reads, got = sum(e in (READ, ATOMIC) for e in ends), ends.count(SEND)
            conclude(a, Verdict("lives", got=got, reads=reads, answers=expected), ulpdus[-1])
        return play

    def in_order(t):
        old = value(t)
        return [add(t, data=2), read_of(t.both.stag, value_of(t), 8, 2),
                add(t, 3, code=CMP_SWAP, data=9, mask=(1 << 64) - 1, compare=old + 2),
                add(t, 4, data=0)], \
            [atomic_response(1, old), (0x100, 0x1000, memory(old + 2)),
             atomic_response(3, (old + 2) % (1 << 64), 2), atomic_response(4, 9, 3)]

    def not_equal(t):
        old = value(t)
        return [add(t, code=CMP_SWAP, data=9, mask=(1 << 64) - 1, compare=old ^ 1),
                read_of(t.both.stag, value_of(t), 8, 2)], \
            [atomic_response(1, old), (0x100, 0x1000, memory(old))]

    def masks(t):
        old = value(t)
        # No carry leaves the lowest byte, whatever it is.
        new = old & ~0xFF | (old + 0xFF) & 0xFF
        return [add(t, data=0xFF, mask=0x80), read_of(t.both.stag, value_of(t), 8, 2)], \
            [atomic_response(1, old), (0x100, 0x1000, memory(new))]

    def within(t):
        first, last = halves(t)
        return [first, add(t), last], [atomic_response(1, word(b"written."))]

    if EXTENDED:
        for make in (in_order, not_equal, masks, within):
            yield make.__name__, answers(make)
    for name, make, verdict in (
            ("first", lambda t: [add(t)], None),
            ("behind a Send", lambda t: [send(1), add(t)], None),
            ("number repeated", lambda t: [add(t), add(t)], NUMBER),
            ("a Read of its number", lambda t: [add(t), read_of(t.read.stag, t.read.at, 8)], NUMBER),
            ("within a Send", lambda t: [send(1, last=False), add(t)], OPCODE),
            ("two within a Write", within_a_write(add, lambda t: add(t, 2), end=False), OPCODE),
            ("within a Write without an end", within_a_write(add, end=False), Verdict("open")),
            ("in two segments", lambda t: [bytes((VERSION,)) + add(t)[1:30],
                                           untagged(ATOMIC, add(t)[30:], queue=1, offset=12)], None),
            ("behind an STag that was invalidated",
             lambda t: [BASES["send_inv"](t), add(t)], terminated(RDMA_PROTECTION, 0, got=1))):
        if EXTENDED and verdict is None:
            yield name, answers(lambda t, m=make: (m(t), [atomic_response(1, value(t))]))
        else:
            yield name, sequence(make, verdict)


def of_no_rfc():
    """Atomic Requests that write a value and flush, of an end that has agreed on Sends with immediate data."""
    place = lambda t, of="both": (getattr(t, of).stag, getattr(t, of).at + 7 & ~7)
    wrote = lambda t, n=1, of="both", add=0: atomic_of(
        place(t, of)[0], place(t, of)[1] + add, n, ident=n, code=14,
        data=int.from_bytes(b"written.", "big"))
    flush = lambda t, n=1, flags=1, size=8: atomic_of(*place(t), n, ident=n, code=15, data=size, mask=flags)
    write = lambda t: tagged(WRITE, *place(t), b"a Write.")
    read = lambda t, n: read_of(*place(t), 8, n)
    lives = lambda *answers, reads: Verdict("lives", reads=reads, answers=list(answers))

    yield "behind a Write", lambda t: [write(t), wrote(t), read(t, 2)], \
        lives(atomic_response(1), (0x100, 0x1000, b"written."), reads=2)
    yield "before a Write", lambda t: [wrote(t), write(t), read(t, 2)], \
        lives(atomic_response(1), (0x100, 0x1000, b"a Write."), reads=2)
    # The answer is 0, whatever was there: the peer may not read it.
    yield "to what may not be read", lambda t: [wrote(t, of="write")], lives(atomic_response(1), reads=1)
    yield "to what may not be written", lambda t: [wrote(t, of="read")], terminated(RDMA_PROTECTION, 2)
    yield "not aligned", lambda t: [wrote(t, add=4)], terminated(RDMA_OPERATION, 7)
    # The victim's regions grant no flushes.
    for flags in range(1, 8):
        yield f"flush, flags {flags}", lambda t, f=flags: [flush(t, flags=f)], terminated(RDMA_PROTECTION, 2)
    yield "flush of unknown flags", lambda t: [flush(t, flags=8)], OPCODE
    yield "flush of 4 GiB", lambda t: [flush(t, size=1 << 32)], OPCODE
    for code in (1, 3, 13):
        yield f"code {code}", lambda t, c=code: [atomic_of(*place(t), code=c)], OPCODE


def atomic_or_read(t, number):
    """One of the two, in turns, and the opcode of its answer."""
    if number % 2:
        return one_read(t, number)
    return atomic_of(t.both.stag, value_of(t), 1 + number, ident=number), ATOMIC_RESPONSE


def while_it_reads(make, verdict):
    """The victim has two Reads outstanding, and no atomic."""
    def play(victim):
        a = Attacker(victim, flags=READS)
        # The victim may not send before this end has.
        a.send(tagged(WRITE, 0, 0))
        for i in (1, 2):
            a.read_request(i)
        ulpdus = make(a.told)
        a.send(*ulpdus)
        conclude(a, verdict, ulpdus[-1])
    return play


def asked(a, number):
    """Receives an Atomic Request of the victim; returns its Request Identifier."""
    ulpdu = a.next()
    check(len(ulpdu) == 70 and ulpdu[:18] == untagged(ATOMIC, queue=1, number=number),
          f"no Atomic Request {number}: {ulpdu.hex()}")
    code, ident, stag, at, data, mask, compare, compare_mask = struct.unpack("!IIIQQQQQ", ulpdu[18:])
    ones = (1 << 64) - 1
    expected = (0, 0x100, 0x1000, 5, 0, 0, ones) if number == 1 else (2, 0x100, 0x1000, 6, ones, 5, ones)
    check((code, stag, at, data, mask, compare, compare_mask) == expected, f"another one: {ulpdu.hex()}")
    return ident


def answering(make, verdict):
    """The victim has a FetchAdd and a CmpSwap outstanding; `make` has their identifiers."""
    def play(victim):
        a = Attacker(victim, flags=ATOMICS)
        a.send(tagged(WRITE, 0, 0))
        ulpdus = make(*(asked(a, i) for i in (1, 2)))
        a.send(*ulpdus)
        conclude(a, verdict, ulpdus[-1])
    return play


def responses():
    lives = Verdict("lives")
    both = lambda x, y: [atomic_response(x, 7), atomic_response(y, 8, 2)]
    yield "both", both, lives
    yield "one", lambda x, y: both(x, y)[:1], lives
    yield "the second first", lambda x, y: [atomic_response(y)], OPCODE
    yield "of another identifier", lambda x, y: [atomic_response(x ^ 0x40000000)], OPCODE
    yield "the first twice", lambda x, y: [atomic_response(x), atomic_response(x, number=2)], OPCODE
    yield "one more", lambda x, y: [*both(x, y), atomic_response(y + 1, number=3)], OPCODE
    yield "number repeated", lambda x, y: [atomic_response(x), atomic_response(y)], NUMBER
    yield "number of its request", lambda x, y: [atomic_response(y, number=2)], NUMBER
    yield "in two segments", lambda x, y: [atomic_response(x, last=False)], SHORT
    yield "too short", lambda x, y: [atomic_response(x)[:-1]], SHORT
    yield "too long", lambda x, y: [atomic_response(x) + b"\0"], SHORT
    yield "within a Send", lambda x, y: [send(1, last=False), *both(x, y), send(1, 8, 8)], \
        Verdict("lives", got=1)
    yield "a Read Response", lambda x, y: [tagged(RESPONSE, 0x100, 0x1000, bytes(8))], OPCODE


def extensions(everything):
    for name, make, verdict in immediates():
        yield f"Immediate: {name}", sequence(make, verdict)
    for name, play in atomics():
        yield f"atomic: {name}", play
    yield "Atomic Response: to nothing", sequence(lambda t: [atomic_response(1)], OPCODE)
    yield "Atomic Response: while a Read waits", while_it_reads(lambda t: [atomic_response(1)], OPCODE)
    yield "Atomic Response: between Read Responses", while_it_reads(
        lambda t: [tagged(RESPONSE, t.local.stag, t.sink_at, bytes(8), last=False),
                   atomic_response(1)], OPCODE)
    yield "Atomic Response: between two Reads' Responses", while_it_reads(
        lambda t: [tagged(RESPONSE, t.local.stag, t.sink_at + i * SINK_STEP, bytes(SINK_SIZE))
                   for i in (0, 1)] + [atomic_response(1)], OPCODE)
    if not EXTENDED:
        return
    for name, make, verdict in of_no_rfc():
        yield f"agreed: {name}", script(make, verdict, enhanced=(4, 5), offers=LARGE | IMMEDIATE_SENDS)
    # Values at the borders of each region.
    for name in ("both", "write", "read", "other", "stale", "local"):
        for where, of in EDGES.items():
            for side, of_value in (("before", lambda at: at & ~7), ("behind", lambda at: at + 7 & ~7)):
                yield f"atomic: on the value {side} the place {where} {name}", single(
                    lambda t, n=name, f=of, g=of_value: atomic_of(
                        getattr(t, n).stag, g(f(getattr(t, n)))))
    # Each twice in succession: the second time the victim has the other role.
    for role in ("", ", again"):
        yield f"atomics and Reads, as many as IRD{role}", reads_at_once(0, atomic_or_read)
    for role in ("", ", again"):
        yield f"atomics and Reads, one more than IRD{role}", reads_at_once(1, atomic_or_read)
    for name, make, verdict in responses():
        yield f"Atomic Response: {name}", answering(make, verdict)


GROUPS = {"extensions": extensions}
