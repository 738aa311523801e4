# SPDX-License-Identifier: GPL-2.0
"""bench.py DIR: evaluate DIR/bench.tsv, the measurements of the job perf/bench.

Writes bench.json (each point: median, all values, the command that repeats it), summary.txt (tables, which
are printed, too) and a table for plotting for each metric (METRIC.dat, a column for each kind of transport).
"""

import csv
import json
import re
import statistics
import sys
from collections import defaultdict

BANDWIDTHS = ("send_bw", "write_bw", "read_bw")
# What only rsiw's provider has: metric, size, what it is compared with, and the least ratio of speeds that is good.
EXTENDED = (
    ("write_imm_bw", 65536, "write_bw", 0.95),
    ("fetch_add_bw", 8, "read_bw", 1.0), ("cmp_swap_bw", 8, "read_bw", 1.0),
    ("fetch_add_lat", 8, "read_lat", 1.0), ("cmp_swap_lat", 8, "read_lat", 1.0),
)


def read(path):
    """{(metric, size, qps): {kind: [row]}}, and the kinds in order of appearance."""
    points, kinds = defaultdict(lambda: defaultdict(list)), []
    with open(path, encoding="ascii") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            point = row["metric"], int(row["size"]), int(row["qps"])
            points[point][row["kind"]].append(row)
            if row["kind"] not in kinds:
                kinds.append(row["kind"])
    return points, kinds


def median(rows):
    return statistics.median(float(row["value"]) for row in rows)


def detail(rows, name):
    """The median of the number NAME=... in the rows' details, or None."""
    found = [re.search(rf"\b{re.escape(name)}=([\d.]+)", row["details"]) for row in rows]
    values = [float(match[1]) for match in found if match]
    return statistics.median(values) if values else None


def size_text(size):
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def table(title, kinds, rows):
    """rows: (label, {kind: text})."""
    width = {kind: max(len(kind), *(len(cells.get(kind, "")) for _, cells in rows))
             for kind in kinds}
    first = max(len(title), *(len(label) for label, _ in rows))
    yield f"{title:<{first}}  " + "  ".join(f"{kind:>{width[kind]}}" for kind in kinds)
    for label, cells in rows:
        yield f"{label:<{first}}  " + "  ".join(
            f"{cells.get(kind, ''):>{width[kind]}}" for kind in kinds)
    yield ""


def extended(points):
    """Speeds with rsiw's provider; the ratio of latencies is turned round."""
    for kind in {kind for of in points.values() for kind in of if kind.endswith(" own")}:
        rows = []
        for metric, size, base, least in EXTENDED:
            pair = [points.get((name, size, 1), {}).get(kind) for name in (metric, base)]
            if not all(pair):
                continue
            speed, other = map(median, pair)
            ratio = other / speed if metric.endswith("_lat") else speed / other
            rows.append((f"{metric}, {size_text(size)}", {
                "median": f"{speed:.4g} {pair[0][0]['unit']}", "compared with": f"{base} {other:.4g}",
                "ratio": f"{ratio:.2f}", "least": f"{least:.2f}" + ("" if ratio >= least else " (below)")}))
        if rows:
            yield from table(kind, ["median", "compared with", "ratio", "least"], rows)


