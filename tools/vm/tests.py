# SPDX-License-Identifier: GPL-2.0
"""Tests of the runner's verdicts, without guests: python3 -B tools/vm/tests.py"""

import glob
import importlib.util
import itertools
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import dmesg                                            # noqa: E402
import ktap                                             # noqa: E402
from agent import Channel, GuestDied                    # noqa: E402
from arch import ARCHES                                 # noqa: E402
from guest import Guest as RealGuest                    # noqa: E402
from jobs import Job, find_jobs, read_job, read_skips   # noqa: E402
from kernels import Kernel                              # noqa: E402
from report import Report                               # noqa: E402
from session import Outcome, Session                    # noqa: E402

spec = importlib.util.spec_from_file_location("runner", f"{HERE}/__main__.py")
runner = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runner)

GOOD = "KTAP version 1\n1..1\nok 1 - a test\n"
SIW_OOPS = ["BUG: kernel NULL pointer dereference", "RIP: 0010:siw_qp_rx+0x1/0x9 [siw]"]


class Guest:
    """A host that replays given runs of a job: the kernel's messages, the result of the reset, or a crash."""

    def __init__(self, side, runs, config):
        self.side, self.runs, self.config, self.cpus, self.virtual = side, runs, config, 1, False
        self.boots = []             # the number of processors and the time at each boot
        self.channel = self
        self.env = self.peer = None
        self.release = "test"
        self.alive = False
        self.now = {}

    def boot(self):
        self.alive = True
        self.boots.append((self.cpus, self.virtual))

    def wait_up(self, _timeout):
        return []

    def kill(self):
        self.alive = False

    def cpu_seconds(self):
        return 0

    kind = "test"

    def begin_output(self, name):
        self.outputs = [*getattr(self, "outputs", []), name]

    def end_output(self, name):
        assert self.outputs[-1] == name

    def ending(self):
        return "crashed"

    def console_tail(self, lines=40):
        return self.now.get("console", [])[-lines:]

    # The channel.
    def kill_group(self, _group):
        self.now = self.runs.pop(0) if self.runs else {}
        if "console" in self.now:
            self.alive = False
            raise GuestDied("the guest died")

    def run(self, _argv, **_):
        return self.now.get("reset", (0, ""))

    def kmsg(self):
        return self.now.get("kernel", [])


class ASession(Session):
    def __init__(self, config, a, b, count=2):
        super().__init__(config, types.SimpleNamespace(name="tap"), "", count,
                         lambda side, *_: Guest(side, a if side == "a" else b, config))

    def execute(self, job, output, echo, outcome):
        output += self.config.said.encode()


