# SPDX-License-Identifier: GPL-2.0
"""Findings, how they are shown, and the exit status that they make."""

import json
import shlex

OK, WARN, FAIL, SKIP = "ok", "warn", "FAIL", "skip"
STATUS = {OK: 0, SKIP: 0, WARN: 1, FAIL: 2}
# Where the text begins, and the commands below it.
INDENT = " " * 17


class Finding:
    """One line of the report. `mend` has the commands that mend it; those that begin with "# " are for a person."""

    def __init__(self, level, topic, text, mend):
        self.level, self.topic, self.text, self.mend = level, topic, text, mend

    def lines(self):
        yield f"{self.level:<5}{self.topic:<11} {self.text}"
        for command in self.mend:
            yield INDENT + command


class Report:
    def __init__(self):
        self.findings = []

    def _add(self, level, topic, text, mend):
        one = Finding(level, topic, one_line(text), [printable(one) for one in mend])
        # The two links of a network device have some findings in common.
        if vars(one) not in [vars(other) for other in self.findings]:
            self.findings.append(one)

    def ok(self, topic, text):
        self._add(OK, topic, text, ())

    def warn(self, topic, text, *mend):
        self._add(WARN, topic, text, mend)

    def fail(self, topic, text, *mend):
        self._add(FAIL, topic, text, mend)

    def skip(self, topic, text, *mend):
        """Something could not be looked at: no fault, but the reader has to know."""
        self._add(SKIP, topic, text, mend)

    @property
    def status(self):
        return max((STATUS[f.level] for f in self.findings), default=0)

    def text(self, quiet=False):
        shown = [f for f in self.findings if not quiet or STATUS[f.level]]
        return "".join(line + "\n" for f in shown for line in f.lines())

    def json(self, quiet=False):
        shown = [f for f in self.findings if not quiet or STATUS[f.level]]
        return json.dumps({"status": self.status, "findings": [
            {"level": f.level, "topic": f.topic, "text": f.text, "mend": f.mend} for f in shown]}, indent=1) + "\n"


def command(text, *names):
    """A command for a shell with these in place of each {}. Names of network devices may have quotes, ; and $( in them."""
    return text.format(*(shlex.quote(str(name)) for name in names))


def printable(text):
    """What others say may have several lines, and characters that a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in text)


def one_line(text):
    return printable(" ".join(text.split()))
