# SPDX-License-Identifier: GPL-2.0
"""verbs.py DEVICE: opens a device of the sample, allocates a protection domain, and is refused a
completion queue. By the commands of ib_uverbs (include/uapi/rdma/ib_user_verbs.h): no library knows it."""

import ctypes
import errno
import glob
import os
import struct
import sys

GET_CONTEXT, QUERY_DEVICE, QUERY_PORT, ALLOC_PD, DEALLOC_PD, CREATE_CQ = 0, 1, 2, 3, 4, 18


def call(fd, command, form, *values, answer=0):
    """One command: a header, the address of the answer, if there is one, and the values."""
    room = ctypes.create_string_buffer(max(answer, 8))
    body = (struct.pack("=Q", ctypes.addressof(room)) if answer else b"") + struct.pack("=" + form, *values)
    body += bytes(-len(body) % 4)
    os.write(fd, struct.pack("=IHH", command, (8 + len(body)) // 4, answer // 4) + body)
    return room.raw


def check(name, good):
    print("ok" if good else "FAIL", name, flush=True)


def main(device):
    for path in glob.glob("/sys/class/infiniband_verbs/uverbs*"):
        with open(path + "/ibdev") as file:
            if file.read().strip() == device:
                break
    else:
        check("a process finds the device", False)
        return
    fd = os.open("/dev/infiniband/" + os.path.basename(path), os.O_RDWR)
    vectors = struct.unpack_from("=II", call(fd, GET_CONTEXT, "", answer=8))[1]
    check("a process opens the device", vectors == 1)
    # Behind 5 words of 64 bits and 11 of 32.
    max_pd = struct.unpack_from("=I", call(fd, QUERY_DEVICE, "", answer=176), 84)[0]
    check("the device has the sample's limits", max_pd == 16)
    gid_tbl_len = struct.unpack_from("=I", call(fd, QUERY_PORT, "B7x", 1, answer=40), 16)[0]
    check("the port has one GID", gid_tbl_len == 1)
    pd = struct.unpack_from("=I", call(fd, ALLOC_PD, "", answer=4))[0]
    call(fd, DEALLOC_PD, "I", pd)
    check("a protection domain is allocated and freed", True)
    try:
        call(fd, CREATE_CQ, "QIIiI", 0, 16, 0, -1, 0, answer=8)
        check("a completion queue is refused", False)
    except OSError as error:
        check("a completion queue is refused", error.errno == errno.EOPNOTSUPP)


try:
    main(sys.argv[1])
except OSError as error:
    check(f"a process uses the device: {error}", False)
