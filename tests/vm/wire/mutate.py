# SPDX-License-Identifier: GPL-2.0
"""The random part of the adversary: right streams that are changed in several ways at once.

No rule says how the victim has to answer these, but some things must never happen. So a case checks
that the victim sends a stream of FPDUs, with at most one Terminate, well formed and at the end; that
its answers contain only data that were asked for and may be read; and that its memory is intact.
"""

import random
import struct
import time

from peer import SLOW, check
from peer.messages import (ATOMIC, ATOMIC_RESPONSE, RDMAP, READ, RESPONSE, SEND, TAGGED,
                           TERMINATE, WRITE, read_of, tagged, untagged)
from peer.stream import crc32c, fpdu
from peer.verdicts import EXTENDED, well_formed
from peer.victim import READS, RECEIVES, Attacker

from cases import BASES, FIELDS

INTERESTING = (0, 1, 2, 3, 4, 7, 8, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000,
               0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 63, (1 << 64) - 1, (1 << 64) - 8)


def streams(rng, t):
    """A right stream: ULPDUs, each with the name of its kind."""
    sends = reads = 0
    kinds = ("write", "write", "send", "send_inv", "read", "read", "response", "pieces", "long",
             "terminate")
    # Where they are not known, the first of them is the last that counts.
    extensions = ("immediate", "add", "swap") * (2 if EXTENDED else 1) + ("atomic_response",)
    for _ in range(rng.randint(1, 6)):
        name = rng.choice(extensions if rng.randrange(3 if EXTENDED else 20) == 0 else kinds)
        if name == "pieces":
            sends += 1
            yield "send", untagged(SEND, bytes(20), number=sends, last=False)
            yield "send", untagged(SEND, bytes(20), number=sends, offset=20)
        elif name == "long":
            size = rng.choice((0, 1, 500, 1448, 4000, 5000))
            yield "write", tagged(WRITE, t.both.stag, t.both.at, rng.randbytes(size))
        elif name == "read":
            reads += 1
            size = rng.choice((0, 1, 16, 2048, 2049, 5000))
            which = t.both if size == 5000 else t.read
            yield name, read_of(which.stag, which.at, size, reads, sink=(reads, reads << 32))
        elif name in ("add", "swap"):
            reads += 1
            ulpdu = BASES[name](t)
            number = struct.pack("!I", reads)
            yield name, ulpdu[:10] + number + ulpdu[14:22] + number + ulpdu[26:]
        elif name in ("send", "send_inv", "immediate"):
            sends += 1
            ulpdu = BASES[name](t)
            yield name, ulpdu[:10] + struct.pack("!I", sends) + ulpdu[14:]
        elif name == "response":
            yield name, tagged(RESPONSE, t.local.stag, t.sink_at, bytes(64))
        else:
            yield name, BASES[name](t)


def in_a_field(rng, t, name, ulpdu):
    field, (at, size) = rng.choice(list(FIELDS[name].items()))
    old = int.from_bytes(ulpdu[at:at + size], "big")
    given = rng.choice(list(t.ranges.values()))
    new = rng.choice((
        rng.choice(INTERESTING), rng.getrandbits(8 * size), old + rng.randint(-20, 20),
        old ^ 1 << rng.randrange(8 * size), given.stag, given.at, given.at + given.size,
        given.at + rng.randrange(given.size), t.receive_at, t.sink_at))
    return ulpdu[:at] + (new % (1 << 8 * size)).to_bytes(size, "big") + ulpdu[at + size:]


def in_bytes(rng, t, name, ulpdu):
    data = bytearray(ulpdu)
    for _ in range(rng.randint(1, 4)):
        if data:
            data[rng.randrange(min(len(data), 60))] = rng.getrandbits(8)
    return bytes(data)


def shorter(rng, t, name, ulpdu):
    return ulpdu[:rng.randrange(len(ulpdu) + 1)]


def longer(rng, t, name, ulpdu):
    return ulpdu + rng.randbytes(rng.choice((1, 2, 3, 4, 60, 1000, 6000)))


def framed(rng, ulpdu):
    """An FPDU, most often a right one."""
    data = bytearray(fpdu(ulpdu))
    what = rng.randrange(12)
    if what == 0:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif what == 1:
        length = rng.choice((0, 1, 13, 14, 17, len(ulpdu) - 1, len(ulpdu) + 1, 64768, 0xFFFF))
        data[:2] = struct.pack("!H", max(0, length))
        if rng.getrandbits(1):
            data[-4:] = crc32c(data[:-4])
    return bytes(data)


