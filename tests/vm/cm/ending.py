# SPDX-License-Identifier: GPL-2.0
"""How long connections may take to end.

    ending.py ADDRESS PORT GROUP    runs all cases of a group at once, each on a port of its own,
                                    counted from PORT

A consumer (tests/vm/prog/ending.c) or a fault makes the device end a connection. The peer, which is
this program, receives or sends nothing any more. Prints "ok NAME" or "not ok NAME" for
each case.
"""

import ctypes
import os
import select
import socket
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from peer import SLOW, Failed, check, reset
from peer.messages import DDP_UNTAGGED, RDMAP, SEND, WRITE, tagged, untagged
from peer.mpa import REQUEST, frame
from peer.stream import Stream
from peer.victim import UNKNOWN, Program

# Seconds by which the device may be late, besides a tenth of the time, as the kernel's timers are
# coarse; and by which the measurement may be wrong: the device is never early.
LATE, EARLY = 4 * SLOW, 0.1
# More Writes than all buffers hold (the job makes TCP's small).
FLOOD = 16


def tcp_info(sock, kind, offset):
    """A field of the socket's struct tcp_info."""
    return struct.unpack_from(kind, sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), offset)[0]


def since_received(sock):
    """Seconds since data have come last (tcpi_last_data_recv), however late this process is."""
    return tcp_info(sock, "I", 52) / 1000


class Consumer(Program):
    def __init__(self, address, port, writes):
        self.lines = {}
        super().__init__("ending", address, str(port), *writes.split())
        self.has("ready")

    def line(self, line):
        self.lines.setdefault(line, time.monotonic())

    def last(self):
        return " / ".join(self.lines)

    def has(self, line, seconds=10):
        """Waits for the line and returns the time at which the consumer has printed it."""
        self.wait(lambda: line in self.lines, f"does not say '{line}', but '{self.last()}'", seconds)
        return self.lines[line]

    def do(self, what, answer=None):
        """Has the consumer do something, and returns the time before that."""
        now = time.monotonic()
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        self.has(answer or "done " + what)
        return now


class Peer(Stream):
    """The other end of a consumer's connection."""

    def __init__(self, address, port, writes=0):
        self.consumer = Consumer(address, port, str(writes))
        sock = socket.socket()
        # A small buffer and small segments: reading a little acknowledges a little.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        sock.settimeout(10 * SLOW)
        sock.connect((address, port))
        super().__init__(sock)
        self.ask()
        self.accepted()
        self.replied = time.monotonic() - since_received(sock)
        self.speak()
        self.established = self.consumer.has("event RDMA_CM_EVENT_ESTABLISHED")
        if writes:
            self.full()

    def ask(self):
        self.sock.sendall(frame(REQUEST))

    def speak(self):
        """Sends a first FPDU. The consumer may send only after that."""
        self.send(tagged(WRITE, 0, 0))

    def first_after(self):
        """Waits for the first byte; returns the seconds from the Reply to it."""
        check(len(self.receive(1)) == 1, "the end")
        return time.monotonic() - self.replied

    def waiting(self):
        return len(self.sock.recv(1 << 20, socket.MSG_PEEK))

    def full(self):
        """Waits until the consumer's data have filled this end's buffer and nothing moves any more."""
        # Looks are counted, not seconds: this process may see nothing of them.
        before = same = 0
        for _ in range(300):
            now = self.waiting()
            same = same + 1 if now == before else 0
            if now > 2000 and same == 15:
                return
            before = now
            time.sleep(0.1)
        raise Failed(f"only {before} bytes came, or they do not end")

    def reset_at(self, seconds):
        """Waits for a reset, at most for this time; returns when it came."""
        poll = select.poll()
        poll.register(self.sock, 0)
        check(poll.poll(1000 * seconds), f"not reset in {seconds:.0f} s")
        now = time.monotonic()
        error = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        # The error is EPIPE for a reset after a FIN.
        check(os.strerror(error) in ("Connection reset by peer", "Broken pipe"), os.strerror(error))
        return now

    def reset_after(self, since, seconds):
        after = self.reset_at(since + 1.1 * seconds + LATE - time.monotonic()) - since
        check(after >= seconds - EARLY, f"reset after {after:.1f} s, not {seconds}")
        return f"reset after {after:.1f} s"

    def ends_after(self, since, seconds):
        """The peer is reset, and the consumer is told, after this time."""
        said = self.reset_after(since, seconds)
        after = self.consumer.has("event disconnected", seconds) - since
        check(after >= seconds - EARLY, f"the consumer was told after {after:.1f} s, not {seconds}")
        return said

    def over(self):
        self.sock.close()
        self.consumer.process.stdin.close()
        self.consumer.process.wait(10 * SLOW)


