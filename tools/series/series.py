# SPDX-License-Identifier: GPL-2.0
"""Lays the sources out as a series of patches for the kernel's tree.

    series.py SOURCE OUT AUTHOR EMAIL DATE

SOURCE is the kernel's source, which is only read. OUT gets the patches, a cover letter, and in OUT/tree a
repository with the files that the series touches: its first commit is the kernel, each other one a patch.

Where files come from:

- the checkout's own sources, as SOURCES and DRIVER say, unchanged but for RENAMED and IDENTITY;
- tree/, for what only the kernel's tree has. A line "@@02@@", in a comment, says that what follows is there
  from that patch on, "@@07-09@@" that it is there in those only;
- INSERTED, lines in files that the kernel has, and the file maintainers, entries of MAINTAINERS.

NN-NAME.msg are the messages, cover.msg that of the cover letter."""

import pathlib
import re
import sys

from patches import (IDS, Series, TOP, fail, inserted, maintained, replaced, text_of, tracked,
                     with_own_id)

HERE = pathlib.Path(__file__).parent
IB = "drivers/infiniband/"

# Patch -> (folder or file of the checkout, that of the kernel).
SOURCES = {
    1: [("rust/bindings", IB + "rust/bindings"), ("rust/helpers", IB + "rust/helpers"),
        ("rust/ksock", IB + "rust/ksock")],
    2: [("rust/kext", IB + "rust/kext")],
    3: [("rust/net", IB + "rust/net")],
    4: [("rust/rdma", IB + "rust/rdma")],
    5: [("rust/iwarp", IB + "rust/iwarp"), ("tests/kunit", IB + "rust/tests/kunit"),
        ("tests/host/suites", IB + "rust/tests/host/suites")],
    6: [("samples/rdma", IB + "rust/sample")],
    10: [("provider/rsiw-abi.h", "include/uapi/rdma/rsiw-abi.h")],
}
# The driver is posted in pieces, and compiled with the last.
DRIVER = {
    7: "abi cpu_share cq counters device fifo mem pd queue quota ring settings tls_names wr",
    8: "rx trace transport tx",
    9: "cm stream",
    10: "link main netdev qp rnic verbs",
}
# An option each says whether KUnit suites are compiled, as is the custom there. Here it is KUnit itself.
KUNIT = {IB + "rust/": "CONFIG_RUST_RDMA_KUNIT_TEST", IB + "sw/rsiw/": "CONFIG_RDMA_RSIW_KUNIT_TEST"}
RENAMED = [
    (re.compile(r'^( *)#\[kunit_tests\(', re.M), r"\1#[cfg(OPTION)]\n\g<0>"),
    (re.compile(r'CONFIG_KUNIT = "y"'), "OPTION"),
]
# A module outside of the kernel's tree has the driver_id of siw, so that the libraries of distributions serve it. In the
# tree the driver has its own, from the patch VERBS on. Patch, file of the checkout, what it has here, what it has there.
VERBS = 10
OUTSIDE = """\
    /// Software iWARP: the library `libsiw`.
    pub const SIW: Self = Self(bindings::rdma_driver_id_RDMA_DRIVER_SIW);
"""
IDENTITY = [
    (4, "rust/rdma/driver.rs", OUTSIDE, ""),
    (VERBS, "rust/rdma/driver.rs", OUTSIDE, """\
    /// Software iWARP, in Rust: the library `librsiw`.
    pub const RSIW: Self = Self(bindings::rdma_driver_id_RDMA_DRIVER_RSIW);
"""),
    (VERBS, "rsiw/verbs/mod.rs", """\
    // The library of siw serves this driver, too.
    const ID: DriverId = DriverId::SIW;
""", """\
    const ID: DriverId = DriverId::RSIW;
"""),
]
# Patch, file, line after which the lines come, the lines.
INSERTED = [
    (1, IB + "Kconfig", 'source "drivers/infiniband/sw/siw/Kconfig"\n',
     'source "drivers/infiniband/rust/Kconfig"\n'),
    (1, IB + "Makefile", "obj-$(CONFIG_INFINIBAND)\t\t+= ulp/\n",
     "obj-$(CONFIG_RUST_RDMA)\t\t+= rust/\n"),
    (10, IB + "Kconfig", 'source "drivers/infiniband/rust/Kconfig"\n',
     'source "drivers/infiniband/sw/rsiw/Kconfig"\n'),
    (10, IB + "Makefile", "obj-$(CONFIG_INFINIBAND)\t\t+= sw/\n",
     "\nifdef CONFIG_RUST_RDMA\n# Drivers there are compiled against the metadata of these crates.\n"
     "$(obj)/sw: | $(obj)/rust\nendif\n"),
    (10, IB + "sw/Makefile", "obj-$(CONFIG_INFINIBAND_RDMAVT)\t\t+= rdmavt/\n",
     "obj-$(CONFIG_RDMA_RSIW)\t\t\t+= rsiw/\n"),
    (6, "Documentation/infiniband/index.rst", "   ipoib\n", "   rust\n"),
    (11, "Documentation/infiniband/index.rst", "   ipoib\n", "   rsiw\n"),
]
MARK = re.compile(r"^\W*@@(\d\d)(?:-(\d\d))?@@\W*$")


