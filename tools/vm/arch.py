# SPDX-License-Identifier: GPL-2.0
"""What differs between guests of different architectures."""

import platform
from dataclasses import dataclass


@dataclass(frozen=True)
class Arch:
    name: str           # as Debian calls it
    machine: str        # as uname does
    qemu: tuple
    cpu: str            # QEMU's CPU model, emulated, for kernels with checks
    stock_cpu: str      # the same for the distribution's kernels
    console: str
    cmdline: str        # for all kernels
    stock_cmdline: str  # for the distribution's kernels under emulation, in addition


# QEMU executes "rep movsb" byte by byte and "crc32" bit by bit, where real processors are fast. Without
# these instructions the kernel uses its code for older processors: copies are four times faster, zeroed
# pages ten times, CRCs twice.
X86_CPU = "max,la57=off,-erms,-fsrm,-fsrs,-fzrm,-sse4.2,-pclmulqdq,-vpclmulqdq"

ARCHES = {arch.name: arch for arch in (
    Arch("amd64", "x86_64",
         ("qemu-system-x86_64", "-machine", "q35,usb=off,vmport=off,smbus=off"),
         X86_CPU,
         # Without SMAP: with it each access to user memory flushes QEMU's translations. The debug kernel
         # keeps it, to check those accesses. init_on_alloc=0: pages are not cleared twice. Both save a
         # tenth of the time.
         f"{X86_CPU},-smap", "ttyS0", "unknown_nmi_panic tsc=reliable no_timer_check", "init_on_alloc=0"),
    # A CPU without pointer authentication, which is slow under emulation.
    Arch("arm64", "aarch64",
         ("qemu-system-aarch64", "-machine", "virt,gic-version=3"),
         "neoverse-n1", "neoverse-n1", "ttyAMA0", "", "init_on_alloc=0"),
)}


def own_arch():
    """The architecture of this machine; None if no guest has it."""
    return next((arch for arch in ARCHES.values() if arch.machine == platform.machine()), None)


def arch_of(kernel):
    """The architecture of a kernel, from its name (tools/flavour.sh)."""
    for arch in ARCHES.values():
        if arch.name in kernel.split("-"):
            return arch
    return own_arch()
