# SPDX-License-Identifier: GPL-2.0
"""Peers over plain TCP that are of no use to a listener.

    crowd.py silent ADDRESS PORT NUMBER     connect and say nothing, until killed
    crowd.py gone ADDRESS PORT NUMBER       send an MPA Request each, and reset the connection when the
                                            consumer was told of it, which a counter of rsiw0 says
"""

import socket
import sys
import time

from peer import reset
from peer.mpa import REQUEST, frame

REQUESTS = "/sys/class/infiniband/rsiw0/ports/1/hw_counters/requests"


def requests():
    with open(REQUESTS, encoding="ascii") as counter:
        return int(counter.read())


def main():
    kind, address, port, number = sys.argv[1:]
    before, socks = requests(), []
    for _ in range(int(number)):
        sock = socket.create_connection((address, int(port)), timeout=60)
        socks.append(sock)
        if kind == "gone":
            sock.sendall(frame(REQUEST))
    if kind == "gone":
        while requests() < before + len(socks):
            time.sleep(0.01)
        for sock in socks:
            reset(sock)
    print(f"{len(socks)} {kind}", flush=True)
    if kind == "silent":
        time.sleep(1000)


main()
