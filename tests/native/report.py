# SPDX-License-Identifier: GPL-2.0
"""report.py DIRECTORY: what tests/native/guest measured, and where the time went.

Reads perf's samples, "TIME: ADDRESS" each, from its input; they are assigned to a
measurement by their time, and to a function by the addresses that the guest's kernel told.
"""

import bisect
import csv
import statistics
import sys
from collections import Counter, defaultdict

RATE = 1999
TOP = 16
# A process of user-mode Linux: its kernel lies below this, the programs' own addresses are above it.
KERNEL_END = 1 << 40
# The first second is the program's start.
START = 1.3


class Symbols:
    """Of one kernel with the modules that were in it."""

    def __init__(self, path):
        rows = []
        with open(path, encoding="ascii") as file:
            for line in file:
                address, kind, name, *module = line.split()
                if kind in "tTwW":
                    rows.append((int(address, 16), name, module[0] if module else ""))
        rows.sort()
        self.starts = [row[0] for row in rows]
        self.rows = rows

    def find(self, address):
        """(where, function)"""
        if address >= 1 << 63:
            return "the host's kernel", ""
        if address >= KERNEL_END or address < self.starts[0]:
            return "programs", ""
        _, name, module = self.rows[bisect.bisect_right(self.starts, address) - 1]
        return module or "kernel", name


def main():
    directory = sys.argv[1]
    with open(f"{directory}/native.tsv", encoding="ascii") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    times = [(float(row["began"]), float(row["ended"]), row) for row in rows]
    begins = [t[0] for t in times]
    samples = defaultdict(Counter)
    for line in sys.stdin:
        time, _, address = line.strip().partition(":")
        time = float(time)
        i = bisect.bisect_right(begins, time) - 1
        if i >= 0 and begins[i] + START <= time <= times[i][1]:
            samples[i][int(address.split()[0], 16)] += 1

    values, parts, functions = defaultdict(list), defaultdict(Counter), defaultdict(Counter)
    moved, kernels = Counter(), {}
    for i, (began, ended, row) in enumerate(times):
        point = row["metric"], int(row["size"]), row["kind"]
        values[point].append(float(row["value"]))
        moved[point] += float(row["value"]) * (ended - began - START)
        path = f"{directory}/kallsyms.{row['round']}.{row['kind']}"
        if path not in kernels:
            kernels[path] = Symbols(path)
        for address, count in samples[i].items():
            where, name = kernels[path].find(address)
            parts[point][where] += count
            functions[point][f"{name} {where}" if name else where] += count

    print("Medians; microseconds of processors for each MiB, of both hosts together.\n")
    for point in sorted(values):
        metric, size, kind = point
        cost = {k: n * 1e6 / RATE / moved[point] for k, n in parts[point].items()}
        told = ", ".join(f"{k} {v:.0f}" for k, v in sorted(cost.items(), key=lambda kv: -kv[1]))
        print(f"{metric} {size} {kind}: {statistics.median(values[point]):.0f} MiB/s; {sum(cost.values()):.0f} us/MiB: {told}")
    for point in sorted(values):
        metric, size, kind = point
        print(f"\n{metric} {size} {kind}, us/MiB:")
        for name, n in functions[point].most_common(TOP):
            print(f"{n * 1e6 / RATE / moved[point]:9.1f}  {name}")


main()
