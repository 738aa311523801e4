# SPDX-License-Identifier: GPL-2.0
"""How long connections may take to end.

    ending.py ADDRESS PORT      all cases at once, each with a port of its own, from this one on

The device is asked by a consumer (tests/vm/prog/ending.c), or by a fault, to end a connection whose
peer, this program, takes or sends nothing any more, or little. Says "ok NAME" or "not ok NAME".
"""

import os
import select
import socket
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "wire"))

import fpdu
import mpa
from fpdu import SLOW, WRITE, Failed, check
from victim import UNKNOWN, Program

# What the device may be late by, and a tenth: the kernel's timers are coarse. It is never early.
LATE, EARLY = 4 * SLOW, 0.1
# More than all buffers hold (the job keeps TCP's small).
FLOOD = 16


class Consumer(Program):
    def __init__(self, address, port, writes):
        self.lines = {}
        super().__init__("ending", address, str(port), str(writes))
        self.has("ready")

    def line(self, line):
        self.lines.setdefault(line, time.monotonic())

    def last(self):
        return " / ".join(self.lines)

    def has(self, line, seconds=10):
        """The time of it."""
        self.wait(lambda: line in self.lines, f"does not say '{line}', but '{self.last()}'", seconds)
        return self.lines[line]

    def do(self, what):
        """The time before it is asked to."""
        now = time.monotonic()
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        self.has("done " + what)
        return now


class Peer(fpdu.Stream):
    """The other end of a consumer's connection."""

    def __init__(self, address, port, writes=0):
        self.consumer = Consumer(address, port, writes)
        sock = socket.socket()
        # Small steps: who reads a little acknowledges a little.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        sock.settimeout(10 * SLOW)
        sock.connect((address, port))
        super().__init__(sock)
        sock.sendall(mpa.frame(mpa.REQUEST))
        self.accepted()
        # It may send after that.
        self.send(fpdu.tagged(WRITE, 0, 0))
        self.consumer.has("event RDMA_CM_EVENT_ESTABLISHED")
        if writes:
            self.full()

    def waiting(self):
        return len(self.sock.recv(1 << 20, socket.MSG_PEEK))

    def full(self):
        """Until what comes has filled this end's buffer, and nothing moves any more."""
        before, since = -1, time.monotonic()
        while time.monotonic() < since + 1.5:
            now = self.waiting()
            if now != before:
                before, since = now, time.monotonic()
            time.sleep(0.1)
        check(before > 2000, f"only {before} octets came")

    def reset_at(self, seconds):
        """The time of the reset, which comes within this time."""
        poll = select.poll()
        poll.register(self.sock, 0)
        check(poll.poll(1000 * seconds), f"not reset in {seconds:.0f} s")
        now = time.monotonic()
        error = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        # A reset behind a FIN is told by the latter name.
        check(os.strerror(error) in ("Connection reset by peer", "Broken pipe"), os.strerror(error))
        return now

    def reset_after(self, since, seconds):
        after = self.reset_at(since + 1.1 * seconds + LATE - time.monotonic()) - since
        check(after >= seconds - EARLY, f"reset after {after:.1f} s, not {seconds}")
        return f"reset after {after:.1f} s"

    def ends_after(self, since, seconds):
        """Both ends hear of it."""
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
    """5 s for a Terminate to find room behind what is not taken. The consumer waits for it."""
    began = time.monotonic()
    peer.send(fpdu.tagged(WRITE, UNKNOWN, 0, b"x"))
    return peer.ends_after(began, 5)


def draining(peer):
    """30 s without an octet acknowledged of what the consumer posted before it disconnected."""
    return peer.ends_after(peer.consumer.do("disconnect"), 30)


def draining_for_us(peer):
    """The same when this end began. (iw_cm tells the consumer when all is over.)"""
    began = time.monotonic()
    peer.sock.shutdown(socket.SHUT_WR)
    return peer.ends_after(began, 30)


def no_fin(peer):
    """10 s for our FIN."""
    began = peer.consumer.do("disconnect")
    check(peer.receive(1) == b"", "not a FIN")
    return peer.ends_after(began, 10)


def late_data(peer):
    """As many again, if this end has sent something within them."""
    began = peer.consumer.do("disconnect")
    check(peer.receive(1) == b"", "not a FIN")
    time.sleep(5)
    peer.send(fpdu.tagged(WRITE, 0, 0))
    return peer.reset_after(began, 20)


# --- nobody is left --------------------------------------------------------------------------------

def nobody_left(peer):
    """5 s without an octet acknowledged, once the consumer has destroyed the queue pair."""
    return peer.reset_after(peer.consumer.do("destroy"), 5)


def process_killed(peer):
    """Or has been killed."""
    began = time.monotonic()
    peer.consumer.process.kill()
    peer.consumer.process.wait(10 * SLOW)
    return peer.reset_after(began, 5)


def nobody_left_and_no_fin(peer):
    """Everything is acknowledged, the FIN last, and 5 s later that was all."""
    began = peer.consumer.do("destroy")
    check(peer.receive(1) == b"", "not a FIN")
    return peer.reset_after(began, 10)


def received(sock):
    """Octets that TCP has acknowledged (tcpi_bytes_received)."""
    return struct.unpack_from("Q", sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), 128)[0]


def take_some(peer, since):
    """As little as makes room for something that is acknowledged."""
    before = received(peer.sock)
    try:
        while received(peer.sock) == before:
            check(peer.sock.recv(200), f"all is taken after {time.monotonic() - since:.1f} s")
            time.sleep(0.02)
    except ConnectionResetError as e:
        raise Failed(f"reset after {time.monotonic() - since:.1f} s") from e


def taken_slowly(peer):
    """Not while this end takes a little of it."""
    began = peer.consumer.do("destroy")
    while time.monotonic() < began + 12:
        take_some(peer, began)
        time.sleep(2)
    # Some of it was acknowledged since the last look.
    after = peer.reset_at(10 + LATE)
    return f"reset after {after - began:.1f} s"


def taken_too_slowly(peer):
    """But after twelve times of that it ends, too."""
    began = peer.consumer.do("destroy")
    # The last look but one is after 60 s.
    for look in range(13):
        time.sleep(max(0, began + 5 * look + 1 - time.monotonic()))
        take_some(peer, began)
    after = peer.reset_at(began + 65 + LATE - time.monotonic()) - began
    check(after >= 65 - EARLY, f"reset after {after:.1f} s, not 65")
    return f"reset after {after:.1f} s"


CASES = {terminate_not_sent: FLOOD, draining: FLOOD, draining_for_us: FLOOD, no_fin: 0, late_data: 0,
         nobody_left: FLOOD, process_killed: FLOOD, nobody_left_and_no_fin: 0, taken_slowly: FLOOD,
         taken_too_slowly: FLOOD}


def play(address, port, case, writes):
    try:
        peer = Peer(address, port, writes)
        said = case(peer)
        peer.over()
        return f"ok {case.__name__}, {said}"
    except (Failed, OSError) as e:
        return f"# {case.__name__}: {e!r}"[:300] + f"\nnot ok {case.__name__}"


def main():
    if sys.argv[1] == "--list":
        print("\n".join(case.__name__ for case in CASES))
        return
    address, port = sys.argv[1], int(sys.argv[2])
    with ThreadPoolExecutor(len(CASES)) as pool:
        results = [pool.submit(play, address, port + i, *case) for i, case in enumerate(CASES.items())]
        for result in results:
            print(result.result(), flush=True)


if __name__ == "__main__":
    main()
