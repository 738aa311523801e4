# SPDX-License-Identifier: GPL-2.0
"""Prints results for a person, and counts them."""

import sys
import threading
from collections import Counter

MARK = {"ok": "ok", "not ok": "FAIL", "skip": "skip"}


def told(retries):
    """The number of retries, and how many each known fault of another component excuses."""
    faults = ", ".join(f"{name} {count}" for name, count in sorted(Counter(retries).items()))
    return f"{sum(Counter(retries).values())} ({faults})"


class Report:
    def __init__(self, verbose):
        self.verbose = verbose
        self.passed = self.failed = self.skipped = 0
        self.failures, self.unsteady = [], []
        self.held = []                  # outcomes of jobs that are to run again
        self.runs = Counter()           # of each job, by title
        self.retries, self.stale = Counter(), Counter()
        self.lock = threading.Lock()    # two sessions may report at once

    @staticmethod
    def say(text):
        print(text, flush=True)

    def begin(self, job, pair):
        if self.verbose:
            self.say(f"== {job.title} [{','.join(pair)}]")

    def echo(self, data):
        if self.verbose:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def count(self, result):
        if result.status == "ok":
            self.passed += 1
        elif result.status == "skip":
            self.skipped += 1
        else:
            self.failed += 1

    @staticmethod
    def title(outcome):
        return f"{outcome.job.title} [{','.join(outcome.pair)}]"

    def end(self, outcome):
        """Reports a job's outcome, and counts it."""
        with self.lock:
            for result in outcome.results:
                self.count(result)
            # Problems beyond the job's own tests count as one more failure.
            self.failed += bool(outcome.problems)
            self.runs[self.title(outcome)] += 1
            if outcome.failed:
                self.failures.append(self.title(outcome))
            self.tell(outcome)

    def hold(self, outcome):
        """Reports a job's failure, which does not count yet: the job runs again."""
        with self.lock:
            self.held.append(outcome)
            self.tell(outcome)
            self.say("     (this job runs once more, alone)")

    def take_held(self):
        held, self.held = self.held, []
        return held

    def end_again(self, outcome):
        """Reports the second run of a job. One that passes now is unsteady."""
        if not outcome.failed:
            self.unsteady.append(self.title(outcome))
        self.end(outcome)

    def rates(self):
        for title, runs in sorted(self.runs.items()):
            self.say(f"steady: {title} passed {runs - self.failures.count(title)} of {runs}")

    def tell(self, outcome):
        title = self.title(outcome)
        counts = [sum(r.status == s for r in outcome.results) for s in MARK]
        mark = "FAIL" if outcome.failed else "skip" if counts[2] and not counts[0] else "ok"
        retried = f", retried {told(outcome.retries)}" if outcome.retries else ""
        self.retries.update(outcome.retries)
        self.stale.update(outcome.stale)
        self.say(f"{mark:4} {title}: {counts[0]} passed, {counts[1]} failed, "
                 f"{counts[2]} skipped{retried} ({outcome.seconds:.1f} s, CPU {outcome.cpu:.1f} s)")
        for result in outcome.results:
            if result.status == "skip":
                self.say(f"     skip {result.name}: {result.reason}")
        if not outcome.failed:
            return
        for result in outcome.results:
            if result.status == "not ok":
                self.say(f"     FAIL {result.name}")
        for problem in outcome.problems:
            self.say(f"     FAIL {problem}")
        if not self.verbose:
            self.tail(outcome.log)
        for line in outcome.shown[:120]:
            self.say(f"     | {line}")
        self.say(f"     (all of it: {outcome.log})")

    def tail(self, path, lines=20, messages=10):
        """Show what the job's tests that failed printed, the end of its output, and the last of the kernels'
        messages."""
        with open(path, errors="replace") as log:
            output, _, rest = log.read().partition("\n--- seconds, from the")
        failed, tail, notes = [], [], []
        for line in output.splitlines():
            if line.startswith("#"):
                notes.append(line)
                continue
            # The notes of a test that passed tell nothing.
            passed = line.startswith("ok ")
            tail += [line] if passed else [*notes, line]
            if line.startswith("not ok "):
                failed += [*notes, line]
            notes = []
        tail += notes
        shown = failed[-2 * lines:] + ["..."] + tail[-lines:]
        for kernel in rest.split("\n--- kernel messages of ")[1:]:
            head, *said = kernel.strip().splitlines()
            shown += [f"{head.split()[0]} says: {line}" for line in said[-messages:]]
        for line in shown:
            self.say(f"     | {line}")

    def extra(self, result):
        """Report a result that belongs to no job."""
        with self.lock:
            self.count(result)
            self.say(f"{MARK[result.status]:4} {result.name}")
            if result.status == "not ok":
                self.failures.append(result.name)
                for line in result.reason.splitlines()[:60]:
                    self.say(f"     | {line}")

    def summary(self):
        if self.failures:
            self.say("failed: " + "; ".join(self.failures))
        if self.stale:
            self.say("stale: " + ", ".join(sorted(self.stale)))
        # tools/ci/run adds these up.
        for title in self.unsteady:
            self.say(f"unsteady: {title}")
        if self.retries:
            self.say(f"retried: {told(self.retries)}")
        self.say(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