class Judged(unittest.TestCase):
    def run_job(self, a=(), b=(), pair=("rsiw", "siw"), said=GOOD, job=None):
        """The outcome of a job; a and b tell what host A and host B do in each run of it."""
        with tempfile.TemporaryDirectory() as out:
            config = types.SimpleNamespace(slow=1, out=out, logs=out, kvm=False, usual_boot=12, kernel="stock",
                                           virtual=True, source="", job_env={}, boot_timeout=1, said=said,
                                           skips=read_skips(f"{HERE}/../../tests/vm"))
            session = ASession(config, list(a), list(b))
            with mock.patch("builtins.print"):
                return runner.run_job(session, job or Job("suite", "job"), pair, lambda _: None)

    def test_good_job_passes(self):
        self.assertFalse(self.run_job().failed)

    def test_crash_of_siw_is_excused_and_counted(self):
        outcome = self.run_job(b=[{"console": SIW_OOPS}, {}])
        self.assertFalse(outcome.failed, outcome.problems)
        self.assertEqual(outcome.retries, ["siw-crash"])

    def test_crash_elsewhere_on_siws_host_is_not_excused(self):
        outcome = self.run_job(b=[{"console": ["RIP: 0010:tcp_ack+0x1/0x9"]}, {}])
        self.assertEqual(outcome.problems, ["hostb crashed"])
        self.assertEqual(outcome.retries, [])

    def test_crash_of_rsiws_host_is_not_excused(self):
        outcome = self.run_job(a=[{"console": ["RIP: 0010:rsiw_rx [rsiw]"]}])
        self.assertEqual(outcome.problems, ["hosta crashed"])

    def test_report_on_rsiws_host_counts_though_siws_host_died(self):
        outcome = self.run_job(a=[{"kernel": ["[ 1.0] BUG: KASAN: use-after-free in rsiw"]}, {}],
                               b=[{"console": SIW_OOPS}, {}])
        self.assertTrue(outcome.failed)
        self.assertIn("KASAN", "".join(outcome.problems))
        self.assertIn("KASAN", "".join(outcome.shown))

    def test_crash_of_rsiws_host_counts_though_siws_host_died(self):
        outcome = self.run_job(a=[{"console": ["RIP: rsiw_rx [rsiw]"]}, {}], b=[{"console": SIW_OOPS}, {}])
        self.assertIn("hosta crashed", "".join(outcome.problems))

    def test_driver_that_does_not_unload_counts_though_siws_host_died(self):
        outcome = self.run_job(a=[{"reset": (1, "rsiw does not unload")}, {}], b=[{"console": SIW_OOPS}, {}])
        self.assertIn("does not unload", "".join(outcome.problems))

    def test_job_fails_if_siws_host_dies_each_time(self):
        outcome = self.run_job(b=[{"console": SIW_OOPS}] * runner.TRIES)
        self.assertTrue(outcome.failed)
        self.assertEqual(len(outcome.retries), runner.TRIES - 1)

    def test_retries_are_in_the_summary(self):
        said = "KTAP version 1\n1..1\n# RETRY siw-crc: 1 error\n# RETRY siw-crc: 1 error\n" \
               "# STALE read-key: passes\nok 1 - a test\n"
        report, lines = Report(False), []
        with mock.patch.object(Report, "say", lines.append):
            report.end(self.run_job(b=[{"console": SIW_OOPS}, {}], said=said))
            report.summary()
        self.assertIn("retried 5 (siw-crash 1, siw-crc 4)", lines[0])
        self.assertEqual(lines[-3:], ["stale: read-key", "retried: 5 (siw-crash 1, siw-crc 4)",
                                      "1 passed, 0 failed, 0 skipped"])

    def test_known_skip_passes(self):
        said = "KTAP version 1\n1..1\nok 1 - a # SKIP known: siw cannot\n"
        self.assertFalse(self.run_job(said=said, job=Job("verbs", "hosts")).failed)

    def test_unknown_skip_fails(self):
        said = "KTAP version 1\n1..1\nok 1 - a # SKIP no such program\n"
        self.assertTrue(self.run_job(said=said).failed)
        self.assertTrue(self.run_job(said="KTAP version 1\n1..0 # SKIP no kverbs.ko\n").failed)

    def test_lost_results_fail(self):
        self.assertTrue(self.run_job(said="KTAP version 1\n1..2\nok 1 - a test\n").failed)


class Again(unittest.TestCase):
    """Jobs that fail, and run once more."""

    def run_plan(self, outcomes):
        """The report of a run in which these outcomes come one after the other."""
        args = types.SimpleNamespace(again=True, link="tap", virtual=True)
        job, report, outcomes = Job("suite", "job", guests=1), Report(False), list(outcomes)
        session = types.SimpleNamespace(leaks=list, close=lambda: None)
        lines = []
        with tempfile.TemporaryDirectory() as rundir, mock.patch.object(runner, "make_link"), \
                mock.patch.object(runner, "Session", lambda *_: session), \
                mock.patch.object(runner, "run_job", lambda *_: outcomes.pop(0)), \
                mock.patch.object(Report, "say", lines.append), mock.patch.object(Report, "tail"):
            runner.run_session(args, rundir, report, 0, runner.deque([(job, ("rsiw",))]), 1)
            runner.run_again(args, rundir, report)
            report.summary()
        self.assertEqual(outcomes, [])
        return report, lines

    @staticmethod
    def outcome(status, **more):
        return Outcome(Job("suite", "job", guests=1), ("rsiw",), [ktap.Result("a test", status)], **more)

    def test_job_that_passes_alone_is_unsteady(self):
        report, lines = self.run_plan([self.outcome("not ok"), self.outcome("ok")])
        self.assertEqual((report.passed, report.failed), (1, 0))
        self.assertEqual(lines[-2:], ["unsteady: suite/job [rsiw]", "1 passed, 0 failed, 0 skipped"])

    def test_job_that_fails_twice_has_failed_once(self):
        report, lines = self.run_plan([self.outcome("not ok"), self.outcome("not ok")])
        self.assertEqual((report.passed, report.failed, report.unsteady), (0, 1, []))
        self.assertEqual(lines[-2], "failed: suite/job [rsiw]")

    def test_job_that_passes_runs_once(self):
        self.assertEqual(self.run_plan([self.outcome("ok")])[0].passed, 1)

    def test_report_of_the_kernel_or_wrong_data_fail_at_once(self):
        for more in {"reports": ["KASAN"]}, {"wrong": ["7 bytes wrong"]}:
            self.assertEqual(self.run_plan([self.outcome("not ok", **more)])[0].failed, 1)


