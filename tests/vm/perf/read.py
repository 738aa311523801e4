# SPDX-License-Identifier: GPL-2.0
"""read.py METRIC SIZE FILE COST: what perftest, qperf (-v) or iperf3 (-J) printed, as a line

VALUE <tab> UNIT <tab> DETAILS. Bandwidth in MiB/s, below 64 bytes in messages a
second; latency in us, half a round trip: the typical one of perftest, with its
percentiles as details, the mean of qperf. Fails if there is none.
"""

import json
import math
import re
import sys

# perftest's columns behind size and iterations.
LATENCY = ("min", "max", "typical", "average", "stdev", "p99", "p99.9")


def perftest(metric, size, text):
    for line in text.splitlines():
        words = line.split()
        if not words or words[0] != size or len(words) < 5:
            continue
        values = [float(w) for w in words[2:]]
        if metric.endswith("_lat"):
            details = " ".join(f"{n}={v:g}" for n, v in zip(LATENCY, values))
            return values[2], "us", details
        # MiB have two decimals, millions of messages six.
        if int(size) < 64:
            return values[2] * 1e6, "messages/s", ""
        return values[1], "MiB/s", f"rate={values[1] * 2**20 / int(size):.0f}/s"
    return None


SCALES = {"bytes": 2**-20, "KB": 1e3 / 2**20, "MB": 1e6 / 2**20, "GB": 1e9 / 2**20,
          "ns": 1e-3, "us": 1, "ms": 1e3}


def qperf(metric, size, text):
    found = re.search(r"^ +(?:bw|latency) += +([\d.,]+) (\w+)", text, re.MULTILINE)
    if not found:
        return None
    value = float(found[1].replace(",", "")) * SCALES[found[2]]
    if metric == "tcp_lat":
        return value, "us", ""
    return value, "MiB/s", f"rate={value * 2**20 / int(size):.0f}/s"


def iperf3(_metric, _size, text):
    try:
        end = json.loads(text)["end"]
        ways = [end["sum_received"]]
    except (ValueError, KeyError):
        return None
    if "sum_received_bidir_reverse" in end:
        ways.append(end["sum_received_bidir_reverse"])
    return sum(way["bits_per_second"] for way in ways) / 8 / 2**20, "MiB/s", ""


def main():
    metric, size, path, cost = sys.argv[1:]
    with open(path, encoding="ascii", errors="replace") as file:
        text = file.read()
    program = iperf3 if metric == "iperf3" else qperf if metric.startswith("tcp") else perftest
    found = program(metric, size, text)
    if not found:
        return 1
    value, unit, details = found
    # A program that found no clock divides by nothing, or has measured nothing.
    if not (math.isfinite(value) and value > 0):
        return 1
    if metric.endswith("_bw") or metric == "iperf3":
        details += " " + cost
    print(f"{value:.4g}", unit, details.strip(), sep="\t")
    return 0


sys.exit(main())
