# SPDX-License-Identifier: GPL-2.0
"""More groups of the adversary: connection setup, the RTR, and silent peers."""

import errno
import socket
import struct
import threading
import time

from peer import SLOW, Failed, check, tls
from peer.messages import (DDP_TAGGED, DDP_UNTAGGED, RDMA_PROTECTION, RESPONSE, SEND, SEND_INV,
                           WRITE, read_of, tagged, untagged)
from peer.mpa import C, REPLY, REQUEST, S, frame
from peer.stream import fpdu
from peer.tls import DIRECTORY
from peer.verdicts import Verdict, terminated
from peer.victim import FLOOD, NO_READS, UNKNOWN, WRITE_RTR, Attacker

from cases import BASES, LIVES, conclude

# RFC 6581 s9: peer-to-peer, and all three forms of the RTR.
ANY_RTR = 0xC000 | 4, 0xC000 | 4
# The only form is the Read.
READ_RTR = 0x8000 | 4, 0x4000 | 4


# --- requests ----------------------------------------------------------------------------------------

def ask(victim, data, how="FIN"):
    """Sends bytes instead of a Request; returns all that comes back."""
    sock = tls.over(socket.create_connection((victim.address, victim.port), 10 * SLOW))
    got = b""
    try:
        sock.sendall(data)
        if how == "RST":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return b""
        sock.shutdown(socket.SHUT_WR)
        while more := sock.recv(4096):
            got += more
    except socket.timeout as e:
        raise Failed("it is not closed") from e
    except OSError as e:
        # The victim has reset the connection, perhaps before all was sent.
        check(e.errno in (errno.ECONNRESET, errno.ENOTCONN, errno.EPIPE), f"{e!r}")
    finally:
        sock.close()
    return got


def refused(data, how="FIN"):
    def play(victim):
        got = ask(victim, data, how)
        check(not got, f"an answer: {got[:40].hex()}")
    return play


def requests(everything):
    # A token that no case has: nobody waits for the end of these connections.
    whole = frame(REQUEST, data=struct.pack("!IBB", 0xFFFFFFFF, 0, 8))
    for at in range(len(whole)):
        for how in ("FIN", "RST"):
            yield f"{how} after {at} bytes of a Request", refused(whole[:at], how)
    yield "RST after the Request", refused(whole, "RST")
    for at in range(16):
        for bit in range(8) if everything else (at % 8,):
            key = bytearray(whole)
            key[at] ^= 1 << bit
            yield f"bit {bit} of byte {at} of the key", refused(bytes(key))
    for revision in (0, 3, 4, 0x80, 0xFF):
        yield f"revision {revision}", refused(frame(REQUEST, revision=revision))
    for size in (513, 1000, 0x8000, 0xFFFF):
        yield f"{size} bytes of private data", refused(
            frame(REQUEST, data=bytes(size)))
    yield "a Reply", refused(whole.replace(REQUEST, REPLY))
    for size in range(4):
        yield f"{size} bytes for IRD and ORD", refused(
            frame(REQUEST, C | S, 2, bytes(size)))
    yield "an FPDU of zeros", refused(bytes(20))
    yield "a Send and no Request", refused(fpdu(untagged(SEND, bytes(30))))

    def early(data, verdict):
        """An FPDU follows the Request at once, before there can be a Reply."""
        def play(victim):
            a = Attacker(victim, behind=fpdu(data))
            conclude(a, verdict, data)
        return play
    yield "a Write behind the Request", early(tagged(WRITE, 0, 0), LIVES)
    yield "a bad Write behind the Request", early(
        tagged(WRITE, UNKNOWN, 0, b"stray"), terminated(DDP_TAGGED, 0))


# --- ready to receive ---------------------------------------------------------------------------------