class Steady(unittest.TestCase):
    """Runs that tell how often a job passes on a busy machine."""

    def steady(self, run_tests):
        """What it says, and the processes that computed meanwhile."""
        lines, processes = [], []

        def compute(*_):
            processes.append(mock.Mock())
            return processes[-1]

        with mock.patch.object(runner.subprocess, "Popen", compute), mock.patch.object(Report, "say", lines.append), \
                mock.patch.object(Report, "tail"), mock.patch.object(runner, "run_tests", run_tests):
            try:
                status = runner.steady(types.SimpleNamespace(verbose=False), "")
            except SystemExit:
                status = None
        self.assertEqual(len(processes), 2)
        for process in processes:
            process.kill.assert_called_once_with()
        return status, lines

    def test_tells_how_often_each_job_passed(self):
        def run_tests(_args, _rundir, report):
            for status in "ok", "not ok", "ok":
                report.end(Again.outcome(status))
            return 1

        status, lines = self.steady(run_tests)
        self.assertEqual((status, lines[-1]), (1, "steady: suite/job [rsiw] passed 2 of 3"))

    def test_nothing_computes_after_a_run_that_breaks_off(self):
        def run_tests(*_):
            raise SystemExit("vm: no job fits")

        self.assertEqual(self.steady(run_tests), (None, []))


class KernelLog(unittest.TestCase):
    def test_unregister_netdevice_that_waits_is_a_splat(self):
        self.assertTrue(dmesg.splats(
            ["[ 1.0] unregister_netdevice: waiting for eth0 to become free. Usage count = 2"]))

    def test_usual_messages_are_no_splats(self):
        self.assertFalse(dmesg.splats(["[ 1.0] rsiw: loading out-of-tree module taints kernel.",
                                       "[ 1.0] eth0: link up"]))

    def test_dropped_messages_are_a_splat(self):
        self.assertTrue(dmesg.splats(["** 12 printk messages dropped **"]))

    def test_gap_in_the_record_numbers_is_a_splat(self):
        channel = Channel("")
        self.assertFalse(dmesg.splats(channel.records("6,10,1000,-;one\n SUBSYSTEM=net\n6,11,1000,-;two\n")))
        self.assertTrue(dmesg.splats(channel.records("6,14,2000,-;three\n")))
        self.assertFalse(dmesg.splats(channel.records("6,15,2000,-;four\n")))

    def test_overrun_that_the_agent_reports_is_a_splat(self):
        with open(f"{HERE}/../../tests/vm/guest/agent.py") as agent:
            line = next(line for line in agent if "it overran" in line)
        self.assertTrue(dmesg.splats(Channel("").records(line.split('"')[1])))


class Results(unittest.TestCase):
    def test_marks_are_found_in_notes_only(self):
        text = "# RETRY a-b: why\nRETRY c: no note\n# # RETRY d: nested\n# said RETRY e\n"
        self.assertEqual(ktap.marks(text, "RETRY"), ["a-b", "d"])

    def test_second_run_takes_over_rsiws_problems_only(self):
        first, second = (Outcome(Job("s", "j"), ("rsiw", "siw")) for _ in range(2))
        first.problem("a", "one"), first.problem("b", "siw's"), second.problem("a", "two")
        second.take_over(first)
        self.assertEqual(second.problems, ["two", "before it was run again: one"])

    def test_wrong_data_before_a_crash_count(self):
        text = GOOD + "not ok 2 - writes\n# writes: 7 bytes wrong at 0x10\n# writes: no connection event\n"
        first, second = (Outcome(Job("s", "j"), ("rsiw", "siw")) for _ in range(2))
        first.wrong = ktap.wrong_data(text)
        second.take_over(first)
        self.assertEqual(second.problems, ["before it was run again: writes: 7 bytes wrong at 0x10"])


