# SPDX-License-Identifier: GPL-2.0
"""Parser for KTAP, the format in which a job reports its tests."""

import re
from dataclasses import dataclass

RESULT = re.compile(r"^(not )?ok\s+(\d+)\s*-?\s*(.*)$")
PLAN = re.compile(r"^1\.\.(\d+)")
SKIP = re.compile(r"#\s*SKIP\b\s*(.*)$", re.I)


@dataclass
class Result:
    name: str
    status: str                 # "ok", "not ok" or "skip"
    reason: str = ""


# Notes of a job: "RETRY FAULT: what" when it tried again because of that known fault of another component;
# "STALE ENTRY: why" when an entry in a list of such faults is out of date.
MARK = re.compile(r"^[#\s]*(RETRY|STALE) ([\w.-]+)")


def marks(text, word):
    """The names (FAULT or ENTRY) that follow this word in the notes, in order."""
    found = (MARK.match(line) for line in text.splitlines() if line.startswith("#"))
    return [match[2] for match in found if match and match[1] == word]


# Messages of tests about wrong data (tests/verbs/known.c, rping, fio, the jobs).
WRONG = re.compile(r"bytes wrong|is not what|mark 0x|mismatch|verif\w* fail|^# *verify:|differs?\b", re.I)


def wrong_data(text):
    """The notes that report wrong data."""
    return [line.strip("# ") for line in text.splitlines() if line.startswith("#") and WRONG.search(line)]


def parse(text):
    """(results, problem): the tests in order, and what is wrong with the
    document itself, or None. Indented lines, which report subtests, are
    ignored: the parent's line has their outcome."""
    results, plan, problem = [], None, None
    for line in text.splitlines():
        match = PLAN.match(line)
        if match:
            plan = int(match[1])
            skip = SKIP.search(line)
            if plan == 0:
                results.append(Result("(whole job)", "skip",
                                      skip[1].strip() if skip else "no reason given"))
            continue
        match = RESULT.match(line)
        if not match:
            continue
        name, skip = match[3], SKIP.search(match[3])
        if skip:
            name = name[:skip.start()].rstrip(" -#")
            results.append(Result(name, "skip", skip[1].strip()))
        else:
            results.append(Result(name, "not ok" if match[1] else "ok"))
    if plan is None:
        problem = "no plan (1..N): the job did not end by itself or is not KTAP"
    elif plan and plan != len(results):
        problem = f"{len(results)} results where the plan says {plan}"
    return results, problem
