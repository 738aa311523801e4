# SPDX-License-Identifier: GPL-2.0
"""A session: guests that are booted once and run one job after the other.

After each job the session kills the job's processes, unloads the drivers and
restores the addresses. A guest that crashed, hangs, reported a kernel problem
or cannot be cleaned is booted again before the next job.
"""

import itertools
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import dmesg
import ktap
from agent import GuestDied
from guest import Guest
from jobs import may_skip
from ktap import Result


@dataclass
class Outcome:
    """The outcome of one job with one pair of drivers."""
    job: object
    pair: tuple
    results: list = field(default_factory=list)
    problems: list = field(default_factory=list)    # beyond its own results
    seconds: float = 0
    cpu: float = 0                                  # seconds of the guests
    log: str = ""
    shown: list = field(default_factory=list)       # to print on failure
    times: list = field(default_factory=list)       # (seconds since the job's start, result line)
    siw_died: bool = False                          # siw crashed its own host: see siw_crashed()
    reports: list = field(default_factory=list)     # the problems of rsiw's hosts among them
    retries: list = field(default_factory=list)     # for each retry the known fault that excuses it
    stale: list = field(default_factory=list)       # entries out of date in lists of known faults
    wrong: list = field(default_factory=list)       # tests' notes about wrong data

    @property
    def failed(self):
        return bool(self.problems) or any(r.status == "not ok" for r in self.results)

    @property
    def may_run_again(self):
        """Whether it failed in a way that a busy machine explains. A report of rsiw's host (of its kernel, a crash,
        a driver that does not unload) and wrong data are faults, however seldom they come."""
        return self.failed and not self.reports and not self.wrong

    def problem(self, side, text):
        """Adds a problem of the job as a whole, and of rsiw if that host does not run siw."""
        self.problems.append(text)
        if self.pair[0 if side == "a" else -1] != "siw":
            self.reports.append(text)

    def take_over(self, earlier):
        """Adds the outcome of an earlier run of the job, which siw's crash ended. Problems of rsiw's host
        still fail the job, and so do wrong data, which no crash excuses."""
        self.retries[:0] = earlier.retries
        self.stale[:0] = earlier.stale
        self.wrong += earlier.wrong
        for text in earlier.reports + earlier.wrong:
            self.reports.append(text)
            self.problems.append(f"before it was run again: {text}")
        if earlier.reports or earlier.wrong:
            self.shown += [f"--- before it was run again ({earlier.log}) ---", *earlier.shown]


def siw_crashed(console):
    """Whether a console shows a crash in siw: a stack trace with siw's functions, marked [siw]."""
    return any("[siw]" in line for line in console)


