# SPDX-License-Identifier: GPL-2.0
"""Run rdma-core's own tests (tests/MODULE.py) on a device and judge them.

The file EXPECTED has a line for each test: its name, "pass", "skip" or "fail", and the reason for
the latter two. A test without a line must pass. A line "because REASON | PATTERN" has a pattern for
the exception or the output of a test that skips or fails for that reason. Prints KTAP: a line for
each test that passes, and for each that has an unexpected result or reason; the others are counted
by their reasons.

Does the same as rdma-core's run_tests.py --dev DEVICE --gid GID, but with a time limit for each test,
and without loading the tests of other hardware, which takes longer than running ours. Without a GID
index nearly all tests would be skipped, as they look for the GIDs of a RoCE device.
"""

import argparse
import collections
import faulthandler
import multiprocessing.context
import os
import random
import re
import signal
import sys
import types
import unittest

TESTS = "/usr/share/rdma-core-tests/tests"

# Tests choose a QP's attributes at random, and the provider's ibv_create_qp_ex supports only some
# choices. So such a test runs again until it can, with fixed seeds.
DRAWS = 10
DRAWN = tuple(f"{kind} QP {attrs} extended attrs is not supported" for kind in ("RC", "UC")
              for attrs in ("with", "without"))


class TooLong(Exception):
    pass


def too_long(*_):
    raise TooLong("does not end")


class Result(unittest.TestResult):
    """Keeps the outcome of the last test, and ends it if it takes too long."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds
        self.outcome = None

    def startTest(self, test):
        super().startTest(test)
        self.outcome = None
        signal.alarm(self.seconds)
        # For a test that hangs where no signal gets through: the process ends, without the plan.
        faulthandler.dump_traceback_later(self.seconds + 5, exit=True)

    def stopTest(self, test):
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
        super().stopTest(test)

    def addSuccess(self, test):
        self.outcome = self.outcome or ("pass", "")

    def addSkip(self, test, reason):
        self.outcome = ("skip", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.outcome = ("fail", f"{err[0].__name__}: {err[1]}")

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err:
            self.addFailure(test, err)


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def wait_less(seconds):
    """Limits the time at the barriers of tests with two processes. The processes of
    test_rdmacm_async_write have different numbers of barriers, and wait 15 s twice at the end."""
    context = multiprocessing.context.BaseContext
    barrier = context.Barrier

    def shorter(self, parties, action=None, timeout=None):
        return barrier(self, parties, action, min(timeout or seconds, seconds))

    context.Barrier = shorter


def load(folder, modules, device, gid):
    """The tests of the modules, without their __init__, which imports all."""
    sys.path.insert(0, folder)
    from args_parser import parser
    sys.argv[1:] = ["--dev", device, "--gid", str(gid)]
    parser.parse_args()
    package = types.ModuleType("tests")
    package.__path__ = [folder]
    sys.modules["tests"] = package
    return {test.id().removeprefix("tests."): test for module in modules
            for test in flat(unittest.defaultTestLoader.loadTestsFromName("tests." + module))}


def run(test, result, traces):
    """(outcome, the exception, what was printed)"""
    sys.stdout.flush()
    before = os.path.getsize(traces)
    for draw in range(DRAWS):
        random.seed(f"{test.id()} {draw}")
        test.run(result)
        outcome, why = result.outcome
        if not (outcome == "skip" and why.endswith(DRAWN)):
            break
    sys.stdout.flush()
    with open(traces, errors="replace") as printed:
        printed.seek(before)
        said = printed.read()
    return outcome, " ".join(str(why).split()), " ".join(said.split())


def read_table(path):
    table, because = {}, {}
    with open(path) as lines:
        for line in lines:
            words = line.split(maxsplit=2)
            if line.startswith("because "):
                reason, _, pattern = line.removeprefix("because ").partition(" | ")
                because[reason] = re.compile(pattern.strip())
            elif words and not line.startswith("#"):
                table[words[0]] = (words[1], words[2].strip() if len(words) > 2 else "")
    return table, because


class Ktap:
    def __init__(self, plan):
        self.count = self.failed = 0
        self.say("KTAP version 1")
        self.say(f"1..{plan}")

    @staticmethod
    def say(text):
        print(text, file=REPORT, flush=True)

    def test(self, good, name, note=""):
        self.count += 1
        self.failed += not good
        self.say(f"{'ok' if good else 'not ok'} {self.count} - {name}")
        if note:
            self.say("# " + note)

    def skip(self, name, reason):
        self.count += 1
        self.say(f"ok {self.count} - {name} # SKIP {reason}")


# Tests and their children print, too. Their output is not part of the report.
REPORT = os.fdopen(os.dup(1), "w")


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--device", required=True)
    args.add_argument("--gid", type=int, default=0)
    args.add_argument("--tests", default=TESTS)
    args.add_argument("--expected", required=True)
    args.add_argument("--least", type=int, required=True)
    args.add_argument("--limit", type=int, required=True)
    args.add_argument("--traces", required=True)
    args.add_argument("modules", nargs="+")
    args = args.parse_args()
    os.dup2(os.open(args.traces, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 1)
    os.dup2(1, 2)

    table, because = read_table(args.expected)
    wait_less(args.limit / 5)
    tests = load(args.tests, args.modules, args.device, args.gid)

    missing = [name for name in table if name not in tests]
    must = [name for name in tests if table.get(name, ("pass",))[0] == "pass"]
    reasons = {reason for name, (_, reason) in table.items() if name in tests and reason}
    # Other tests get a line only if they do not end as expected, which breaks the plan.
    ktap = Ktap(len(must) + len(missing) + len(reasons) + 1)
    signal.signal(signal.SIGALRM, too_long)
    result, passed, as_expected = Result(args.limit), 0, collections.Counter()
    for name, test in tests.items():
        want, reason = table.get(name, ("pass", ""))
        outcome, why, said = run(test, result, args.traces)
        passed += outcome == "pass"
        if want == "pass":
            ktap.test(outcome == "pass", name, why and f"{outcome}: {why}")
        elif outcome == want and not because[reason].search(f"{why} {said}"):
            ktap.test(False, name, f"{outcome}, but not because of: {reason}; {why} {said}"[:1000])
        elif outcome == want:
            as_expected[reason] += 1
        elif outcome == "pass":
            ktap.say(f"# STALE {name}: passes, though expected to {want}: {reason}")
            as_expected[reason] += 1
        else:
            ktap.test(False, name, f"{outcome}, expected to {want}: {why}")
    for name in missing:
        ktap.test(False, name, "is in the table, but no test")
    for reason, count in as_expected.items():
        ktap.skip(f"{count} tests", reason)
    ktap.test(passed >= args.least, f"at least {args.least} tests of pyverbs pass", f"{passed} passed")
    for _, trace in result.failures:
        print(trace)
    sys.stdout.flush()
    # Without atexit, which would wait for children that hang.
    os._exit(1 if ktap.failed else 0)


main()
