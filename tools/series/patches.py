# SPDX-License-Identifier: GPL-2.0
"""What the two makers of patches share: series.py, for the kernel's tree, and provider/upstream/series.py, for
rdma-core's. Sources are those of the checkout; a commit is made of each patch, and the patches are checked."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent.parent


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


def inserted(text, where, after, lines):
    """A text with lines behind another one that it has once."""
    if text.count(after) != 1:
        fail(f"{where} has not one line {after!r}")
    return text.replace(after, after + lines)


def replaced(text, where, old, new):
    """A text with another piece where it has one once."""
    if text.count(old) != 1:
        fail(f"{where} has not once {old!r}")
    return text.replace(old, new)


# The kernel's header with the driver_ids.
IDS = "include/uapi/rdma/ib_user_ioctl_verbs.h"
ENUM = re.compile(r"^enum rdma_driver_id \{\n.*?^\};\n", re.M | re.S)


def with_own_id(text):
    """The header with rsiw's own driver_id, behind the last one."""
    ids = ENUM.search(text)[0]
    return replaced(text, IDS, ids, ids.replace("\n};", "\n\tRDMA_DRIVER_RSIW,\n};"))


def maintained(text, entries, first):
    """MAINTAINERS with more entries, in the order of the alphabet, which begins at an entry `first`."""
    for entry in entries.strip("\n").split("\n\n"):
        title = entry.splitlines()[0]
        start = re.search(f"^{first}", text, re.M).start()
        later = (found for found in re.finditer(r"(?<=\n\n)[^\t\n].*\n(?=M:|S:|L:)", text[start:])
                 if found[0].upper() > title.upper() + "\n")
        at = start + next(later).start()
        text = text[:at] + entry + "\n\n" + text[at:]
    return text


class Series:
    """A repository in OUT/tree whose first commit is somebody else's tree, and each other one a patch."""

    def __init__(self, out, author, email, date):
        self.out = pathlib.Path(out).resolve()
        self.tree = self.out / "tree"
        self.count = 0
        shutil.rmtree(self.out, ignore_errors=True)
        self.tree.mkdir(parents=True)
        who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
               for what, value in (("NAME", author), ("EMAIL", email), ("DATE", date))}
        os.environ.update(who, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null")

    def put(self, path, text):
        (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / path).write_text(text)

    def begin(self, title):
        """What is in the tree now is what the patches are put on."""
        git("init", "-q", "-b", "series", cwd=self.tree)
        git("add", "-Af", cwd=self.tree)
        git("commit", "-qm", title, cwd=self.tree)

    def commit(self, message):
        git("add", "-A", cwd=self.tree)
        git("commit", "-qs", "-F", "-", cwd=self.tree, stdin=text_of(message))
        self.count += 1

    def lay_out(self, folder, own, more):
        """A patch of each message of a folder: its files of `own` (number -> {path: text}), and what `more` puts.
        Then the patches."""
        for number, message in messages(folder):
            for path, text in own.pop(number, {}).items():
                self.put(path, text)
            more(number)
            self.commit(message)
        if own:
            fail(f"no messages for patches {sorted(own)}")
        self.write(folder / "cover.msg")

    def write(self, message):
        """The patches and a cover letter. What is sent is what was meant: put on the first commit, they make the
        tree."""
        git("format-patch", "-q", "--no-signature", "--zero-commit", "--cover-letter", "-o", str(self.out),
            f"-{self.count}", cwd=self.tree)
        cover = self.out / "0000-cover-letter.patch"
        subject, blurb = text_of(message).split("\n\n", 1)
        cover.write_text(cover.read_text().replace("*** SUBJECT HERE ***", subject)
                         .replace("*** BLURB HERE ***", blurb.strip()))
        check = self.out / "check"
        git("clone", "-q", "--no-local", str(self.tree), str(check), cwd=self.out)
        git("checkout", "-qb", "again", f"HEAD~{self.count}", cwd=check)
        git("am", "-q", *(str(path) for path in sorted(self.out.glob("*.patch")) if path != cover), cwd=check)
        if git("rev-parse", "HEAD^{tree}", cwd=check) != git("rev-parse", "HEAD^{tree}", cwd=self.tree):
            fail("the patches do not make the tree")
        shutil.rmtree(check)


def messages(folder):
    """The messages NN-NAME.msg of a folder, with their numbers, which are those of the patches."""
    found = sorted(folder.glob("[0-9][0-9]-*.msg"))
    for number, message in enumerate(found, 1):
        if int(message.name[:2]) != number:
            fail(f"{message.name} is patch {number}")
        yield number, message