def rtr(everything):
    def case(name, make, verdict, enhanced=ANY_RTR):
        def play(victim):
            a = Attacker(victim, enhanced=enhanced)
            ulpdus = make(a.told)
            a.send(*ulpdus)
            conclude(a, verdict, ulpdus[-1])
        return name, play

    def send(number=1, data=b"", **more):
        return untagged(SEND, data, number=number, **more)
    one = Verdict("lives", got=1)
    number = terminated(DDP_UNTAGGED, 3)
    empty = Verdict("lives", reads=1, answers=[(0x100, 0x1000, b"")])
    yield case("a Send", lambda t: [send()], LIVES)
    yield case("a Write", lambda t: [tagged(WRITE, UNKNOWN, 0)], LIVES)
    yield case("a Read", lambda t: [read_of(UNKNOWN, 0, 0)], empty)
    yield case("two Sends", lambda t: [send(), send(2)], one)
    yield case("a Send, and its number again", lambda t: [send(), send()], number)
    yield case("number 2 first", lambda t: [send(2)], number)
    yield case("a Send with data", lambda t: [send(data=b"data")], one)
    yield case("a Send behind a Write", lambda t: [tagged(WRITE, 0, 0), send()], one)
    yield case("a Send in pieces", lambda t: [send(last=False), send()], one)
    yield case("a Send that was not agreed on", lambda t: [send()], one, enhanced=WRITE_RTR)
    yield case("a Write with data to nothing",
               lambda t: [tagged(WRITE, UNKNOWN, 0, b"x")], terminated(DDP_TAGGED, 0))
    yield case("a Read of nothing that is there", lambda t: [read_of(UNKNOWN, 0, 1)],
               terminated(RDMA_PROTECTION, 0, read=True))
    yield case("one that invalidates", lambda t: [untagged(SEND_INV, stag=UNKNOWN)],
               terminated(RDMA_PROTECTION, 0))
    yield case("a Send to another queue", lambda t: [send(queue=5)], terminated(DDP_UNTAGGED, 1))
    yield case("a Terminate", lambda t: [BASES["terminate"](t)], Verdict("closed"))
    for base in ("write", "send", "read"):
        for size in range(1, 20, 1 if everything else 6):
            def cut(victim, base=base, size=size):
                a = Attacker(victim, enhanced=ANY_RTR)
                a.deliver(fpdu(BASES[base](a.told))[:size])
                a.fin()
                a.closed()
                a.over()
            yield f"{base}: {size} bytes", cut


def excluded(forms, make, ird):
    """The victim wants no Reads. Only if the peer can send no other RTR than a Read, the Reply has an IRD
    of 1: the RTR is answered, and each other Read is too many."""
    def play(victim):
        a = Attacker(victim, flags=NO_READS, enhanced=forms)
        check(a.ird == ird, f"an IRD of {a.ird}")
        ulpdu = make(a.told)
        if struct.unpack("!I", ulpdu[10:14]) == (2,):
            a.send(read_of(UNKNOWN, 0, 0))
            check(a.next() == tagged(RESPONSE, 0x100, 0x1000), "no answer to the RTR")
        a.send(ulpdu)
        conclude(a, terminated(DDP_UNTAGGED, 2), ulpdu)
    return play


def no_reads(_everything):
    yield "one of nothing", excluded(ANY_RTR, lambda t: read_of(UNKNOWN, 0, 0), 0)
    yield "the RTR, and one of nothing", excluded(READ_RTR, lambda t: read_of(UNKNOWN, 0, 0, 2), 1)
    yield "the RTR, and one more", excluded(
        READ_RTR, lambda t: read_of(t.read.stag, t.read.at, 8, 2), 1)
    yield "one instead of the RTR", excluded(
        READ_RTR, lambda t: read_of(t.read.stag, t.read.at, 8), 1)


# --- silence -------------------------------------------------------------------------------------------