class Kinds(unittest.TestCase):
    """Guests of several kinds: with another number of processors, or on virtual time."""

    def session(self, jobs, count, virtual=True, slow_boot=False, pair=("rsiw", "rsiw")):
        """A session that has run the jobs."""
        with tempfile.TemporaryDirectory() as out:
            config = types.SimpleNamespace(slow=1, out=out, logs=out, kvm=False, kernel="stock", source="", job_env={},
                                           usual_boot=1e-9 if slow_boot else 12, boot_timeout=1, said=GOOD, skips=[],
                                           virtual=virtual)
            session = ASession(config, [], [], count)
            with mock.patch("builtins.print"):
                for job in jobs:
                    session.run(job, pair, lambda _: None)
        return session

    def boots(self, jobs, count, virtual=True):
        guests = self.session(jobs, count, virtual).guests.values()
        self.assertEqual(len({tuple(guest.boots) for guest in guests}), 1)
        return next(iter(guests)).boots

    def test_guests_reboot_for_another_number_of_processors(self):
        jobs = [Job("suite", "job", cpus=cpus) for cpus in (0, 0, 4, 4, 0)]
        self.assertEqual(self.boots(jobs, 2), [(1, False), (4, False), (1, False)])

    def test_guest_reboots_for_virtual_time_with_one_processor(self):
        jobs = [Job("suite", "job", guests=1, time=time) for time in ("real", "virtual", "virtual", "real")]
        self.assertEqual(self.boots(jobs, 1), [(2, False), (1, True), (2, False)])

    def test_kernel_without_virtual_time_runs_the_job_in_real_time(self):
        jobs = [Job("suite", "job", guests=1, time=time) for time in ("real", "virtual")]
        self.assertEqual(self.boots(jobs, 1, virtual=False), [(2, False)])

    def test_busy_machine_does_not_extend_virtual_time_limits(self):
        for time, slow in ("real", 4), ("virtual", 1):
            session = self.session([Job("suite", "job", guests=1, time=time)], 1, slow_boot=True)
            self.assertEqual(session.slow, 4)
            self.assertEqual(session.guests["a"].env["RSIW_SLOW"], str(slow))

    def test_two_hosts_on_virtual_time_are_namespaces_of_one_guest(self):
        job = Job("suite", "job", time="virtual")
        for pair, virtual, guests in (("rsiw", "rsiw"), True, 1), (("rsiw", "rsiw"), False, 2), (("rsiw", "siw"), True, 2):
            args = types.SimpleNamespace(pairs=[pair], interop=False, repeat=1, kernel="stock", virtual=virtual)
            self.assertEqual(runner.make_plan(args, [job], guests), [(job, pair)])
            self.assertEqual(runner.make_plan(args, [job], 3 - guests), [])
            env = self.session([job], guests, virtual, pair=pair).guests["a"].env
            self.assertEqual((env["RSIW_GUESTS"], env["RSIW_NETNS"]), ("2", "yes" if guests == 1 else ""))

    def test_peers_of_another_driver_have_guests_of_their_own(self):
        job = Job("suite", "job", time="virtual", interop=True)
        args = types.SimpleNamespace(pairs=[("rsiw", "rsiw")], interop=True, repeat=1, kernel="stock", virtual=True)
        self.assertEqual([pair for _, pair in runner.make_plan(args, [job], 1)], [("rsiw", "rsiw")])
        self.assertEqual([pair for _, pair in runner.make_plan(args, [job], 2)], [("rsiw", "siw"), ("siw", "rsiw")])

    def test_plan_has_each_kind_once(self):
        jobs = [Job("s", f"j{n}", guests=1, cpus=cpus, time=time)
                for n, (cpus, time) in enumerate(2 * [(0, "virtual"), (4, "real"), (0, "real")])]
        args = types.SimpleNamespace(pairs=[("rsiw", "rsiw")], interop=False, repeat=2, kernel="stock", virtual=True)
        kinds = [(job.cpus, job.time) for job, _ in runner.make_plan(args, jobs, 1)]
        self.assertEqual(len(list(itertools.groupby(kinds))), 3)

    def test_without_names_the_plan_has_every_job_of_this_tree(self):
        top = os.path.dirname(os.path.dirname(HERE)) + "/tests/vm"
        jobs = sorted(f"{job.suite}/{job.name}" for job in find_jobs(top, []))
        scripts = sorted(os.path.relpath(path, top)[:-3] for path in glob.glob(f"{top}/*/*.sh"))
        self.assertEqual(jobs, [name for name in scripts if not name.startswith(("demo/", "perf/"))])

    def test_virtual_time_needs_one_processor(self):
        for heads, good in ("# guests: 1\n", True), ("", True), ("# guests: 1\n# cpus: 4\n", False):
            with tempfile.TemporaryDirectory() as top:
                os.mkdir(f"{top}/s")
                with open(f"{top}/s/j.sh", "w") as script:
                    script.write(f"#!/bin/bash\n{heads}# time: virtual\n\nplan 1\n")
                if good:
                    self.assertTrue(read_job(top, "s", "j").virtual)
                else:
                    self.assertRaises(SystemExit, read_job, top, "s", "j")