class Session:
    def __init__(self, config, link, rundir, count, make=Guest):
        self.config, self.count, self.link = config, count, link
        self.guests = {side: make(side, config, link, rundir) for side in "ab"[:count]}
        self.soiled = set("ab"[:count])     # sides to boot before the next job
        self.slow = config.slow             # factor of the time limits

    def fit_guests(self, job, pair):
        """Gives the guests the job's number of processors, and its time. Guests that had others boot before it."""
        for side, guest in self.guests.items():
            virtual = job.on_virtual_time(self.config, pair)
            cpus = job.cpus or (2 if self.count == 1 and not virtual else 1)
            if (guest.cpus, guest.virtual) != (cpus, virtual):
                guest.cpus, guest.virtual = cpus, virtual
                self.soiled.add(side)

    def boot(self):
        began = time.monotonic()
        fresh = [self.guests[side] for side in sorted(self.soiled)]
        for guest in fresh:
            guest.kill()
            guest.boot()
        for guest in fresh:
            for line in dmesg.splats(self.up(guest)):
                print(f"vm: host{guest.side}, at boot: {line}", flush=True)
        self.soiled.clear()
        for guest in self.guests.values():
            other = self.guests.get("b" if guest.side == "a" else "a")
            guest.channel.peer = other.channel if other else None
        took = time.monotonic() - began
        # A slow boot means a busy machine, so the time limits grow.
        busy = min(max(took / self.config.usual_boot, 1), 4)
        self.slow = max(self.slow, round(self.config.slow * busy, 1))
        names = " and ".join(f"host{guest.side}" for guest in fresh)
        print(f"vm: {names} up in {took:.1f} s "
              f"({fresh[0].channel.release}, {fresh[0].kind})",
              flush=True)

    def up(self, guest):
        """Waits until the guest is up, and returns the messages of its boot. QEMU now and then fails an assertion
        of its own, or executes what it should not while a kernel patches itself. Nothing of rsiw is loaded yet,
        so the boot is then tried once more."""
        try:
            return guest.wait_up(self.config.boot_timeout)
        except GuestDied as error:
            print(f"vm: {error}; once more", flush=True)
        guest.boot()
        return guest.wait_up(self.config.boot_timeout)

    def close(self):
        for guest in self.guests.values():
            guest.kill()

    def environment(self, job, pair, side, name):
        guest = self.guests[side]
        own, other = (pair[0], pair[-1]) if side == "a" else (pair[-1], pair[0])
        return {"RSIW_SIDE": side, "RSIW_DRIVER": own, "RSIW_DRIVER_PEER": other,
                "RSIW_GUESTS": str(job.guests), "RSIW_JOB": job.title,
                "RSIW_NETNS": "yes" if job.guests > self.count else "",
                "RSIW_KERNEL": self.config.kernel, "RSIW_LINK": self.link.name,
                "RSIW_OUT": f"/out/{name}", "RSIW_SOURCE": self.config.source,
                # A busy machine does not slow virtual time.
                "RSIW_SLOW": str(self.config.slow if guest.virtual else self.slow), **self.config.job_env}

    def new_name(self, job, pair):
        """A new name for the job's log and output directory."""
        base = f"{job.suite}-{job.name}-{'-'.join(pair)}"
        for again in itertools.count(1):
            name = base if again == 1 else f"{base}-{again}"
            try:
                os.makedirs(f"{self.config.out}/{name}")
                return name
            except FileExistsError:
                pass

    def run(self, job, pair, echo):
        """Run one job, and pass its output to echo() as it arrives."""
        outcome = Outcome(job, pair)
        name = self.new_name(job, pair)
        outcome.log = f"{self.config.logs}/{name}.log"
        began, cpu = time.monotonic(), 0
        output = bytearray()
        kernel = {side: [] for side in self.guests}
        try:
            self.fit_guests(job, pair)
            if self.soiled or not all(g.alive for g in self.guests.values()):
                self.soiled |= {s for s, g in self.guests.items() if not g.alive}
                self.boot()
            for side, guest in self.guests.items():
                guest.channel.env = self.environment(job, pair, side, name)
                guest.begin_output(name)
            began, cpu = time.monotonic(), self.cpu_seconds()
            self.execute(job, output, echo, outcome)
        except GuestDied as error:
            outcome.problems.append(str(error))
        text = output.decode(errors="replace")
        self.judge_output(text, outcome)
        outcome.problems += [f"{result.name} is skipped, which tests/vm/skips does not know: {result.reason}"
                             for result in outcome.results if result.status == "skip"
                             and not may_skip(self.config.skips, self.config.kernel, job.title, result.reason)]
        outcome.retries += ktap.marks(text, "RETRY")
        outcome.stale += ktap.marks(text, "STALE")
        outcome.wrong += ktap.wrong_data(text)
        for guest in self.guests.values():
            guest.end_output(name)
        with ThreadPoolExecutor() as hosts:
            list(hosts.map(lambda side: self.clean(self.guests[side], kernel[side], outcome),
                           self.guests))
        self.judge_kernel(job, kernel, outcome)
        outcome.seconds = time.monotonic() - began
        # Processor time of the guests that still run.
        outcome.cpu = max(0, self.cpu_seconds() - cpu)
        self.write_log(output, kernel, outcome)
        return outcome

    def cpu_seconds(self):
        return sum(guest.cpu_seconds() for guest in self.guests.values())

    def execute(self, job, output, echo, outcome):
        began = time.monotonic()

        def sink(data):
            output.extend(data)
            outcome.times += [(time.monotonic() - began, line) for line in
                              data.decode(errors="replace").splitlines()
                              if line.startswith(("ok ", "not ok "))]
            echo(data)

        limit = job.timeout * self.slow
        channel = self.guests["a"].channel
        capture = None
        if job.pcap or self.config.pcap:
            capture = channel.start(["/tests/guest/capture"], group="capture")
        shell = "/tests/guest/hosts" if job.guests > self.count else "/bin/bash"
        command = channel.start([shell, f"/tests/{job.path}"], sink=sink, group="job")
        status = command.wait(limit)
        if status is None:
            outcome.problems.append(f"time limit of {limit:.0f} s")
            for guest in self.guests.values():
                if not guest.responds():
                    guest.stacks()
        elif status not in (0, 1):
            outcome.problems.append(f"exit status {status}")
        elif status == 1:
            # A job exits so if a test has failed: judge_output() looks for that test.
            outcome.problems.append("exit status 1")
        if capture:
            channel.kill_group("capture")

    @staticmethod
    def judge_output(text, outcome):
        outcome.results, problem = ktap.parse(text)
        if problem and not outcome.problems:
            outcome.problems.append(problem)
        if any(r.status == "not ok" for r in outcome.results) and \
                outcome.problems == ["exit status 1"]:
            outcome.problems.clear()        # the failed test explains it

    def clean(self, guest, messages, outcome):
        """Kill the job's processes, reset the host, and collect the kernel's messages."""
        try:
            if not guest.alive:
                raise GuestDied("the guest died")
            guest.channel.kill_group("job")
            status, text = guest.channel.run(
                ["/tests/guest/reset", guest.side], timeout=90 * self.slow)
            messages += guest.channel.kmsg()
            if status != 0:
                reason = text.strip().splitlines()[-1:] or ["time limit"]
                outcome.problem(guest.side, f"host{guest.side} cannot be cleaned: {reason[0]}")
                self.soiled.add(guest.side)
        except GuestDied:
            self.soiled.add(guest.side)
            driver = outcome.pair[0 if guest.side == "a" else -1]
            outcome.problem(guest.side, f"host{guest.side} {guest.ending()}")
            guest.kill()
            if driver == "siw" and self.count == 2 and siw_crashed(guest.console_tail(400)):
                outcome.siw_died = True
            outcome.shown += [f"--- console of host{guest.side} ---", *guest.console_tail()]

    def judge_kernel(self, job, kernel, outcome):
        for side, lines in kernel.items():
            lines, known = dmesg.without_known(lines)
            if known:
                self.soiled.add(side)
            bad = dmesg.splats(lines)
            if job.allow:
                bad = [line for line in bad if not re.search(job.allow, line)]
            if bad:
                outcome.problem(side, f"host{side}: {bad[0].split('] ', 1)[-1]}")
                first = lines.index(bad[0])
                outcome.shown += [f"--- kernel of host{side} ---",
                                  *lines[max(0, first - 5):first + 40]]
                # Lockdep is off after its first report, and memory may be damaged.
                self.soiled.add(side)

    def write_log(self, output, kernel, outcome):
        with open(outcome.log, "wb") as log:
            log.write(output)
            for problem in outcome.problems:
                log.write(f"# {problem}\n".encode())
            log.write(b"\n--- seconds, from the result before to this one ---\n")
            ends = [0] + [end for end, _ in outcome.times]
            for before, (end, line) in zip(ends, outcome.times):
                log.write(f"{end - before:8.1f} {line}\n".encode())
            for side, lines in kernel.items():
                log.write(f"\n--- kernel messages of host{side} ---\n".encode())
                log.write("\n".join(lines).encode() + b"\n")
            if outcome.shown:
                log.write(b"\n" + "\n".join(outcome.shown).encode() + b"\n")

    def leaks(self):
        """Looks for leaked memory on hosts whose kernel has kmemleak (others exit with 77)."""
        found = []
        for side, guest in self.guests.items():
            if side in self.soiled or not guest.alive:
                continue
            try:
                status, text = guest.channel.run(["/tests/guest/leaks"], timeout=300)
            except GuestDied:
                status, text = 1, "the guest died while looking for leaks"
            if status == 77:
                continue
            found.append(Result(f"no memory leaked on host{side}",
                                "ok" if status == 0 else "not ok", text))
        return found
