# SPDX-License-Identifier: GPL-2.0
"""Regions and queue pairs whose end comes in the middle of a message, while the peer does nothing. Nothing waits for
it, with TLS or without.

    freed.py ADDRESS PORT       plays these cases alone: prints "ok NAME" or "not ok NAME" for each
"""

import array
import fcntl
import sys
import termios
import time

from peer import SLOW, check, play, wait_until
from peer.messages import DDP_TAGGED, WRITE, tagged
from peer.stream import fpdu
from peer.tls import DIRECTORY
from peer.verdicts import terminated
from peer.victim import FLOOD, FLOODS, Attacker, Victim

from cases import conclude


def tcp(a):
    return a.sock.sock if DIRECTORY else a.sock


def unread(a):
    count = array.array("i", [0])
    fcntl.ioctl(tcp(a), termios.FIONREAD, count)
    return count[0]


def nothing_comes(a):
    before = unread(a)
    time.sleep(0.1 * SLOW)
    return before and unread(a) == before


def sending(name):
    """The victim writes more than TCP has room for, to a peer that reads nothing, and then all."""
    def case(victim):
        a = Attacker(victim, flags=FLOOD, window=4096, mss=536)
        a.send(tagged(WRITE, 0, 0))
        wait_until(lambda: nothing_comes(a), "the victim sends nothing, or does not stop")
        victim.free(a.token, name)
        a.sock.settimeout(10 * SLOW)
        count = 0
        try:
            while more := a.sock.recv(65536):
                count += len(more)
        except ConnectionError:
            pass
        check(count < FLOODS * a.told.read.size, f"all has been sent: {count} bytes")
        a.over()
    return case


def receiving(victim):
    """The peer sends a segment of a Write and half of the next, with TLS up to the middle of a record, and the rest
    afterwards."""
    a = Attacker(victim)
    both = a.told.both
    first, last = (tagged(WRITE, both.stag, both.at + at, bytes(2000), last=at > 0) for at in (0, 2000))
    begun, rest = fpdu(first) + fpdu(last)[:500], fpdu(last)[500:]
    if DIRECTORY:
        begun, rest = a.sock.record(begun), a.sock.record(rest)
    tcp(a).sendall(begun + rest[:500])
    victim.free(a.token, "both")
    tcp(a).sendall(rest[500:])
    conclude(a, terminated(DDP_TAGGED, 0), last)


def freed(_everything):
    yield "the source of a Write that waits for its peer is deregistered", sending("read")
    yield "a queue pair whose Write waits for its peer is destroyed", sending(None)
    yield "the sink of half a Write is deregistered", receiving


GROUPS = {"freed": freed}


def main():
    victim = Victim(sys.argv[1], int(sys.argv[2]))
    well = all([play(name, case, victim) for name, case in freed(True)])
    victim.stop()
    return 0 if well else 3


if __name__ == "__main__":
    sys.exit(main())