def stream(rng, t):
    """The bytes to be sent, and the ULPDUs that they were made of."""
    sent = [[name, ulpdu] for name, ulpdu in streams(rng, t)]
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        victim = rng.choice(sent)
        change = rng.choice((in_a_field, in_a_field, in_a_field, in_bytes, shorter, longer))
        end = max(at + size for at, size in FIELDS[victim[0]].values())
        if len(victim[1]) >= end or change is not in_a_field:
            victim[1] = change(rng, t, *victim)
    what = rng.randrange(10)
    at = rng.randrange(len(sent))
    if what == 0:
        sent.insert(at, sent[at])
    elif what == 1:
        del sent[at]
    elif what == 2:
        rng.shuffle(sent)
    ulpdus = [ulpdu for _, ulpdu in sent]
    data = b"".join(framed(rng, ulpdu) for ulpdu in ulpdus)
    what = rng.randrange(12)
    if what == 0:
        data = data[:rng.randrange(len(data) + 1)]
    elif what == 1:
        at = rng.randrange(len(data) + 1)
        data = data[:at] + rng.randbytes(rng.randint(1, 100)) + data[at:]
    return data, ulpdus


def may_answer(t, ulpdu, ulpdus):
    """Whether a Read Response has only data that one of the Read Requests may read."""
    stag, to = struct.unpack("!IQ", ulpdu[2:14])
    data = ulpdu[14:]
    for asked in ulpdus:
        if len(asked) != 46 or asked[1] & 0xF != READ:
            continue
        sink, sink_to, size, source, at = struct.unpack("!IQIIQ", asked[18:])
        done = (to - sink_to) % (1 << 64)
        if sink != stag or done + len(data) > size:
            continue
        if not data:
            return True
        given = next((g for g in (t.both, t.read) if g.stag == source), None)
        # This end may have written to `both`, so its data are not known.
        if given and given.holds(at + done, len(data)) and \
                (given is t.both or data == t.pattern(at + done, len(data))):
            return True
    return False


def framed_as_sent(data):
    """The ULPDUs that a receiver finds in these bytes, complete or not."""
    at = 0
    while at + 2 <= len(data):
        length = struct.unpack("!H", data[at:at + 2])[0]
        yield data[at + 2:at + 2 + length]
        at += (2 + length + 3) // 4 * 4 + 4


def answers(a, flags, data):
    """Checks all that comes back."""
    ulpdus = list(framed_as_sent(data))
    while ulpdu := a.next_or_reset():
        opcode = ulpdu[1] & 0xF
        check(len(ulpdu) >= 14 and ulpdu[0] & 3 == 1 and ulpdu[1] & 0xF0 == RDMAP,
              f"no segment: {ulpdu[:20].hex()}")
        if opcode == TERMINATE:
            well_formed(ulpdu, ulpdus)
            check(a.next_or_reset() == b"", "something behind the Terminate")
            return
        if opcode == RESPONSE:
            check(ulpdu[0] & TAGGED and may_answer(a.told, ulpdu, ulpdus),
                  f"an answer that nobody may have: {ulpdu[:30].hex()}")
        elif opcode == ATOMIC_RESPONSE and EXTENDED:
            check(any(len(u) >= 26 and u[1] & 0xF == ATOMIC and u[22:26] == ulpdu[18:22] for u in ulpdus),
                  f"an answer to nothing: {ulpdu.hex()}")
        else:
            check(opcode == READ and flags & READS, f"a message of its own: {ulpdu[:20].hex()}")


def cuts(rng, size):
    what = rng.randrange(8)
    if what == 0 and size < 300:
        return range(1, size)
    if what < 3 and size:
        return sorted(rng.sample(range(size), min(size, rng.randint(1, 5))))
    return ()


def play(victim, seed, number):
    rng = random.Random(f"{seed}:{number}")
    flags = READS if rng.randrange(4) == 0 else 0
    a = Attacker(victim, flags=flags, receives=rng.choice((0, 1, RECEIVES)),
                 enhanced=(0xC004, 0xC004) if rng.randrange(8) == 0 else None)
    data, _ = stream(rng, a.told)
    try:
        a.deliver(data, cuts(rng, len(data)))
        how = rng.randrange(10)
        if how == 0:
            a.reset()
            return a.over(None)
        if how == 1:
            time.sleep(0.05 * SLOW)
        a.fin()
    except (BrokenPipeError, ConnectionResetError):
        # The victim has ended the connection.
        pass
    answers(a, flags, data)
    a.over(None)