# --- the queue pair is still there -----------------------------------------------------------------

def terminate_not_sent(peer):
    """A Terminate finds no room in the full send buffer: the device waits 5 s, then resets."""
    began = time.monotonic()
    peer.send(tagged(WRITE, UNKNOWN, 0, b"x"))
    return peer.ends_after(began, 5)


def draining(peer):
    """The peer acknowledges nothing of what the consumer posted before it disconnected: 30 s."""
    return peer.ends_after(peer.consumer.do("disconnect"), 30)


def no_fin(peer):
    """The consumer disconnects and the peer sends no FIN: 10 s."""
    began = peer.consumer.do("disconnect")
    check(peer.receive(1) == b"", "not a FIN")
    return peer.ends_after(began, 10)


#= 5040-7-1
def deaf_behind_a_fault(peer):
    """After a fault of the peer nothing is placed, even while the Terminate finds no room."""
    peer.consumer.do("receives")
    where = next(line for line in peer.consumer.lines if line.startswith("target "))
    address, key = map(int, where.split()[1:])

    def write(value):
        return tagged(WRITE, key, address, bytes((value,)))

    looks = 0

    def has(value):
        nonlocal looks
        looks += 1
        peer.consumer.do("look", f"done with look {looks}")
        return f"byte {value} at look {looks}" in peer.consumer.lines

    def keeps(value):
        time.sleep(0.3)
        check(has(value), f"something was placed: {peer.consumer.last()}")

    peer.send(write(1))
    peer.consumer.wait(lambda: has(1), "the first Write is not placed")
    # The second Send is the fault: the completion queue has no room for it. One Write is in the same
    # packet, another one comes later.
    began = time.monotonic()
    peer.send(untagged(SEND), untagged(SEND, number=2), write(2))
    keeps(1)
    peer.send(write(3))
    keeps(1)
    return peer.ends_after(began, 5)


def receive_waited_for(peer):
    """A Send finds no receive: the device waits a second for one, and then it is a fault."""
    began = time.monotonic()
    peer.send(untagged(SEND))
    Peer.terminated(peer, DDP_UNTAGGED, 2, untagged(SEND))
    after = time.monotonic() - began
    check(1 - EARLY <= after <= 1 + LATE, f"a Terminate after {after:.1f} s, not 1")
    return f"a Terminate after {after:.1f} s"


def reset_while_waiting(peer):
    """The peer resets while its Send waits for a receive, for 9 s: the consumer is told at once."""
    peer.send(untagged(SEND, bytes(200)))
    time.sleep(0.2)
    began = time.monotonic()
    reset(peer.sock)
    after = peer.consumer.has("event disconnected") - began
    check(after < 5, f"told after {after:.1f} s")
    return f"told after {after:.1f} s"


# --- nobody is left --------------------------------------------------------------------------------

def nobody_left(peer):
    """The consumer has destroyed the queue pair and the peer acknowledges nothing: 5 s."""
    return peer.reset_after(peer.consumer.do("destroy"), 5)


def process_killed(peer):
    """The same after the consumer was killed."""
    began = time.monotonic()
    peer.consumer.process.kill()
    peer.consumer.process.wait(10 * SLOW)
    return peer.reset_after(began, 5)


# --- the peer's host vanishes -------------------------------------------------------------------------
# The job has loaded the driver with these times.

IDLE, INTERVAL, COUNT, USER_TIMEOUT, RESPONDER_WAIT = 2, 1, 2, 6, 1.5
SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27


def deaf(sock):
    """From now on no packet reaches the socket, and it acknowledges none, as if its host had vanished."""
    class Program_(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
    # A filter that drops all: BPF_RET 0.
    code = struct.pack("HBBI", 6, 0, 0, 0)
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, bytes(Program_(1, code)))


def hearing(sock):
    sock.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)


def deaf_when_idle(peer):
    """Makes the peer deaf, once all it was sent is acknowledged. Returns the times before and after that:
    between them it was heard last."""
    before = time.monotonic()
    peer.send(tagged(WRITE, 0, 0))
    time.sleep(1)
    deaf(peer.sock)
    return before, time.monotonic()


def given_up_after(peer, heard, seconds):
    """After this time the consumer is told, and the queue pair is in ERROR."""
    before, after = heard
    told = peer.consumer.has("event disconnected", seconds + 10)
    said = f"given up after {told - before:.1f} s"
    check(told >= before + seconds - 0.5 and told <= after + seconds + 10 * SLOW, f"{said}, not {seconds}")
    peer.consumer.do("query", "done query error")
    return said


def idle_peer_vanishes(peer):
    """Keep-alive probes are not answered: the connection ends after the user timeout."""
    return given_up_after(peer, deaf_when_idle(peer), USER_TIMEOUT)


