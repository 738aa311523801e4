# SPDX-License-Identifier: GPL-2.0
"""Peers that break every rule of MPA, DDP and RDMAP, against the program victim.

    adversary.py DEVICE ADDRESS PORT [GROUP...]     all groups, if none is named
    adversary.py --list [GROUP...] [-- GROUP...]    the groups, and a line for each check of all; and those of
                                                    another run

Prints a line per group, "ok NAME, ..." or "not ok NAME, ...", and before it the cases that failed.
Environment: EXTENDED, set if the victim knows the messages of RFC 7306; CASES, the number of random
cases (with more than SHORT, the tables are longer, and all of their cases are played); MOST, of a
table at most so many cases; TIME, seconds after which no random case begins; SEED; ONLY, a part of
the names of the cases to be played; SPLICES, see spliced.py; RSIW_TLS, see peer.tls.
"""

import glob
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from peer import SLOW, Failed, check
from peer.messages import RESPONSE, SEND, WRITE, read_of, tagged, untagged
from peer.tls import DIRECTORY
from peer.victim import Attacker, Program, Victim

import cases
import extensions
import freed
import mutate
import setups
import spliced

SHORT = 400
CASES = int(os.environ.get("CASES") or SHORT)
TIME = float(os.environ.get("TIME") or "inf")
SEED = os.environ.get("SEED") or "1"         # a number
ONLY = os.environ.get("ONLY", "")
DEBUG = os.environ.get("RSIW_KERNEL") == "debug"
EVERYTHING = CASES > SHORT
# In the short form at most so many cases of a table are played; the seed chooses which.
MOST = int(os.environ.get("MOST") or (1 << 20 if EVERYTHING else 100 if DEBUG else 252))
# Cases at a time: a case mostly waits.
WORKERS = int(os.environ.get("WORKERS") or 3)
# After so many failures no more cases are played.
ENOUGH = 20


def random_cases(everything):
    for number in range(CASES):
        yield f"seed {SEED}, number {number}", \
            lambda victim, n=number: mutate.play(victim, SEED, n)


GROUPS = {**setups.GROUPS, **cases.GROUPS, **freed.GROUPS, **extensions.GROUPS, **spliced.GROUPS,
          "random": random_cases}


