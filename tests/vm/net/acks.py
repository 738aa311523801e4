#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""acks.py ADDRESS PORT: a peer of rping's server, which counts the packets that answer its messages. RDMA Writes of no
length need no region. Prints "ok NAME" or "not ok NAME" for each case."""

import socket
import struct
import sys
import time

from peer import check, play
from peer.messages import WRITE, tagged
from peer.rping import Peer

MESSAGES = 100


def packets_in(peer):
    """tcpi_segs_in of struct tcp_info: packets that have come."""
    return struct.unpack_from("I", peer.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), 140)[0]


def answers(peer, pause):
    """Packets that come back for messages with so many seconds between them. One message comes first, for itself: its
    acknowledgment is late, so TCP takes it that nothing goes back and forth."""
    peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.send(tagged(WRITE, 0, 0))
    time.sleep(0.3)
    before = packets_in(peer)
    for _ in range(MESSAGES):
        peer.send(tagged(WRITE, 0, 0))
        time.sleep(pause)
    time.sleep(0.3)
    return packets_in(peer) - before


def in_a_row(address, port):
    count = answers(Peer(address, port), 0.0001)
    print(f"# {count} packets")
    check(count <= 0.7 * MESSAGES, "TCP acknowledges each message")


def each_for_itself(address, port):
    count = answers(Peer(address, port), 0.03)
    print(f"# {count} packets")
    check(count >= MESSAGES, "TCP puts acknowledgments off")


def main():
    address, port = sys.argv[1], int(sys.argv[2])
    play("TCP acknowledges two messages of a row at a time", in_a_row, address, port)
    play("TCP acknowledges a message for itself at once", each_for_itself, address, port)


main()