def let_go(victim, data, *flags):
    """The victim waits for more, but not for ever: it closes after a while."""
    began = time.monotonic()
    sock = tls.over(socket.create_connection((victim.address, victim.port), 10 * SLOW))
    sock.sendall(data, *flags)
    sock.settimeout(25 * SLOW)
    try:
        check(sock.recv(1) == b"", "an answer to nothing")
    except ConnectionResetError:
        pass
    except socket.timeout as e:
        raise Failed("it is waited for, for ever") from e
    check(time.monotonic() - began > 3, "let go too soon")


def owes_rtr(victim):
    a = Attacker(victim, enhanced=ANY_RTR)
    a.sock.settimeout(25 * SLOW)
    try:
        check(a.sock.recv(1) == b"", "something comes")
    except ConnectionResetError:
        pass
    except socket.timeout as e:
        raise Failed("the RTR is waited for, for ever") from e
    a.over()


def owes_nothing(victim):
    """A connection does not end because it is silent, not even in the middle of an FPDU."""
    a = Attacker(victim)
    data = fpdu(BASES["write"](a.told))
    for part in (data[:1], data[1:9], data[9:]):
        time.sleep(2)
        a.deliver(part)
    a.lives()
    a.fin()
    check(a.next() == b"", "something behind the answer")
    a.over()


def stays(victim):
    """The victim's end of a connection ends although this end does not close."""
    for make in (lambda t: tagged(WRITE, UNKNOWN, 0, b"x"), BASES["terminate"]):
        a = Attacker(victim)
        a.send(make(a.told))
        check(victim.ended(a.token, 12) == 0, "a message was delivered")
        a.sock.close()


def reads_nothing(victim):
    """This end reads nothing, so the Terminate never finds room; the victim ends all the same."""
    a = Attacker(victim, flags=FLOOD, window=4096)
    a.send(tagged(WRITE, 0, 0))
    time.sleep(1)
    a.send(tagged(WRITE, UNKNOWN, 0, b"x"))
    check(victim.ended(a.token, 30) == 0, "a message was delivered")
    a.sock.close()


def leaves_in_the_flood(victim):
    for how in ("reset", "fin"):
        a = Attacker(victim, flags=FLOOD, window=4096)
        a.send(tagged(WRITE, 0, 0))
        time.sleep(0.5)
        getattr(a, how)()
        if how == "fin":
            time.sleep(0.5)
        a.over()


def terminated_in_the_flood(victim):
    """The Terminate follows the FPDUs that were on their way. The victim gives it five seconds to find room."""
    a = Attacker(victim, flags=FLOOD, window=4096)
    ulpdu = tagged(WRITE, UNKNOWN, 0, b"x")
    a.send(tagged(WRITE, 0, 0), ulpdu)
    a.read_ahead()
    conclude(a, terminated(DDP_TAGGED, 0), ulpdu)


class Silence:
    """All cases that take long, at once."""

    CASES = {
        "no Request": lambda v: let_go(v, b""),
        "half a Request": lambda v: let_go(v, REQUEST),
        "a Request without its data": lambda v: let_go(
            v, frame(REQUEST, data=bytes(8), length=9)),
        "no RTR": owes_rtr,
        "quiet": owes_nothing,
        "the connection is kept": stays,
        "nothing is read": reads_nothing,
        "gone in the flood": leaves_in_the_flood,
        "terminated in the flood": terminated_in_the_flood,
    }
    if not DIRECTORY:
        # The victim reads nothing of it.
        CASES["an urgent byte of a Request"] = lambda v: let_go(v, REQUEST[:9], socket.MSG_OOB)

    def __init__(self, victim):
        self.failures = []
        self.threads = [threading.Thread(target=self._play, args=(victim, *case))
                        for case in self.CASES.items()]
        for thread in self.threads:
            thread.start()

    def _play(self, victim, name, play):
        try:
            play(victim)
        except (Failed, OSError) as e:
            self.failures.append(f"{name}: {e!r}"[:300])

    def end(self):
        for thread in self.threads:
            thread.join()


GROUPS = {f.__name__: f for f in (requests, rtr, no_reads)}