def tables(points, kinds):
    rdma = [kind for kind in kinds if kind != "tcp"]
    shown = ["tcp", *rdma] if "tcp" in kinds else rdma

    def cells(point, form):
        values = {kind: form(rows) for kind, rows in points[point].items()}
        return {kind: text for kind, text in values.items() if text}

    for metric in BANDWIDTHS:
        rows, costs, ratios = [], [], []
        for point in sorted(p for p in points if p[0] == metric):
            label, size = size_text(point[1]), point[1]
            row = cells(point, lambda r: f"{median(r):.1f}")
            cost = cells(point, lambda r: f"{detail(r, 'cpu') or 0:.1f}")
            tcp = points.get(("tcp_bw", size, 1), {}).get("tcp")
            if tcp:
                row["tcp"], cost["tcp"] = f"{median(tcp):.1f}", f"{detail(tcp, 'cpu') or 0:.1f}"
            rows.append((label, row))
            costs.append((label, cost))
            base = points[point].get("siw")
            if base:
                ratios.append((label, {kind: f"{median(r) / median(base):.2f}"
                                       for kind, r in points[point].items()}))
        if rows:
            yield from table(f"{metric}, MiB/s", shown, rows)
            yield from table(f"{metric}, CPU ms/MiB", shown, costs)
        if ratios:
            yield from table(f"{metric}, times siw", rdma, ratios)
    for metric in ("send_lat", "write_lat", "read_lat"):
        for point in (p for p in points if p[0] == metric):
            rows = [(name, cells(point, lambda r, n=name: f"{detail(r, n) or 0:.0f}"))
                    for name in ("typical", "average", "p99", "p99.9")]
            tcp = points.get(("tcp_lat", point[1], 1), {}).get("tcp")
            if tcp:
                rows[1][1]["tcp"] = f"{median(tcp):.0f}"
            yield from table(f"{metric}, {size_text(point[1])}, us", shown, rows)
    for point in (p for p in points if p[0] == "conn_rate"):
        yield from table("connections/s", rdma, [
            ("", cells(point, lambda r: f"{median(r):.0f}"))])
    both = sorted(p for p in points if p[0] == "both_bw")
    for what, form in (("MiB/s", lambda r: f"{median(r):.1f}"),
                       ("CPU ms/MiB", lambda r: f"{detail(r, 'cpu') or 0:.1f}")):
        if both:
            yield from table(f"write_bw, both ways at once, {what}", shown, [
                (size_text(p[1]), cells(p, form)) for p in both])
    scaling = sorted(p for p in points if p[0] == "multi_bw")
    if scaling:
        yield from table("write_bw by QPs, MiB/s", shown, [
            (f"{p[2]} x {size_text(p[1])}", cells(p, lambda r: f"{median(r):.1f}"))
            for p in scaling])


def repeat(kind, point):
    metric, size, qps = point
    return f"tools/bench --env ROUNDS=3 --env 'KINDS={kind}' --env ONLY={metric}.{size}.{qps}"


def main():
    out = sys.argv[1]
    points, kinds = read(f"{out}/bench.tsv")
    with open(f"{out}/bench.json", "w", encoding="ascii") as file:
        json.dump([{
            "metric": point[0], "size": point[1], "qps": point[2], "kind": kind,
            "unit": rows[0]["unit"], "median": median(rows),
            "values": [float(row["value"]) for row in rows],
            "details": [row["details"] for row in rows],
            "repeat": repeat(kind, point),
        } for point, of in points.items() for kind, rows in of.items()], file, indent=1)
    text = [*extended(points)]
    # The other tables and the plots are of what all kinds have.
    kinds = [kind for kind in kinds if not kind.endswith(" own")]
    points = {point: {kind: of[kind] for kind in kinds if kind in of} for point, of in points.items()}
    points = {point: of for point, of in points.items() if of}
    text = "\n".join([*text, *tables(points, kinds)])
    with open(f"{out}/summary.txt", "w", encoding="ascii") as file:
        print(text, file=file)
    print(text)
    for metric in BANDWIDTHS:
        mine = {}
        for point in sorted(p for p in points if p[0] == metric):
            mine[point[1]] = {**points[point], **points.get(("tcp_bw", point[1], 1), {})}
        # No line is drawn between two points.
        lines = [kind for kind in kinds if sum(kind in of for of in mine.values()) > 2]
        if not lines:
            continue
        with open(f"{out}/{metric}.dat", "w", encoding="ascii") as file:
            print("size", *(f'"{kind}"' for kind in lines), file=file)
            for size, of in mine.items():
                print(size, *(f"{median(of[kind]):.4g}" if kind in of else "?" for kind in lines), file=file)


main()
