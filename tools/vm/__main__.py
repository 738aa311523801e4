# SPDX-License-Identifier: GPL-2.0
"""Run test jobs in guests, or between machines that are reached by ssh; or open a shell in a guest.

Started by tools/vm-run, which makes everything needed first and runs this in
the build root with a network namespace of its own.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from guest import Guest                             # noqa: E402
from jobs import find_jobs, read_skips              # noqa: E402
from kernels import make_kernel, make_shares        # noqa: E402
from ktap import Result                             # noqa: E402
from link import make_link                          # noqa: E402
from machine import Address, Machine, NamedLink     # noqa: E402
from report import Report                           # noqa: E402
from session import Session                         # noqa: E402
from ssh_trial import trial                         # noqa: E402
from tsc import tsc_khz                             # noqa: E402


INTEROP = [("rsiw", "siw"), ("siw", "rsiw")]


def parse_args():
    parser = argparse.ArgumentParser(prog="vm-run", description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["test", "list", "shell", "machines", "trial"])
    parser.add_argument("names", nargs="*", help="suites or jobs (default: all)")
    parser.add_argument("--kernel", default="stock", metavar="A[,B]",
                        help="the kernel of the hosts, or host A's and host B's: stock, debug, kcsan or a "
                             "flavour (tools/flavour.sh has their names)")
    parser.add_argument("--build", metavar="NAME",
                        help="modules and programs are those of build/NAME (default: of the kernel)")
    parser.add_argument("--pair", action="append", metavar="A,B",
                        help="drivers of host A and host B (default: rsiw,rsiw); "
                             "again for another round of the same jobs")
    parser.add_argument("--interop", action="store_true",
                        help="jobs that say 'interop: yes' also with siw at either end")
    parser.add_argument("--link", choices=["auto", "tap", "socket"], default="auto")
    parser.add_argument("--accel", choices=["auto", "tcg", "kvm"], default="auto")
    parser.add_argument("--cpu", help="QEMU's CPU model, if it emulates; without this one, "
                        "and a command line, that cost less where it does not matter")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE",
                        help="set for the jobs, on both hosts")
    parser.add_argument("--machine", action="append", default=[], metavar="[USER@]HOST,INTERFACE",
                        help="machines: host A and host B, and the interface of each that is for the tests")
    parser.add_argument("--pcap", action="store_true", help="capture the link in every job")
    parser.add_argument("--memory", default="2G")
    parser.add_argument("--append", default="", help="more for the kernel command line")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--together", action="store_true",
                        help="several sessions at a time, as many as there are processors: jobs of one "
                             "guest beside those of two; and one more for those that only wait")
    parser.add_argument("--lanes", type=int, help="so many, in place of as many as processors")
    parser.add_argument("--factor", type=float, help="time limits are multiplied by this")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the jobs' output")
    parser.add_argument("--qemu-args", default="", help=argparse.SUPPRESS)
    # What vm-run has made.
    for name in ("top", "cache", "boot", "disk", "source"):
        parser.add_argument(f"--{name}", required=True, help=argparse.SUPPRESS)
    return parser.parse_args()


KEEP_RUNS = 40


def forget_old_runs(base):
    """Logs of the latest runs are enough; a name begins with its time."""
    runs = sorted(name for name in os.listdir(base) if name[:8].isdigit())
    for name in runs[:-KEEP_RUNS]:
        shutil.rmtree(f"{base}/{name}", ignore_errors=True)


def configure(args):
    args.tests = f"{args.top}/tests/vm"
    args.skips = read_skips(args.tests)
    base = f"{args.top}/build/logs"
    stamp = time.strftime("%Y%m%d-%H%M%S")
    forget_old_runs(base)
    args.logs = tempfile.mkdtemp(prefix=f"{stamp}-{args.kernel.replace(',', '-')}-", dir=base)
    os.chmod(args.logs, 0o755)
    args.out = f"{args.logs}/out"
    os.mkdir(args.out)
    # Renamed into place: another run may do the same right now.
    link = f"{args.logs}/latest"
    os.symlink(os.path.basename(args.logs), link)
    os.rename(link, f"{base}/latest")
    args.kernels = [make_kernel(args, *files, tsc_khz) for files in
                    zip(args.kernel.split(","), args.boot.split(","), args.disk.split(","), strict=True)]
    if len(args.kernels) > 2:
        raise SystemExit("vm: two hosts have two kernels at most")
    # Host B has host A's kernel unless it is given another.
    args.kernels = [args.kernels[0], args.kernels[-1]]
    args.build = args.kernels[0].build
    args.kernel = args.kernels[0].family
    own = any(kernel.family != "stock" for kernel in args.kernels)
    args.boot_timeout = 300 if own else 120
    args.usual_boot = 45 if own else 12         # seconds
    args.slow = args.factor or (4 if own else 1)
    args.qemu_args = args.qemu_args.split()
    args.machines = [Address.parse(text) for text in args.machine]
    args.ssh_options = []
    args.job_env = dict(pair.split("=", 1) for pair in args.env)
    args.pairs = [tuple(pair.split(",")) for pair in args.pair or ["rsiw,rsiw"]]
    return args


def make_plan(args, jobs, count, waits=None):
    """(job, pair) in the order to run, of the jobs with that many guests; only of those that wait, or
    that do not."""
    plan = []
    for pair in args.pairs + (INTEROP if args.interop else []):
        for job in jobs:
            wanted = pair in args.pairs or job.interop
            if job.guests != count or not wanted or not job.fits(pair, args.kernel):
                continue
            if waits not in (None, job.waits):
                continue
            # Of one guest only its own driver counts: no job twice with it.
            entry = (job, pair if count == 2 else pair[:1])
            if entry not in plan:
                plan.append(entry)
    # Guests boot anew where the number of processors changes: once for each number.
    return sorted(plan * args.repeat, key=lambda entry: entry[0].cpus)


def taken(plan):
    """What is left of a plan, which others take from as well."""
    while True:
        try:
            yield plan.popleft()
        except IndexError:
            return


TRIES = 4       # of a job whose host with siw dies of siw's own faults


def run_job(session, job, pair, echo):
    """siw, which is here to talk to only, brings its own host down now and then: once more then. What
    rsiw's host said meanwhile counts; and a job that cannot be run at all has failed."""
    outcome = session.run(job, pair, echo)
    for _ in range(TRIES - 1):
        if not outcome.siw_died:
            break
        print(f"vm: siw crashed its host in {job.title}; the job is run again (log: {outcome.log})",
              flush=True)
        outcome.retries.append("siw-crash")
        earlier, outcome = outcome, session.run(job, pair, echo)
        outcome.take_over(earlier)
    return outcome


