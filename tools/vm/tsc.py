# SPDX-License-Identifier: GPL-2.0
"""The frequency of this machine's time stamp counter (TSC)."""

import ctypes
import mmap
import platform
import time

# rdtsc; shl rdx, 32; or rax, rdx; ret
READ = bytes.fromhex("0f31 48c1e220 4809d0 c3")


def tsc_khz():
    """The frequency in kHz; None if there is no TSC, or it cannot be read. An emulated processor has its
    host's TSC. A guest that measures the frequency by an emulated timer may be far off: on a busy machine
    one found a fifth of it, and its clock ran five times too fast. Without ACPI a guest has no timer to
    measure it with."""
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
