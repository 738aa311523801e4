# SPDX-License-Identifier: GPL-2.0
"""Lays the sources out as a series of patches for the kernel's tree.

    series.py SOURCE OUT AUTHOR EMAIL DATE

SOURCE is the kernel's source, which is only read. OUT gets the patches, a cover letter, and in OUT/tree a
repository with the files that the series touches: its first commit is the kernel, each other one a patch.

Where files come from:

- the checkout's own sources, as SOURCES and DRIVER say, unchanged but for RENAMED;
- tree/, for what only the kernel's tree has. A line "@@02@@", in a comment, says that what follows is there
  from that patch on, "@@07-09@@" that it is there in those only;
- INSERTED, lines in files that the kernel has, and the file maintainers, entries of MAINTAINERS.

NN-NAME.msg are the messages, cover.msg that of the cover letter."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
TOP = HERE.parent.parent
IB = "drivers/infiniband/"

# Patch -> (folder of the checkout, folder of the kernel).
SOURCES = {
    1: [("rust/bindings", IB + "rust/bindings"), ("rust/helpers", IB + "rust/helpers"),
        ("rust/ksock", IB + "rust/ksock")],
    2: [("rust/kext", IB + "rust/kext")],
    3: [("rust/net", IB + "rust/net")],
    4: [("rust/rdma", IB + "rust/rdma")],
    5: [("rust/iwarp", IB + "rust/iwarp"), ("tests/kunit", IB + "rust/tests/kunit"),
        ("tests/host/suites", IB + "rust/tests/host/suites")],
    8: [("rust/trace", IB + "sw/rsiw/trace")],
}
# The driver is posted in pieces, and compiled with the last.
DRIVER = {
    7: "abi cpu_share cq counters device fifo limit mem names pd queue ring settings wr",
    8: "rx transport tx",
    9: "cm stream",
    10: "link main qp rnic verbs",
}
# An option each says whether KUnit suites are compiled, as is the custom there. Here it is KUnit itself.
KUNIT = {IB + "rust/": "CONFIG_RUST_RDMA_KUNIT_TEST", IB + "sw/rsiw/": "CONFIG_RDMA_RSIW_KUNIT_TEST"}
RENAMED = [
    (re.compile(r'^( *)#\[kunit_tests\(', re.M), r"\1#[cfg(OPTION)]\n\g<0>"),
    (re.compile(r'CONFIG_KUNIT = "y"'), "OPTION"),
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


def fail(text):
    sys.exit(f"series: {text}")


def git(*args, cwd, stdin=None):
    return subprocess.run(("git",) + args, cwd=cwd, check=True, text=True, input=stdin,
                          stdout=subprocess.PIPE).stdout


def tracked(*paths):
    """The files of the checkout below some paths, committed or about to be."""
    args = ("-c", f"safe.directory={TOP}", "ls-files", "-co", "--exclude-standard", "--")
    return [name for name in git(*args, *paths, cwd=TOP).splitlines() if (TOP / name).is_file()]


def text_of(path):
    """A message, or entries, without the line about its licence."""
    return path.read_text().split("\n", 1)[1]


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
    left = set(tracked("rust", "rsiw", "tests/kunit", "tests/host/suites"))
    folders = [(patch, *pair) for patch, pairs in SOURCES.items() for pair in pairs]
    for patch, names in DRIVER.items():
        for name in names.split():
            for piece in (f"rsiw/{name}", f"rsiw/{name}.rs"):
                folders.append((patch, piece, IB + "sw/" + piece))
    for patch, here, there in folders:
        found = {name for name in left if name == here or name.startswith(here + "/")}
        left -= found
        for name in found:
            path = there + name[len(here):]
            patches.setdefault(patch, {})[path] = adapted(path, (TOP / name).read_text())
    if left:
        fail("in no patch: " + " ".join(sorted(left)))
    return patches


def maintained(text, entries):
    """MAINTAINERS with more entries, in the order of the alphabet."""
    for entry in entries.strip("\n").split("\n\n"):
        title = entry.splitlines()[0]
        start = re.search(r"^3C59X", text, re.M).start()
        later = (found for found in re.finditer(r"(?<=\n\n)[^\t\n].*\n(?=M:|S:|L:)", text[start:])
                 if found[0].upper() > title.upper() + "\n")
        at = start + next(later).start()
        text = text[:at] + entry + "\n\n" + text[at:]
    return text


def main(source, out, author, email, date):
    source, out = pathlib.Path(source), pathlib.Path(out)
    shutil.rmtree(out, ignore_errors=True)
    tree = out / "tree"
    tree.mkdir(parents=True)
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", author), ("EMAIL", email), ("DATE", date))}
    os.environ.update(who, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null")

    def put(path, text):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)

    original = {path: (source / path).read_text()
                for path in {"MAINTAINERS"} | {edit[1] for edit in INSERTED}}
    templates = {str(path.relative_to(HERE / "tree")): path.read_text()
                 for path in sorted((HERE / "tree").rglob("*")) if path.is_file()}
    entries = text_of(HERE / "maintainers")
    own = sources()
    git("init", "-q", "-b", "series", cwd=tree)
    for path, text in original.items():
        put(path, text)
    git("add", "-A", cwd=tree)
    git("commit", "-qm", "The kernel", cwd=tree)

    messages = sorted(HERE.glob("[0-9][0-9]-*.msg"))
    for number, message in enumerate(messages, 1):
        if int(message.name[:2]) != number:
            fail(f"{message.name} is patch {number}")
        for path, text in own.pop(number, {}).items():
            put(path, text)
        for path, text in templates.items():
            text = at_patch(text, number)
            if text is not None:
                put(path, text)
        for path, text in original.items():
            for patch, where, after, lines in INSERTED:
                if where == path and patch <= number:
                    if text.count(after) != 1:
                        fail(f"{path} has not one line {after!r}")
                    text = text.replace(after, after + lines)
            if path == "MAINTAINERS":
                text = maintained(text, at_patch(entries, number).replace("AUTHOR", f"{author} <{email}>"))
            put(path, text)
        git("add", "-A", cwd=tree)
        git("commit", "-qs", "-F", "-", cwd=tree, stdin=text_of(message))
    if own:
        fail(f"no messages for patches {sorted(own)}")

    git("format-patch", "-q", "--no-signature", "--zero-commit", "--cover-letter", "-o", str(out.resolve()),
        f"-{len(messages)}", cwd=tree)
    cover = out / "0000-cover-letter.patch"
    subject, blurb = text_of(HERE / "cover.msg").split("\n\n", 1)
    cover.write_text(cover.read_text().replace("*** SUBJECT HERE ***", subject)
                     .replace("*** BLURB HERE ***", blurb.strip()))
    # What is sent is what was meant: the patches, put on the kernel, make this tree.
    check = out / "check"
    git("clone", "-q", "--no-local", str(tree.resolve()), str(check.resolve()), cwd=out)
    git("checkout", "-qb", "again", f"HEAD~{len(messages)}", cwd=check)
    git("am", "-q", *(str(path.resolve()) for path in sorted(out.glob("*.patch")) if path != cover), cwd=check)
    if git("rev-parse", "HEAD^{tree}", cwd=check) != git("rev-parse", "HEAD^{tree}", cwd=tree):
        fail("the patches do not make the tree")
    shutil.rmtree(check)


if __name__ == "__main__":
    main(*sys.argv[1:])
