# SPDX-License-Identifier: GPL-2.0
"""Jobs, and the directives at their head.

A job is tests/vm/SUITE/NAME.sh, which runs on host A. Comment lines at its
head say what it needs; tests/vm/README.md explains them.
"""

import fnmatch
import glob
import os
import re
from dataclasses import dataclass, field

DIRECTIVE = re.compile(r"^# (guests|cpus|timeout|kernel|pairs|allow|interop|pcap|time):\s*(.*?)\s*$")
# Suites for people, which run only by name.
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
    time: str = "real"

    @property
    def virtual(self):
        return self.time == "virtual"

    def on_virtual_time(self, args, pair):
        """Whether it runs on virtual time. Two drivers would serve both hosts of one guest."""
        return self.virtual and args.virtual and pair[0] == pair[-1]

    def boots(self, args, pair):
        """The number of guests that it boots. On virtual time two hosts are namespaces of one guest."""
        return 1 if self.on_virtual_time(args, pair) else self.guests

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
                    break           # the first command ends the head
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
            elif key in ("interop", "pcap"):
                setattr(job, key, value == "yes")
            else:
                setattr(job, key, value)
    if job.guests not in (1, 2) or not 0 <= job.cpus <= 8 or job.kernel not in ("any", "stock", "debug") or \
            job.time not in ("real", "virtual"):
        raise SystemExit(f"vm: {job.path}: bad directive")
    if job.virtual and job.cpus:
        raise SystemExit(f"vm: {job.path}: virtual time needs one processor")
    return job


def read_skips(top):
    """The skips that tests/vm/skips allows: (kernel, pattern of jobs, reason)."""
    with open(f"{top}/skips") as lines:
        rows = [line.split(None, 2) for line in lines if line.strip() and not line.startswith("#")]
    return [(kernel, jobs, re.compile(reason.strip())) for kernel, jobs, reason in rows]


def may_skip(skips, kernel, title, reason):
    return any(where in ("any", kernel) and fnmatch.fnmatch(title, jobs) and allowed.fullmatch(reason)
               for where, jobs, allowed in skips)


def suites(top):
    """The folders that have jobs."""
    return sorted({os.path.basename(os.path.dirname(job)) for job in glob.glob(f"{top}/*/*.sh")})


def find_jobs(top, names):
    """The jobs with these names: SUITE, SUITE/JOB (both may be patterns), or a
    file's path. No name means every suite but SHOWS."""
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
