#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rename.py: a port mapper that is asked once by the RDMA core, and prints the network device and the RDMA device of who
asks. It prints "ready" before."""

import socket
import struct

NETLINK_RDMA, IWCM, GROUP_IWPM = 20, 2, 2
REG_PID, MAPINFO = 0, 6
SOL_NETLINK, ADD_MEMBERSHIP = 270, 1
NLM_F_REQUEST = 1


def attribute(kind, value):
    return struct.pack("<HH", 4 + len(value), kind) + value.ljust((len(value) + 3) & ~3, b"\0")


def attributes(data):
    while len(data) >= 4:
        length, kind = struct.unpack_from("<HH", data)
        yield kind, data[4:length]
        data = data[(length + 3) & ~3:]


def text(value):
    return value.partition(b"\0")[0].decode()


def main():
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
    s.bind((0, 0))
    s.setsockopt(SOL_NETLINK, ADD_MEMBERSHIP, GROUP_IWPM)
    # "I have come": the core forgets what it knew of another port mapper, and registers again.
    body = attribute(1, b"iWarpPortMapperUser\0") + attribute(2, struct.pack("<H", 4))
    s.send(struct.pack("<IHHII", 16 + len(body), IWCM << 10 | MAPINFO, NLM_F_REQUEST, 1, s.getsockname()[0]) + body)
    print("ready", flush=True)
    while True:
        message = s.recv(65536)
        if struct.unpack_from("<H", message, 4)[0] == IWCM << 10 | REG_PID:
            found = dict(attributes(message[16:]))
            print("asked by", text(found[2]), text(found[3]), flush=True)
            return


main()
