#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""creator.py mark|deny CGROUP: attaches a program to a cgroup that marks each socket of its processes with 0x77 when
it is made, or forbids it. The program goes with the cgroup."""

import ctypes
import os
import platform
import struct
import sys

PROG_LOAD, PROG_ATTACH = 5, 8
CGROUP_SOCK, INET_SOCK_CREATE = 9, 2
NUMBER = {"x86_64": 321, "aarch64": 280}
MARK_OF_BPF_SOCK, MARK = 16, 0x77


def instruction(code, dst=0, src=0, offset=0, imm=0):
    return struct.pack("<BBhi", code, src << 4 | dst, offset, imm)


def program(forbid):
    # R2 = MARK; ctx->mark = R2; R0 = whether the socket may be made; exit.
    return (instruction(0xb7, 2, imm=MARK) + instruction(0x63, 1, 2, MARK_OF_BPF_SOCK)
            + instruction(0xb7, 0, imm=0 if forbid else 1) + instruction(0x95))


def bpf(command, attributes):
    libc = ctypes.CDLL(None, use_errno=True)
    data = ctypes.create_string_buffer(attributes, max(len(attributes), 128))
    result = libc.syscall(NUMBER[platform.machine()], command, data, len(data))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def main(what, cgroup):
    code = ctypes.create_string_buffer(program(what == "deny"))
    licence = ctypes.create_string_buffer(b"GPL")
    # union bpf_attr of PROG_LOAD: ..., then the attach type behind kern_version, flags, name, ifindex.
    load = struct.pack("<IIQQIIQII16sII", CGROUP_SOCK, (len(code) - 1) // 8, ctypes.addressof(code),
                       ctypes.addressof(licence), 0, 0, 0, 0, 0, b"creator", 0, INET_SOCK_CREATE)
    loaded = bpf(PROG_LOAD, load)
    target = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY)
    bpf(PROG_ATTACH, struct.pack("<IIII", target, loaded, INET_SOCK_CREATE, 0))


if __name__ == "__main__":
    main(*sys.argv[1:])