def at_patch(text, number):
    """A text as it is after a patch, or None if it is not there yet."""
    shown, lines, any_shown = True, [], False
    for line in text.splitlines(keepends=True):
        mark = MARK.match(line)
        if mark:
            shown = int(mark[1]) <= number <= int(mark[2] or 99)
            any_shown |= shown
        elif shown:
            lines.append(line)
    return "".join(lines) if any_shown else None


def adapted(path, text):
    for folder, option in KUNIT.items():
        if path.startswith(folder) and path.endswith(".rs"):
            for pattern, by in RENAMED:
                text = pattern.sub(by.replace("OPTION", option), text)
    return text


def sources():
    """Patch -> {path in the kernel: text}. Every source is in exactly one patch."""
    patches = {}
    left = set(tracked("rust", "rsiw", "samples", "tests/kunit", "tests/host/suites", "provider/rsiw-abi.h"))
    paths = {}
    folders = [(patch, *pair) for patch, pairs in SOURCES.items() for pair in pairs]
    for patch, names in DRIVER.items():
        for name in names.split():
            for piece in (f"rsiw/{name}", f"rsiw/{name}.rs"):
                folders.append((patch, piece, IB + "sw/" + piece))
    for patch, here, there in folders:
        found = {name for name in left if name == here or name.startswith(here + "/")}
        left -= found
        for name in found:
            path = paths[name] = there + name[len(here):]
            patches.setdefault(patch, {})[path] = adapted(path, (TOP / name).read_text())
    for patch, name, old, new in IDENTITY:
        patches[patch][paths[name]] = replaced((TOP / name).read_text(), name, old, new)
    if left:
        fail("in no patch: " + " ".join(sorted(left)))
    return patches


def main(source, out, author, email, date):
    source = pathlib.Path(source)
    original = {path: (source / path).read_text()
                for path in {"MAINTAINERS", IDS} | {edit[1] for edit in INSERTED}}
    templates = {str(path.relative_to(HERE / "tree")): path.read_text()
                 for path in sorted((HERE / "tree").rglob("*")) if path.is_file()}
    entries = text_of(HERE / "maintainers")
    own = sources()
    series = Series(out, author, email, date)
    for path, text in original.items():
        series.put(path, text)
    series.begin("The kernel")

    def more(number):
        for path, text in templates.items():
            text = at_patch(text, number)
            if text is not None:
                series.put(path, text)
        for path, text in original.items():
            for patch, where, after, lines in INSERTED:
                if where == path and patch <= number:
                    text = inserted(text, path, after, lines)
            if path == IDS and number >= VERBS:
                text = with_own_id(text)
            if path == "MAINTAINERS":
                text = maintained(text, at_patch(entries, number).replace("AUTHOR", f"{author} <{email}>"), "3C59X")
            series.put(path, text)

    series.lay_out(HERE, own, more)


if __name__ == "__main__":
    main(*sys.argv[1:])
