# SPDX-License-Identifier: GPL-2.0
"""parser.py ADDRESS PORT: TLS has no memory for a record that has come, when the driver reads. RSIW_TLS: see peer.tls.

TLS decrypts a record where TCP has it. Only where TCP has bytes of it twice does TLS copy it, for which it allocates
pages. The job has restricted faults to these. The peer sends nothing behind the record, a Read Request, until it is
answered.
Prints "ok NAME" or "not ok NAME" for each case."""

import socket
import struct
import sys

from peer import check, play, wait_until
from peer.messages import RESPONSE, read_of, tagged
from peer.stream import fpdu
from peer.victim import Attacker, Victim

FAULTS = "/sys/kernel/debug/fail_page_alloc/"
TCP_REPAIR, TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ, TCP_REPAIR_OPTIONS, TCP_REPAIR_WINDOW = 19, 20, 21, 22, 29
OFF_WITHOUT_PROBE = -1
RECV_QUEUE, SEND_QUEUE = 1, 2
MSS, WINDOW = 2, 3


def setting(name, value):
    with open(FAULTS + name, "w", encoding="ascii") as f:
        f.write(str(value))


def left():
    with open(FAULTS + "times", encoding="ascii") as f:
        return int(f.read())


class Repaired:
    """The state of an idle connection, from which its socket can be made again."""

    def __init__(self, sock):
        def get(option, size):
            return sock.getsockopt(socket.IPPROTO_TCP, option, size)

        def all_acknowledged():
            return not struct.unpack("I", get(socket.TCP_INFO, 104)[24:28])[0]
        wait_until(all_acknowledged, "TCP does not acknowledge")
        info = get(socket.TCP_INFO, 104)
        self.options = struct.pack("4I", MSS, struct.unpack("I", info[16:20])[0],
                                   WINDOW, info[6] & 15 | info[6] >> 4 << 16)
        self.ends, self.family = (sock.getsockname(), sock.getpeername()), sock.family
        sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
        self.numbers = {}
        for queue in (RECV_QUEUE, SEND_QUEUE):
            sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, queue)
            self.numbers[queue] = struct.unpack("I", get(TCP_QUEUE_SEQ, 4))[0]
        self.window = get(TCP_REPAIR_WINDOW, 20)
        # The peer hears nothing of this.
        sock.close()

    def again(self, back):
        """The connection's socket, which sends its last bytes again."""
        sock = socket.socket(self.family)

        def put(option, value):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
        put(TCP_REPAIR, 1)
        self.numbers[SEND_QUEUE] -= back
        for queue, number in self.numbers.items():
            put(TCP_REPAIR_QUEUE, queue)
            put(TCP_QUEUE_SEQ, struct.pack("I", number % (1 << 32)))
        sock.bind(self.ends[0])
        sock.connect(self.ends[1])
        put(TCP_REPAIR_OPTIONS, self.options)
        put(TCP_REPAIR_WINDOW, self.window)
        put(TCP_REPAIR, OFF_WITHOUT_PROBE)
        return sock


def send_part_twice(secure, record):
    half, back = len(record) // 2, 8
    secure.sock.sendall(record[:half])
    secure.sock = Repaired(secure.sock).again(back)
    secure.sock.sendall(record[half - back:])


def answered(victim, times):
    """The Read Request of a record for which TLS has no memory so many times."""
    a = Attacker(victim)
    a.lives()
    t = a.told
    setting("times", times)
    setting("probability", 100)
    try:
        send_part_twice(a.sock, a.sock.record(fpdu(read_of(t.read.stag, t.read.at, 16, 2))))
        wait_until(lambda: not left(), f"TLS was short of memory {times - left()} times")
    finally:
        setting("probability", 0)
    check(a.next() == tagged(RESPONSE, 0x100, 0x1000, t.pattern(t.read.at, 16)), "not what was to be read")
    a.lives(2)
    a.fin()
    check(a.next() == b"", "something behind the last answer")
    a.over()


CASES = {
    "a record is received that TLS had no memory for": lambda victim: answered(victim, 1),
    "a record is received that TLS had no memory for in many tries": lambda victim: answered(victim, 50),
}


def main():
    victim = Victim(sys.argv[1], int(sys.argv[2]))
    well = all([play(name, case, victim) for name, case in CASES.items()])
    victim.stop()
    return 0 if well else 3


if __name__ == "__main__":
    sys.exit(main())