def run_session(args, rundir, report, tag, plan, count):
    """Jobs with that many guests, taken from the plan, in one boot if nothing goes wrong."""
    rundir = f"{rundir}/{tag}"
    os.mkdir(rundir)
    if args.machines:
        session = Session(args, NamedLink, rundir, count, Machine)
    else:
        session = Session(args, make_link(args.link, rundir, tag), rundir, count)
    try:
        for job, pair in taken(plan):
            report.begin(job, pair)
            report.end(run_job(session, job, pair, report.echo))
        for result in session.leaks():
            report.extra(result)
    finally:
        session.close()


def memory_of(text):
    """QEMU's way to say it, in MiB."""
    units = {"M": 1, "G": 1024}
    return int(text.rstrip("MG")) * units.get(text[-1], 1)


def how_many(args):
    """Lanes: most jobs compute about as much as they wait, so one for each processor; more would only be
    slower. At least two, so that what has one guest need not wait for what has two; and no more than
    fit in memory with two guests each, the one for those that wait aside."""
    if args.lanes:
        return args.lanes
    with open("/proc/meminfo") as meminfo:
        available = next(int(line.split()[1]) // 1024 for line in meminfo
                         if line.startswith("MemAvailable"))
    room = available // (2 * memory_of(args.memory)) - 1
    return max(2, min(len(os.sched_getaffinity(0)), room))