def idle_peer_stays(peer):
    """A peer that is idle, but answers keep-alive probes, stays connected."""
    time.sleep(2 * USER_TIMEOUT)
    check("event disconnected" not in peer.consumer.lines, "disconnected")
    peer.send(tagged(WRITE, 0, 0))
    peer.consumer.do("disconnect")
    check(peer.receive(1) == b"", "not a FIN")
    return "there all the time"


def busy_peer_vanishes(peer):
    """The consumer's data are not acknowledged: the connection ends after the user timeout."""
    return given_up_after(peer, (peer.spoke, peer.established), USER_TIMEOUT)


def without_user_timeout(peer):
    """Without a user timeout, the connection ends after the number of keep-alive probes."""
    return given_up_after(peer, deaf_when_idle(peer), IDLE + COUNT * INTERVAL)


class DeafPeer(Peer):
    """A peer that goes deaf before it lets the consumer send."""

    def speak(self):
        deaf(self.sock)
        self.spoke = time.monotonic()
        super().speak()

    def full(self):
        pass


class SilentPeer(Peer):
    """A peer that sends no FPDU, so that the consumer begins."""

    def speak(self):
        pass

    def full(self):
        pass


class LatePeer(SilentPeer):
    """A peer that gets the Reply late: it is deaf for a while."""

    def ask(self):
        deaf(self.sock)
        super().ask()
        self.consumer.has("event RDMA_CM_EVENT_ESTABLISHED")
        time.sleep(1.5 * RESPONDER_WAIT)
        hearing(self.sock)


def begins_after_reply(peer):
    """The consumer begins after responder_wait_ms from the Reply, in which the peer may begin."""
    after = peer.first_after()
    check(after >= RESPONDER_WAIT - EARLY, f"begins {after:.2f} s after the Reply")
    check(after <= RESPONDER_WAIT + LATE, f"begins only {after:.2f} s after the Reply")
    return f"begins {after:.2f} s after the Reply"


def begins_after_late_reply(peer):
    """That time begins with the Reply's arrival, even if the Reply was lost several times."""
    after = peer.first_after()
    check(after >= RESPONDER_WAIT - EARLY, f"begins {after:.2f} s after the Reply")
    return f"begins {after:.2f} s after the Reply"


def last_completion_lost(peer):
    """The last completion of an orderly close finds its queue full: a Terminate, not only a FIN."""
    peer.consumer.do("drain")
    peer.send(tagged(WRITE, 0, 0))
    for _ in range(2):
        check(peer.next()[1] == RDMAP | WRITE, "not what the consumer sends")
    Peer.terminated(peer, 0, 0)
    peer.sock.shutdown(socket.SHUT_WR)
    peer.consumer.has("event disconnected")
    return "a Terminate behind the last Write"


GROUPS = {
    "stubborn": {
        terminate_not_sent: (Peer, FLOOD), deaf_behind_a_fault: (Peer, FLOOD),
        receive_waited_for: (Peer, 0), draining: (Peer, FLOOD), no_fin: (Peer, 0),
        nobody_left: (Peer, FLOOD), process_killed: (Peer, FLOOD)},
    # keepalive_idle_s, keepalive_interval_s, user_timeout_ms, responder_wait_ms, recv_wait_ms
    "vanishing": {
        idle_peer_vanishes: (Peer, 0), idle_peer_stays: (Peer, 0), busy_peer_vanishes: (DeafPeer, 1),
        begins_after_reply: (SilentPeer, 1), begins_after_late_reply: (LatePeer, 1),
        reset_while_waiting: (Peer, 0)},
    # user_timeout_ms=0 responder_wait_ms=0
    "by_count": {
        without_user_timeout: (Peer, 0),
        # Two Writes, and room for the completion of one.
        last_completion_lost: (SilentPeer, "2 1")},
}


def play(address, port, case, kind, writes):
    try:
        peer = kind(address, port, writes)
        said = case(peer)
        peer.over()
        return f"ok {case.__name__}, {said}"
    except (Failed, OSError) as e:
        return f"# {case.__name__}: {e!r}"[:300] + f"\nnot ok {case.__name__}"


def main():
    if sys.argv[1] == "--list":
        print("\n".join(case.__name__ for cases in GROUPS.values() for case in cases))
        return
    address, port, cases = sys.argv[1], int(sys.argv[2]), GROUPS[sys.argv[3]]
    with ThreadPoolExecutor(len(cases)) as pool:
        results = [pool.submit(play, address, port + i, case, *how)
                   for i, (case, how) in enumerate(cases.items())]
        for result in results:
            print(result.result(), flush=True)


if __name__ == "__main__":
    main()
