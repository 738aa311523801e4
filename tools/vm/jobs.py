# SPDX-License-Identifier: GPL-2.0
"""Finding jobs and what they ask for.

A job is tests/vm/SUITE/NAME.sh, run on host A. It says what it needs in
comment lines at its head:

    # guests: 2             1 or 2 (the default)
    # cpus: 0               processors of each guest; 0: one of two guests has one, a single one has two
    # timeout: 60           seconds, on the stock kernel
    # kernel: any           any, stock or debug
    # pairs: *              patterns of driver pairs it makes sense for
    # allow: REGEX          kernel messages it provokes on purpose
    # interop: no           yes: worth running with siw at either end, too
    # pcap: no              yes: capture the data link while it runs
    # waits: no             yes: of one guest that hardly computes; beside all others
    # machines: no          yes: also between two machines that are reached by ssh
"""

import fnmatch
import os
import re
from dataclasses import dataclass, field

DIRECTIVE = re.compile(r"^# (guests|cpus|timeout|kernel|pairs|allow|interop|pcap|waits|machines):\s*(.*?)\s*$")
NOT_SUITES = {"guest", "preload", "prog"}
# Not part of "everything": for people to look at.
SHOWS = {"demo", "perf"}


@dataclass
class Job:
    suite: str
    name: str
    guests: int = 2
    cpus: int = 0
    timeout: float = 60
    kernel: str = "any"
    pairs: list = field(default_factory=lambda: ["*"])
    allow: str = ""
    interop: bool = False
    pcap: bool = False
    waits: bool = False
    machines: bool = False

    @property
    def path(self):
        return f"{self.suite}/{self.name}.sh"

    @property
    def title(self):
        return f"{self.suite}/{self.name}"

    def fits(self, pair, kernel):
        return self.kernel in ("any", kernel) and \
            any(fnmatch.fnmatch(",".join(pair), pattern) for pattern in self.pairs)


def read_job(top, suite, name):
    job = Job(suite, name)
    with open(f"{top}/{suite}/{name}.sh") as script:
        for line in script:
            if not line.startswith("#"):
                if line.strip():
                    break           # the head ends with the first command
                continue
            match = DIRECTIVE.match(line)
            if not match:
                continue
            key, value = match[1], match[2]
            if key in ("guests", "cpus"):
                setattr(job, key, int(value))
            elif key == "timeout":
                job.timeout = float(value)
            elif key == "pairs":
                job.pairs = value.split()
            elif key in ("interop", "pcap", "waits", "machines"):
                setattr(job, key, value == "yes")
            else:
                setattr(job, key, value)
    if job.guests not in (1, 2) or not 0 <= job.cpus <= 8 or job.kernel not in ("any", "stock", "debug"):
        raise SystemExit(f"vm: {job.path}: bad directive")
    return job


def read_skips(top):
    """What may be skipped: (kernel, jobs, reason), of tests/vm/skips."""
    with open(f"{top}/skips") as lines:
        rows = [line.split(None, 2) for line in lines if line.strip() and not line.startswith("#")]
    return [(kernel, jobs, re.compile(reason.strip())) for kernel, jobs, reason in rows]


def may_skip(skips, kernel, title, reason):
    return any(where in ("any", kernel) and fnmatch.fnmatch(title, jobs) and allowed.fullmatch(reason)
               for where, jobs, allowed in skips)


def suites(top):
    return sorted(entry for entry in os.listdir(top)
                  if os.path.isdir(f"{top}/{entry}") and entry not in NOT_SUITES)


def find_jobs(top, names):
    """The jobs that names mean: a suite, suite/job, or a file's path. Nothing
    means everything."""
    found = []
    for wanted in names or (s for s in suites(top) if s not in SHOWS):
        wanted = re.sub(r"^(.*/)?tests/vm/", "", wanted).removesuffix(".sh").rstrip("/")
        suite, _, name = wanted.partition("/")
        try:
            stems = sorted(entry[:-3] for entry in os.listdir(f"{top}/{suite}")
                           if entry.endswith(".sh"))
        except FileNotFoundError:
            raise SystemExit(f"vm: no suite '{suite}' (have: {' '.join(suites(top))})") from None
        chosen = fnmatch.filter(stems, name) if name else stems
        if not chosen:
            raise SystemExit(f"vm: no job '{wanted}' (have: {' '.join(stems)})")
        found += [read_job(top, suite, stem) for stem in chosen]
    return found
