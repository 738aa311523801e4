# SPDX-License-Identifier: GPL-2.0
"""report.py DIRECTORY: what tests/native/guest measured, and where the time went.

Reads perf's samples, "TIME: ADDRESS" each, from its input; they are assigned to a
measurement by their time, and to a function by the addresses that the guest's kernel told.
"""

import bisect
import csv
import math
import re
import statistics
import sys
from collections import Counter, defaultdict

RATE = 1999
TOP = 24
# A process of user-mode Linux: its kernel lies below this, the programs' own addresses are above it.
KERNEL_END = 1 << 40
MIB = 1 << 20
# What is shorter is told for a message, and not for a MiB.
SHORT = 4096
# Bytes of payload in an FPDU that fills a segment of 1448, and of one that is as large as it can be.
SEGMENT, LARGE = 1428, 64754
# Bytes of a full record of TLS.
RECORD = 16384
# Bytes of such an FPDU that are not payload.
OVERHEAD = 20
# A function's side by the crates and modules in its mangled name.
SIDES = (("tx", r"4rsiw2tx|5iwarp2tx|3net5batch|3net5pages|3net4pool|6gather"),
         ("rx", r"4rsiw2rx|5iwarp2rx|7scatter|stream7receive"))
# AES and GHASH of the kernel, in C: a processor with instructions for them takes a small part of that.
CIPHER = re.compile(r"aes|ghash|clmul|gf128|polyval|crypto_(ctr|xor|gcm)|^inc32$|u4big_mul")


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


def side_of(name):
    for side, pattern in SIDES:
        if re.search(pattern, name):
            return side
    return ""


def payload(kind):
    """The part of the bytes on the link that is payload, and the FPDUs in a MiB of it."""
    part, fpdus = 1.0, 0
    if not kind.startswith(("tcp", "ktls")):
        of_fpdu = SEGMENT if "large_fpdu=0" in kind or kind.startswith("siw") else LARGE
        part, fpdus = of_fpdu / (of_fpdu + OVERHEAD), MIB / of_fpdu
    if "tls" in kind:
        part *= RECORD / (RECORD + 22)
    # Each packet of a segment has headers of Ethernet, IP, ESP and TCP, a trailer and a tag.
    if kind.endswith("esp"):
        part *= 1410 / 1514
    return part, fpdus


def crc_of(directory):
    """The kernel's function for CRCs on this processor, and what it takes of a host for a MiB, by the
    payload of an FPDU; nothing if it was not measured."""
    try:
        with open(f"{directory}/crc", encoding="ascii") as file:
            name, *ns = file.read().split()
    except FileNotFoundError:
        return "", {}
    return name, {of: float(each) / 1000 * MIB / of for of, each in zip((SEGMENT, LARGE), ns)}


def spread(values):
    """A median with its standard error in per cent, and the rounds that bring that to 3 %."""
    middle = statistics.median(values)
    if len(values) < 2:
        return f"{middle:.1f}"
    # The median of a normal distribution varies by 1.25 times as much as the mean.
    of_one = 1.25 * statistics.stdev(values) / middle
    error = of_one / math.sqrt(len(values))
    return f"{middle:.4g} +- {100 * error:.1f} % (3 % with {max(1, math.ceil((of_one / 0.03) ** 2))} rounds)"


