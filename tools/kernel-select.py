#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Choose the kernel to build for, from apt's view of trixie-backports, or of another release of Debian.

Reads the output of `apt-cache dumpavail` and prints

    KVER  PACKAGE-VERSION  SOURCE-PACKAGE  IMAGE-PACKAGE  MODULES-PACKAGE

for the newest kernel in the supported range whose image, headers and source
are available in one version. Backports often holds the headers and source of
a new kernel days before its signed image. Such a kernel is chosen only if
--want names it, and then booted from the unsigned image. The exit status is
3 if there is no such kernel.
"""

import argparse
import re
import sys


def packages(lines):
    """The set of (package, version) of every available package."""
    found, name = set(), None
    for line in lines:
        if line.startswith("Package: "):
            name = line[9:].strip()
        elif line.startswith("Version: ") and name:
            found.add((name, line[9:].strip()))
    return found


def numbers(kver):
    return tuple(int(n) for n in re.match(r"[\d.]+", kver)[0].strip(".").split("."))


def candidates(offer, flavour):
    """Every complete kernel, newest first: (kver, version, source, image, modules, signed)."""
    rows = []
    for name, version in offer:
        match = re.fullmatch(rf"linux-headers-((\d+\.\d+)[\d.]*\+deb\d+-{flavour})", name)
        if not match:
            continue
        kver, series = match[1], match[2]
        source, modules = f"linux-source-{series}", f"linux-modules-{kver}"
        if (source, version) not in offer or (modules, version) not in offer:
            continue
        signed, unsigned = f"linux-binary-{kver}", f"linux-binary-unsigned-{kver}"
        if (signed, version) in offer and (f"linux-image-{kver}", version) in offer:
            rows.append((kver, version, source, signed, modules, True))
        elif (unsigned, version) in offer:
            rows.append((kver, version, source, unsigned, modules, False))
    return sorted(rows, key=lambda row: numbers(row[0]), reverse=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--min", default="7.2")
    parser.add_argument("--max", default="7.3")
    parser.add_argument("--flavour", default="amd64")
    parser.add_argument("--suite", default="trixie")
    parser.add_argument("--want", default="", help="a version, or the beginning of one")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()

    offer = packages(sys.stdin)
    if not offer:
        sys.exit("apt knows no packages at all")
    rows = candidates(offer, args.flavour)
    low, high = numbers(args.min), numbers(args.max)
    in_range = [row for row in rows if low <= numbers(row[0])[:2] <= high]
    if args.list:
        for row in in_range:
            print(row[0], row[1], "" if row[5] else "(image not signed yet)")
        return
    if args.want:
        # "7.2.1" must not choose 7.2.12.
        fits = [row for row in in_range
                if re.match(re.escape(args.want) + r"(?!\d)", row[0])]
    else:
        fits = [row for row in in_range if row[5]]
    if not fits:
        have = ", ".join(row[0] for row in in_range) or "none"
        where = "trixie-backports" if args.suite == "trixie" else args.suite
        wanted = f"kernel {args.want}" if args.want else "complete kernel"
        print(f"no {wanted} of {args.min}..{args.max} with image, headers and source "
              f"in {where} (complete there: {have})", file=sys.stderr)
        sys.exit(3)
    print(*fits[0][:5])


if __name__ == "__main__":
    main()
