#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""layers.py TEXT: print TEXT, rows of boxes from above to below, as SVG; see Documentation/layers.txt."""

import html
import sys

WIDTH, HEIGHT, GAP, MARGIN = 640, 34, 8, 12
PLAIN, OURS, LINE = "#eef2f6", "#f6d7b0", "#5b6b7b"


def text(x, y, words, size=14, weight="normal"):
    return (f'<text x="{x:g}" y="{y:g}" font-family="sans-serif" font-size="{size}" font-weight="{weight}" '
            f'text-anchor="middle" fill="#1b2733">{html.escape(words)}</text>')


def row(y, boxes):
    """The boxes of a row, which share its width."""
    width = (WIDTH - GAP * (len(boxes) - 1)) / len(boxes)
    for i, box in enumerate(boxes):
        x = MARGIN + i * (width + GAP)
        ours = box.startswith("*")
        yield (f'<rect x="{x:g}" y="{y}" width="{width:g}" height="{HEIGHT}" rx="4" '
               f'fill="{OURS if ours else PLAIN}" stroke="{LINE}"/>')
        yield text(x + width / 2, y + HEIGHT / 2 + 5, box.lstrip("* "), weight="bold" if ours else "normal")


def border(y, words):
    """A dashed line across, with its text."""
    yield (f'<line x1="0" y1="{y + 18}" x2="{WIDTH + 2 * MARGIN}" y2="{y + 18}" stroke="{LINE}" '
           'stroke-dasharray="6 4"/>')
    yield text(MARGIN + WIDTH / 2, y + 13, words, 12)


def main():
    with open(sys.argv[1], encoding="utf-8") as source:
        lines = [line.strip() for line in source if not line.startswith("#")]
    out, y = [], MARGIN
    for line in lines:
        if line.startswith("--"):
            out += border(y, line.lstrip("- "))
            y += 30
        else:
            out += row(y, [box.strip() for box in line.split("|")])
            y += HEIGHT + GAP
    width, height = WIDTH + 2 * MARGIN, y + MARGIN - GAP
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
          f'viewBox="0 0 {width} {height}">')
    print(f'<rect width="{width}" height="{height}" fill="white"/>')
    print("\n".join(out))
    print("</svg>")


if __name__ == "__main__":
    main()