def make_lanes(args, jobs):
    """What runs at once: of each lane the sessions, one after the other: (plan, count, least). Lanes take
    from the same plans; where another one begins with a plan, a boot has to be worth it: there have to
    be more jobs than the least."""
    def session(count, waits=None):
        plan = deque(make_plan(args, jobs, count, waits))
        return [(plan, count, 0)] if plan else []

    def shared(sessions):
        return [(plan, count, 2) for plan, count, _ in sessions]

    if not args.together:
        lanes = [session(1) + session(2)]
    else:
        single, pair, waiting = session(1, False), session(2), session(1, True)
        lanes = [pair + shared(single) if pair else single, single + shared(pair) if single else pair]
        more = shared(pair) + shared(single)
        lanes += [more if nth % 2 else more[::-1] for nth in range(how_many(args) - 2)]
        lanes.append(waiting)
    return [lane for lane in lanes if lane]


def run_lane(args, rundir, report, lane, sessions):
    for nth, (plan, count, least) in enumerate(sessions):
        if len(plan) > least:
            run_session(args, rundir, report, 10 * lane + nth, plan, count)


def test(args, rundir):
    jobs = find_jobs(args.tests, args.names)
    report = Report(args.verbose)
    lanes = make_lanes(args, jobs)
    if not lanes:
        raise SystemExit("vm: no job fits these drivers and this kernel")
    with ThreadPoolExecutor(len(lanes)) as pool:
        runs = [pool.submit(run_lane, args, rundir, report, lane, sessions)
                for lane, sessions in enumerate(lanes)]
        try:
            for run in runs:
                run.result()
        except KeyboardInterrupt:
            # The process namespace ends with us, and the guests with it.
            print("vm: interrupted", flush=True)
            os._exit(130)
    report.summary()
    return 1 if report.failed else 0


def on_machines(args, rundir, report):
    """Jobs between two machines; those that cannot run there are named."""
    if len(args.machines) != 2:
        raise SystemExit("vm: say --machine [USER@]HOST,INTERFACE for host A, and again for host B")
    jobs = find_jobs(args.tests, args.names)
    for job in jobs:
        if not job.machines:
            report.extra(Result(job.title, "skip", ""))
    if any(not job.machines for job in jobs):
        report.say("     (they say nothing of machines: they need a guest, or were not tried without)")
    plan = deque(make_plan(args, [job for job in jobs if job.machines], 2))
    if plan:
        run_session(args, rundir, report, 0, plan, 2)


def machines(args, rundir):
    report = Report(args.verbose)
    on_machines(args, rundir, report)
    report.summary()
    return 1 if report.failed else 0


def try_machines(args, rundir):
    report = Report(args.verbose)
    trial(args, rundir, report, lambda there, place: on_machines(there, place, report))
    report.summary()
    return 1 if report.failed else 0


def shell(args, rundir):
    link = make_link(args.link, rundir)
    guest = Guest("a", args, link, rundir, 2)
    print(f"vm: starting a guest ({guest.kind}); leave with 'exit', "
          "kill it with Ctrl-A X", flush=True)
    command = guest.command("mon:stdio", "rsiw.mode=shell")
    at = command.index("-monitor")
    return subprocess.call(command[:at] + command[at + 2:])


ACTIONS = {"test": test, "shell": shell, "machines": machines, "trial": try_machines}


def main():
    args = configure(parse_args())
    if args.action == "list":
        for job in find_jobs(args.tests, args.names):
            print(f"{job.title}: guests {job.guests}, kernel {job.kernel}, "
                  f"pairs {' '.join(job.pairs)}")
        return 0
    # For sockets: their paths must be short.
    rundir = tempfile.mkdtemp(prefix="vm")
    try:
        for kernel in args.kernels[:1 if args.kernels[0] is args.kernels[1] else 2]:
            if args.action != "machines" and not kernel.has_9p:
                make_shares(kernel, args.tests, rundir)
        return ACTIONS[args.action](args, rundir)
    finally:
        shutil.rmtree(rundir, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
