# SPDX-License-Identifier: GPL-2.0
"""A peer that speaks MPA, DDP and RDMAP over TCP by hand, rightly and wrongly.

    mpa         frames of connection setup
    stream      a connection: FPDUs, their CRCs and markers
    messages    DDP segments with the messages of RDMAP
    tls         records of TLS 1.3 beneath all that
    verdicts    what the RFCs want for a segment
    rping       a client of rping's server
    victim      attackers of the program victim (tests/vm/prog/victim.c)

It has nothing of the driver's code. Guests have it in Python's path. Here is what all cases use.
"""

import os
import socket
import struct
import threading
import time

SLOW = float(os.environ.get("RSIW_SLOW", "1"))


class Failed(Exception):
    pass


# What a case may raise. OSError: a time limit of a socket; the last ones: bytes that are too few
# to be parsed.
FAILURES = Failed, OSError, AssertionError, IndexError, KeyError, struct.error


def check(what, message):
    if not what:
        raise Failed(message)


def play(name, case, *args):
    """Plays a case, and prints "ok NAME", or what went wrong and "not ok NAME". Returns whether it
    went well."""
    try:
        case(*args)
        print("ok", name, flush=True)
        return True
    except FAILURES as e:
        print(f"# {name}: {e!r}"[:400] + f"\nnot ok {name}", flush=True)
        return False


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def receive(sock, count, seconds=15):
    """Receives exactly `count` bytes, or fewer if the connection ends."""
    sock.settimeout(seconds * SLOW)
    got = b""
    try:
        while len(got) < count:
            more = sock.recv(count - len(got))
            if not more:
                break
            got += more
    except ConnectionResetError:
        pass
    except socket.timeout as e:
        raise Failed(f"nothing came in {seconds} s, after {got!r}") from e
    return got


def closed(sock, seconds=15):
    """The device closes the connection and sends nothing before."""
    got = receive(sock, 1, seconds)
    check(got == b"", f"not closed, but {got!r}")


def is_open(sock, seconds=1.0):
    sock.settimeout(seconds)
    try:
        got = sock.recv(1)
    except socket.timeout:
        return
    raise Failed(f"not left open: {got!r}")


def wait_until(condition, otherwise, seconds=15):
    end = time.monotonic() + seconds * SLOW
    while not condition():
        check(time.monotonic() < end, otherwise)
        time.sleep(0.01)


class Clock(threading.Thread):
    """Seconds in which this process could run: a thread of it looks every 10 ms, and times in which
    it could not do so do not count."""

    def __init__(self):
        super().__init__(daemon=True)
        self.lost, self.looked = 0, time.monotonic()
        self.start()

    def run(self):
        while True:
            time.sleep(0.01)
            now = time.monotonic()
            self.lost, self.looked = self.lost + max(0, now - self.looked - 0.05), now

    def now(self):
        # Not before the thread has counted what this one has lost as well.
        looked = self.looked
        while self.looked == looked:
            time.sleep(0.001)
        return self.looked - self.lost
