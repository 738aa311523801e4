#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""rude.py ADDRESS PORT: sends bad messages to a 9P server.

The server has to answer a bad request with an error, and to end the connection at a
malformed message. It has to serve the next connection all the same.
"""

import errno
import struct
import sys

import pyverbs.enums as e
from pyverbs.cmid import AddrInfo, CMID
from pyverbs.librdmacm_enums import RDMA_PS_TCP
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QPCap, QPInitAttr

ROOM = 8192
END = "end"


def message(kind, body=b"", size=None):
    return struct.pack("<IBH", 7 + len(body) if size is None else size, kind, 1) + body


def attach(fid):
    return message(104, struct.pack("<II2HI", fid, 0xffffffff, 0, 0, 0))


def walk(fid, new, name):
    return message(110, struct.pack("<IIHH", fid, new, 1, len(name)) + name)


def ask(conn, buffer, request):
    """Sends a request; returns the errno of the answer (0: no error), or END if the connection ends."""
    conn.post_recv(buffer)
    out = conn.reg_msgs(ROOM)
    try:
        out.write(request, len(request))
        conn.post_send(out, length=len(request))
        done = conn.get_send_comp()
        if done.status == e.IBV_WC_SUCCESS:
            done = conn.get_recv_comp()
        if done.status != e.IBV_WC_SUCCESS:
            return END
        answer = buffer.read(done.byte_len, 0)
    finally:
        out.close()
    return struct.unpack_from("<I", answer, 7)[0] if answer[4] == 7 else 0


def talk(where, requests):
    queues = QPInitAttr(qp_type=e.IBV_QPT_RC,
                        cap=QPCap(max_send_wr=1, max_recv_wr=2, max_send_sge=1, max_recv_sge=1))
    conn = CMID(creator=where, qp_init_attr=queues)
    buffer = conn.reg_msgs(ROOM)
    try:
        conn.connect()
        for request, expected in requests:
            got = ask(conn, buffer, request)
            if got != expected:
                sys.exit(f"{request[:40].hex()}: got {got}, not {expected}")
    finally:
        try:
            conn.disconnect()
        except PyverbsError:
            # The server has ended the connection.
            pass
        buffer.close()
        conn.close()


def main():
    address, port = sys.argv[1:]
    where = AddrInfo(dst=address, dst_service=port, port_space=RDMA_PS_TCP)
    for last in b"\x01", message(100, size=6), message(100, size=9), message(100, size=0xffffffff):
        talk(where, [(last, END)])
    talk(where, [
        (message(255), errno.EOPNOTSUPP),
        # Messages that are too short or too long; a string that ends after the message.
        (message(120, b"\0"), errno.EINVAL),
        (message(120, b"\0" * 5), errno.EINVAL),
        (message(100, struct.pack("<IH", 8192, 9999) + b"9P"), errno.EINVAL),
        (message(110, struct.pack("<IIH", 1, 2, 0xffff)), errno.EINVAL),
        (message(100, struct.pack("<IH", 16, 8) + b"9P2000.L"), errno.EINVAL),
        # Fids that do not exist, or that exist already.
        (message(120, struct.pack("<I", 7)), errno.EBADF),
        (attach(1), 0),
        (attach(1), errno.EEXIST),
        (message(116, struct.pack("<IQI", 1, 0, 100)), errno.EBADF),
        # Ways out of the directory.
        (walk(1, 2, b".."), errno.EINVAL),
        (walk(1, 2, b"../etc"), errno.EINVAL),
        (walk(1, 2, b"/etc"), errno.EINVAL),
        (walk(1, 2, b"a\0b"), errno.EINVAL),
        (walk(1, 2, b""), errno.EINVAL),
        (walk(1, 2, b"nothing"), errno.ENOENT),
        # An offset beyond the end of any file.
        (message(12, struct.pack("<II", 1, 0)), 0),
        (message(118, struct.pack("<IQI", 1, 1 << 63, 1) + b"x"), errno.EINVAL),
        (message(40, struct.pack("<IQI", 1, (1 << 64) - 1, 100)), 0),
    ])


if __name__ == "__main__":
    main()
