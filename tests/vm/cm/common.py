# SPDX-License-Identifier: GPL-2.0
"""Helpers of both roles of wire.py."""

import os
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "wire"))

A, B = 0x8000, 0x4000           # with the IRD
WRITE, READ = 0x8000, 0x4000    # with the ORD
DEPTH = 0x3fff
FIN_WAIT2, LISTEN = 5, 10       # include/net/tcp_states.h
SLOW = float(os.environ.get("RSIW_SLOW", "1"))


class Failed(Exception):
    pass


def check(what, message):
    if not what:
        raise Failed(message)


class Clock(threading.Thread):
    """Seconds in which this process could run: a thread of it looks every 10 ms, and times in which it could
    not do so do not count."""

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


def receive_frame(sock, key, seconds=15):
    head = receive(sock, 20, seconds)
    check(len(head) == 20, f"no frame, but {head!r}")
    check(head[:16] == key, f"not the key: {head[:16]!r}")
    flags, revision, length = struct.unpack("!BBH", head[16:])
    data = receive(sock, length, seconds)
    check(len(data) == length, "the private data are cut off")
    return flags, revision, data


def closed(sock, seconds=15):
    """The device closes the connection and sends nothing before."""
    got = receive(sock, 1, seconds)
    check(got == b"", f"not closed, but {got!r}")


def wait_until(condition, otherwise, seconds=15):
    end = time.monotonic() + seconds * SLOW
    while not condition():
        check(time.monotonic() < end, otherwise)
        time.sleep(0.01)


def is_open(sock, seconds=1.0):
    sock.settimeout(seconds)
    try:
        got = sock.recv(1)
    except socket.timeout:
        return
    raise Failed(f"not left open: {got!r}")