def chosen(name):
    """The cases of a group that are played, spread over its table, and all random ones. Of these there may be a
    million, so they are not made a list."""
    table = GROUPS[name](EVERYTHING)
    if name != "random":
        table = list(table)
        # So many successive seeds play each case once.
        step = max(1, -(-len(table) // MOST))
        table = table[int(SEED) % step::step]
    return (case for case in table if ONLY in case[0])


class Honest(Program):
    """A pair of programs (tests/vm/prog/honest.c) that keep the rules all the time."""

    def __init__(self, address, port):
        self.rounds, self.says = 0, ""
        super().__init__("honest", address, str(port))

    def line(self, line):
        if line.isdigit():
            self.rounds = int(line)
        else:
            self.says = line

    def last(self):
        return self.says

    def goes_on(self):
        before = self.rounds
        self.wait(lambda: self.rounds > before, "no more rounds", 20)


class Watch:
    """Counters and resources of the device and the kernel at one time, to be compared later."""

    def __init__(self, device):
        self.device, self.at = device, time.monotonic()
        self.counters, self.meminfo = {}, {}
        for path in glob.glob(f"/sys/class/infiniband/{device}/ports/1/hw_counters/*"):
            with open(path) as f:
                self.counters[os.path.basename(path)] = int(f.read())
        words = subprocess.run(["rdma", "resource", "show", device], capture_output=True,
                               text=True, check=True).stdout.split()
        self.resources = {k: int(v) for k, v in zip(words[2::2], words[3::2])}
        log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
        self.log = sum(device in line for line in log.splitlines())
        with open("/proc/meminfo") as f:
            for line in f:
                name, value = line.split()[:2]
                self.meminfo[name[:-1]] = int(value)
        with open("/proc/net/sockstat") as f:
            words = f.read().split()
        self.sockets = int(words[words.index("alloc") + 1])

    def grew(self, name, now):
        return now.counters[name] - self.counters[name]


class Adversary:
    def __init__(self, device, address, port):
        self.device = device
        self.victim = Victim(address, port)
        self.caller = self.victim.caller()
        self.honest = Honest(address, port + 1)
        self.count = self.freed = 0
        # What the kernel keeps of connections is there before memory is compared, which the debug kernel does not.
        for _ in range(3 if DEBUG else 20):
            self.good()
        self.honest.goes_on()
        self.before = self.settled(None)

    def good(self, victim=None):
        """The victim serves a connection that keeps the rules."""
        a = Attacker(victim or self.victim)
        t, data = a.told, b"what is written is there"
        a.send(tagged(WRITE, t.both.stag, t.both.at + 1, data),
               untagged(SEND, b"a Send"),
               read_of(t.both.stag, t.both.at + 1, len(data)))
        check(a.next() == tagged(RESPONSE, 0x100, 0x1000, data), "not what was written")
        a.lives(1)
        a.fin()
        check(a.next() == b"", "something behind the answer")
        a.over(1)

    def settled(self, before):
        """Waits until nothing of the cases is left, or for 20 s; returns the state of the device."""
        end = time.monotonic() + 20 * SLOW
        while True:
            now = Watch(self.device)
            if before is None or time.monotonic() > end or \
                    now.resources == before.resources and now.sockets <= before.sockets:
                return now
            time.sleep(0.5)

    def faults(self):
        with open(f"/sys/class/infiniband/{self.device}/ports/1/hw_counters/rx_faults") as counter:
            return int(counter.read())

    def roles(self, name, played):
        """Each case, with the victim in a role. In most groups the victim may be the responder or the
        initiator: both if everything is played, otherwise the one and the other in turn."""
        if name in setups.GROUPS:
            return ((case, play, self.victim) for case, play in played)
        both = self.victim, self.caller
        return ((f"{case}{', called' if victim.calls else ''}", play, victim)
                for i, (case, play) in enumerate(played)
                for victim in (both if EVERYTHING else (both[i % 2],)))

    def group(self, name):
        if name == "placement":
            # Faults of cases before may still be on their way.
            self.settled(self.before)
        began, failures, faults = time.monotonic(), [], self.faults()
        played = enumerate(self.roles(name, chosen(name)))
        end = began + (TIME if name == "random" else float("inf"))
        taking = Lock()

        def plays():
            count = 0
            while len(failures) < ENOUGH and self.victim.process.poll() is None and \
                    time.monotonic() < end:
                with taking:
                    taken = next(played, None)
                if not taken:
                    break
                i, (case, play, victim) = taken
                count += 1
                try:
                    play(victim)
                    if i % 50 == 0:
                        self.good(victim)
                    self.victim.lives()
                    self.honest.lives()
                except (Failed, OSError) as e:
                    failures.append(case)
                    print(f"# {name}: {case}: {e!r}"[:400], flush=True)
            return count

        with ThreadPoolExecutor(WORKERS) as pool:
            count = sum(worker.result() for worker in [pool.submit(plays) for _ in range(WORKERS)])
        self.count += count
        if name == "freed":
            self.freed = count
        # FPDUs with a wrong CRC count as CRC errors, and not as faults.
        if name == "placement" and self.faults() != faults:
            failures.append("counters")
            print(f"# {name}: {self.faults() - faults} faults beside the wrong CRCs")
        self.say(not failures, name, f"{count} cases, {time.monotonic() - began:.1f} s")

    def say(self, well, name, text):
        print(f"{'ok' if well else 'not ok'} {name}, {text}", flush=True)

    def checked(self, name, play):
        try:
            text = play() or "as it should be"
        except (Failed, subprocess.SubprocessError) as e:
            return self.say(False, name, str(e)[:300].replace("\n", " "))
        self.say(True, name, text)

    def all_told(self):
        odd = self.victim.odd
        check(not odd, f"the victim says: {' / '.join(odd[:5])}")

    def honest_goes_on(self):
        self.honest.goes_on()
        return f"{self.honest.rounds} rounds"

    def nothing_left(self):
        check(self.after.resources == self.before.resources,
              f"resources {self.after.resources}, before {self.before.resources}")
        check(self.after.sockets <= self.before.sockets,
              f"{self.after.sockets} TCP sockets, before {self.before.sockets}")
        return " ".join(f"{k} {v}" for k, v in self.after.resources.items())

    def counted(self):
        """At most one fault or CRC error per connection, and one Terminate per fault. A Write whose source the victim
        deregisters has one, too."""
        def grew(name):
            return self.before.grew(name, self.after)
        numbers = {name: grew(name) for name in ("connections", "rx_faults", "rx_crc_errors",
                                                 "tx_terminates", "rx_terminates", "cq_overflows")}
        for name, parts in (("rx_faults", ("access", "bounds", "no_buffer", "protocol")),
                            ("tx_terminates", ("rdmap", "ddp", "mpa")),
                            ("connections", ("initiated", "accepted"))):
            by_part = {part: grew(f"{name}_{part}") for part in parts}
            check(sum(by_part.values()) == numbers[name],
                  f"{name}: {numbers[name]}, by part {by_part}")
        faults = numbers["rx_faults"] + numbers["rx_crc_errors"]
        check(faults > self.count // 4, f"hardly any fault is counted: {numbers}")
        check(faults <= numbers["connections"], f"more faults than connections: {numbers}")
        check(numbers["tx_terminates"] <= faults + self.freed, f"too many Terminates: {numbers}")
        check(numbers["cq_overflows"] == 0, f"completions were lost: {numbers}")
        return ", ".join(f"{k} {v}" for k, v in numbers.items())

    def log_bounded(self):
        """The log has at most ten lines in five seconds of each of three kinds. TLS has two more."""
        lines, kinds = self.after.log - self.before.log, 5 if DIRECTORY else 3
        bound = kinds * 10 * ((self.after.at - self.before.at) / 5 + 2)
        check(lines <= bound, f"{lines} lines of the log, more than {bound:.0f}")
        return f"{lines} lines"

    def memory(self):
        """Compares available memory, without what this job's programs use, and unreclaimable slab."""
        now, before = self.after.meminfo, self.before.meminfo
        programs = now["AnonPages"] - before["AnonPages"]
        lost = before["MemAvailable"] - now["MemAvailable"] - programs
        slab = now["SUnreclaim"] - before["SUnreclaim"]
        text = f"{lost} kB less available, {slab} kB more slab, {programs} kB more for programs"
        # The debug kernel keeps freed memory in quarantine; there the runner looks for leaks.
        if not DEBUG:
            check(lost < 32768, text)
            check(slab < 4096, text)
        return text

    def run(self, groups):
        silence = setups.Silence(self.victim) if not groups or "silence" in groups else None
        for name in groups or GROUPS:
            if name != "silence":
                self.group(name)
        if silence:
            silence.end()
            for failure in silence.failures:
                print(f"# silence: {failure}")
            self.say(not silence.failures, "silence", f"{len(silence.CASES)} cases at once")
        self.checked("a good connection is served", self.good)
        self.checked("the honest connection goes on", self.honest_goes_on)
        self.checked("the victim finds its memory and queues intact", self.all_told)
        self.after = self.settled(self.before)
        self.checked("no object and no socket is left of the attacks", self.nothing_left)
        self.checked("the counters of faults agree with the attacks", self.counted)
        self.checked("the log of the attacks is bounded", self.log_bounded)
        self.checked("no memory is lost by the attacks", self.memory)
        self.checked("the victim ends without an error", self.victim.stop)
        self.honest.process.kill()


CHECKS = 9


def main():
    if sys.argv[1] == "--list":
        # The names of the groups, and a line for each check. "silence", all cases that take long, is one of them.
        for run in " ".join(sys.argv[2:]).split("--"):
            print("\n".join([*(run.split() or [*GROUPS, "silence"]), *["check"] * (CHECKS - 1)]))
        return
    device, address, port, *groups = sys.argv[1:]
    print(f"# seed {SEED}, at most {MOST} cases of a table")
    Adversary(device, address, int(port)).run(groups)


if __name__ == "__main__":
    main()
