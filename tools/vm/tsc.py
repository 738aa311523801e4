# SPDX-License-Identifier: GPL-2.0
"""How fast this machine's time stamp counter is."""

import ctypes
import mmap
import platform
import time

# rdtsc; shl rdx, 32; or rax, rdx; ret
READ = bytes.fromhex("0f31 48c1e220 4809d0 c3")


def tsc_khz():
    """In kHz; None if there is none. An emulated processor has its host's counter. A guest's kernel
    measures it by an emulated timer (on a busy machine it was seen to believe in a fifth, so that
    the guest's clock ran five times too fast). Without ACPI it has no timer to measure it with."""
    if platform.machine() != "x86_64":
        return None
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE,
                         prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    page.write(READ)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(
        ctypes.addressof(ctypes.c_char.from_buffer(page)))
    began, first = time.monotonic_ns(), read()
    time.sleep(0.1)
    took, ticks = time.monotonic_ns() - began, read() - first
    return ticks * 1_000_000 // took