class Commands(unittest.TestCase):
    """QEMU's command line."""

    def words(self, virtual, kvm=False):
        with tempfile.TemporaryDirectory() as top:
            for name in "vmlinuz", "initrd", "modules.ext4", "disk", "shares":
                with open(f"{top}/{name}", "w") as file:
                    file.write("x")
            kernel = Kernel("stock", ARCHES["amd64"], top, f"{top}/disk", top, kvm, "max", "", 2_000_000,
                            f"{top}/shares")
            config = types.SimpleNamespace(kernels=[kernel] * 2, logs=top, memory="2G", insns=False, top=top,
                                           qemu_args=[], tests=top, out=top)
            guest = RealGuest("a", config, types.SimpleNamespace(arguments=lambda _: []), top)
            guest.virtual = virtual
            words = guest.command("none")
            sizes = {os.path.getsize(f"{top}/{name}") for name in ("disk", "shares")}
        return " ".join(words), sizes

    def test_real_time(self):
        words, sizes = self.words(False)
        self.assertIn("tsc_early_khz=2000000", words)
        self.assertIn("mount_tag=tests", words)
        self.assertNotIn("icount", words)
        self.assertEqual(sizes, {1})

    def test_virtual_time_is_emulated_and_has_all_files_in_memory(self):
        for kvm in False, True:
            words, sizes = self.words(True, kvm)
            self.assertIn("-accel tcg,thread=single -icount", words)
            self.assertIn("tsc_early_khz=1000000", words)
            for device in "kvm", "virtfs", "-drive":
                self.assertNotIn(device, words)
            self.assertEqual(words.count("virtio-pmem-pci"), 3)
            self.assertIn("rsiw.shares=/dev/pmem2", words)
            self.assertEqual(sizes, {2 << 20})


class Boots(unittest.TestCase):
    """Guests that do not come up."""

    def up(self, failures):
        """The number of boots of a guest that dies in so many of them."""
        guest = Guest("a", [], None)
        ends = [GuestDied("hosta crashed, before it was up")] * failures
        guest.wait_up = lambda _timeout: ends and self.die(ends.pop()) or []
        session = types.SimpleNamespace(config=types.SimpleNamespace(boot_timeout=1))
        guest.boot()
        try:
            with mock.patch("builtins.print"):
                Session.up(session, guest)
        except GuestDied:
            return None
        return len(guest.boots)

    @staticmethod
    def die(error):
        raise error

    def test_guest_boots_once_more(self):
        self.assertEqual([self.up(failures) for failures in (0, 1, 2)], [1, 2, None])


class Lanes(unittest.TestCase):
    def lanes(self, processors, memory_mib, counts=(1, 1, 1, 2, 2, 2)):
        jobs = [Job("s", f"j{n}", guests=count) for n, count in enumerate(counts)]
        args = types.SimpleNamespace(together=True, lanes=None, memory="2G", pairs=[("rsiw", "rsiw")],
                                     interop=False, repeat=1, kernel="stock", virtual=True)
        meminfo = mock.mock_open(read_data=f"MemAvailable: {memory_mib * 1024} kB\n")
        with mock.patch("os.sched_getaffinity", return_value=range(processors)), \
                mock.patch("builtins.open", meminfo):
            return jobs, runner.make_lanes(args, jobs)

    def played(self, jobs, lanes):
        """Asserts that the lanes run all jobs, whichever lane comes first."""
        for order in lanes, lanes[::-1]:
            done = [entry[0].name for lane in order for plan, _, least in lane if len(plan) > least
                    for entry in list(plan)]
            self.assertEqual(set(done), {job.name for job in jobs})

    def test_two_processors_give_two_lanes(self):
        jobs, lanes = self.lanes(2, 32000)
        self.assertEqual(len(lanes), 2)
        self.played(jobs, lanes)

    def test_eight_processors_give_eight_lanes(self):
        jobs, lanes = self.lanes(8, 64000)
        self.assertEqual(len(lanes), 8)
        self.played(jobs, lanes)

    def test_memory_bounds_the_lanes(self):
        self.assertEqual(len(self.lanes(8, 16500)[1]), 4)

    def test_few_jobs_all_run(self):
        for counts in (), (1,), (2,), (1, 2):
            jobs, lanes = self.lanes(4, 64000, counts)
            self.played(jobs, lanes)


if __name__ == "__main__":
    unittest.main()