def main():
    directory = sys.argv[1]
    with open(f"{directory}/native.tsv", encoding="ascii") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    begins = [float(row["began"]) for row in rows]
    samples = defaultdict(Counter)
    for line in sys.stdin:
        time, _, address = line.strip().partition(":")
        time = float(time)
        i = bisect.bisect_right(begins, time) - 1
        if i >= 0 and time <= float(rows[i]["ended"]):
            samples[i][int(address.split()[0], 16)] += 1

    # By point: of each round what kernel and driver take for a MiB or a message, in us; parts and functions of all
    # rounds.
    costs, parts, functions = defaultdict(dict), defaultdict(Counter), defaultdict(Counter)
    moved, kernels, ciphers = Counter(), {}, defaultdict(list)
    for i, row in enumerate(rows):
        point = row["metric"], int(row["size"]), row["kind"]
        if point[1] < SHORT and point[0].endswith("_lat"):
            # A packet for each message; a Read has a request, too.
            units = (int(row["packets_then"]) - int(row["packets"])) / (2 if point[0] == "read_lat" else 1)
        elif point[1] < SHORT:
            units = float(row["rate"]) * (float(row["ended"]) - float(row["began"]))
        else:
            units = (int(row["bytes_then"]) - int(row["bytes"])) * payload(row["kind"])[0] / MIB
        if not units:
            sys.exit(f"{point}, round {row['round']}: nothing was moved")
        moved[point] += units
        path = f"{directory}/kallsyms.{row['round']}.{row['kind']}"
        if path not in kernels:
            kernels[path] = Symbols(path)
        ours = cipher = 0
        for address, count in samples[i].items():
            where, name = kernels[path].find(address)
            parts[point][where] += count
            functions[point][name, where] += count
            if where in ("programs", "the host's kernel"):
                continue
            if CIPHER.search(name):
                cipher += count
            else:
                ours += count
        costs[point][row["round"]] = ours * 1e6 / RATE / units
        ciphers[point].append(cipher * 1e6 / RATE / units)

    print("Kernel and drivers of both hosts together, us of a processor for a MiB, or for a message, medians.")
    print("Without the cipher, which is in C here.")
    name, crcs = crc_of(directory)
    if crcs:
        print(f"CRCs by {name}, measured in a host program, take each host {crcs[SEGMENT]:.0f} us/MiB with FPDUs")
        print(f"of a segment, {crcs[LARGE]:.0f} with large ones. Here is no such instruction, so crc=0 is measured.")
    print()
    for point in sorted(costs):
        metric, size, kind = point
        short, metric_of_tcp = size < SHORT, "tcp_" + metric.rpartition("_")[2]
        print(f"{metric} {size} {kind}, us/{'message' if short else 'MiB'}: {spread(list(costs[point].values()))}")
        tcp = costs.get((metric_of_tcp, size, "tcp"), {})
        ratios = [cost / tcp[r] for r, cost in costs[point].items() if r in tcp]
        if ratios and kind != "tcp":
            print(f"    to TCP: {spread(ratios)}")
            if crcs and not short and "crc=0" in kind and not kind.startswith("siw"):
                crc = 2 * crcs[SEGMENT if "large_fpdu=0" in kind else LARGE]
                print(f"    with the host program's CRCs on both hosts {statistics.median(costs[point].values()) + crc:.4g}, "
                      f"to TCP {statistics.median((c + crc) / tcp[r] for r, c in costs[point].items() if r in tcp):.2f}")
        print("    by round: " + ", ".join(f"{cost:.{2 if short else 0}f}" for cost in costs[point].values()))
        if any(ciphers[point]):
            print(f"    and the cipher: {spread(ciphers[point])}")
        told = {k: n * 1e6 / RATE / moved[point] for k, n in parts[point].items()}
        print("    " + ", ".join(f"{k} {v:.{2 if short else 0}f}" for k, v in sorted(told.items(), key=lambda kv: -kv[1])))
    for point in sorted(costs):
        metric, size, kind = point
        short, fpdus = size < SHORT, payload(kind)[1]
        print(f"\n{metric} {size} {kind}: " + ("ns/message" if short else "us/MiB" + (", ns/FPDU" if fpdus else "")))
        for (name, where), n in functions[point].most_common(TOP):
            cost = n * 1e6 / RATE / moved[point]
            each = f"{cost * 1e3 / fpdus:9.1f}" if fpdus else ""
            if short:
                cost, each = cost * 1e3, ""
            print(f"{cost:9.1f}{each}  {side_of(name):2}  {name} {where}")


main()
