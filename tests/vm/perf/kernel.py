# SPDX-License-Identifier: GPL-2.0
"""kernel.py FILE FIRST UNITS TOP: where a kernel's instructions went.

FILE is what tools/vm/insns.c wrote. Of its parts, the one that begins with the marker FIRST (from 0) is taken off the
next one, and what is left is divided by UNITS. Prints the sum, that of each module with more than a hundredth of it,
and the TOP functions, with how often they were called. This host's /proc/kallsyms names them.
"""

import bisect
import sys
from collections import Counter

from insns import parts

# The kernel's own copies, by words: a processor with fast string instructions takes fewer.
COPIES = ("memcpy_orig", "memmove", "rep_movs_alternative", "copy_page", "__memcpy", "memset_orig", "clear_page_orig")


def main():
    path, first, units, top = sys.argv[1], *map(int, sys.argv[2:5])
    symbols = []
    with open("/proc/kallsyms", encoding="ascii") as file:
        for line in file:
            address, kind, name, *module = line.split()
            if kind in "tTwW":
                symbols.append((int(address, 16), name, module[0][1:-1] if module else "kernel"))
    symbols.sort()
    addresses = [symbol[0] for symbol in symbols]
    functions, modules, calls = Counter(), Counter(), Counter()
    every_part = list(parts(path, 0, 1 << 64))
    for sign, part in zip((-1, 1), every_part[first + 1:first + 3], strict=True):
        for address, (count, times) in part.items():
            start, name, module = symbols[max(0, bisect.bisect_right(addresses, address) - 1)]
            functions[name, module] += sign * count
            if address == start:
                calls[name, module] += sign * times
            modules["copies" if name in COPIES else module] += sign * count
    total = sum(modules.values())
    print(f"{total / units:12.0f}  in all")
    for module, count in modules.most_common():
        if abs(count) * 100 > total:
            print(f"{count / units:12.0f}  {module}")
    print()
    for (name, module), count in functions.most_common(top):
        print(f"{count / units:12.0f} {calls[name, module] / units:8.2f}  {name} [{module}]")


main()
