# SPDX-License-Identifier: GPL-2.0
"""insns.py FILE OUT HOST CASE:FIRST:KIND...: the instructions that the functions of a module took in parts of a job.

FILE is what tools/vm/insns.c wrote. A case has two parts: one begins at the marker FIRST (from 0), the other at the next
marker, and it ends at the one after that. The module's lines of /proc/kallsyms come on standard input. Writes
OUT/CASE-HOST: a line for each function, with the instructions of the second part less those of the first, and the
function's name; and first the sum, and the number of pieces in which the host received. If KIND is "bulk", it is the sum of functions that run for FPDUs and pieces of
them: how often the others run (callbacks of the socket, turns of workers) depends on time.
"""

import bisect
import re
import sys

PAGE = 4096
# Crate and module, as names of functions have them.
FOR_FPDUS = ("5iwarp", "4rsiw2rx", "4rsiw2tx", "4rsiw3mem", "3net5batch", "4rdma4umem", "4rdma4span")
# rsiw::rx::Rx::chunk(), which gets each piece that is contiguous in memory.
PIECE = "_2Rx5chunk"


def parts(path, begin, end):
    """The counts before each marker, of addresses from `begin` on and before `end`:
    {address of a block: (instructions, times)}."""
    part = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            if line == "mark\n":
                yield part
                part = {}
            else:
                address, count, times = line.split()
                address = int(address, 16)
                if begin <= address < end:
                    before = part.get(address, (0, 0))
                    part[address] = before[0] + int(count), before[1] + int(times)


def is_for_fpdus(name):
    """Whether a function is of such a module. The first crate of a name is the function's own."""
    crate = re.search(r"Cs[0-9A-Za-z]+_(\w*)", name)
    return bool(crate) and crate[1].startswith(FOR_FPDUS)


def main():
    path, out, host = sys.argv[1:4]
    symbols = sorted((int(address, 16), name) for address, kind, name, _ in map(str.split, sys.stdin)
                     if kind in "tTwW")
    addresses = [address for address, _ in symbols]
    # The code of a module is one allocation, of whole pages.
    begin, end = addresses[0], addresses[-1] // PAGE * PAGE + PAGE
    all_parts = list(parts(path, begin, end))
    for argument in sys.argv[4:]:
        case, first, kind = argument.split(":")
        sums, pieces = {}, 0
        for sign, part in zip((-1, 1), all_parts[int(first) + 1:int(first) + 3], strict=True):
            for address, (count, times) in part.items():
                start, name = symbols[bisect.bisect_right(addresses, address) - 1]
                sums[name] = sums.get(name, 0) + sign * count
                if start == address and name.endswith(PIECE):
                    pieces += sign * times
        counted = sum(count for name, count in sums.items() if kind != "bulk" or is_for_fpdus(name))
        with open(f"{out}/{case}-{host}", "w", encoding="ascii") as file:
            print(counted, pieces, file=file)
            for name, count in sorted(sums.items(), key=lambda entry: -entry[1]):
                print(count, name, file=file)


if __name__ == "__main__":
    main()
