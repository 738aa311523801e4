# SPDX-License-Identifier: GPL-2.0
"""Peers over plain TCP that are of no use to a listener.

    crowd.py silent ADDRESS PORT NUMBER     connect and say nothing, until killed
    crowd.py gone ADDRESS PORT NUMBER       send an MPA Request each, and reset the connection when the
                                            consumer was told of it, which a counter of rsiw0 says
"""

import socket
import struct
import sys
import time

REQUESTS = "/sys/class/infiniband/rsiw0/ports/1/hw_counters/requests"
FRAME = b"MPA ID Req Frame" + struct.pack("!BBH", 0x40, 1, 0)


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
            sock.sendall(FRAME)
    if kind == "gone":
        while requests() < before + len(socks):
            time.sleep(0.01)
        for sock in socks:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
    print(f"{len(socks)} {kind}", flush=True)
    if kind == "silent":
        time.sleep(1000)


main()
