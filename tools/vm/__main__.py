# SPDX-License-Identifier: GPL-2.0
"""Run test jobs in guests, or open a shell in a guest.

tools/vm-run makes the kernels, the disks and the programs, and starts this in the build root, in a network
namespace of its own.
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
from link import make_link                          # noqa: E402
from report import Report                           # noqa: E402
from session import Session                         # noqa: E402
from tsc import tsc_khz                             # noqa: E402


INTEROP = [("rsiw", "siw"), ("siw", "rsiw")]


def parse_args():
    parser = argparse.ArgumentParser(prog="vm-run", description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["test", "list", "steady", "shell"],
                        help="steady: run each job 20 times (--repeat) beside processes that compute, and tell how "
                             "often it passed")
    parser.add_argument("names", nargs="*", help="suites or jobs (default: all)")
    parser.add_argument("--kernel", default="stock", metavar="A[,B]",
                        help="the kernel of the hosts, or host A's and host B's: stock, debug, kcsan or a "
                             "flavour (tools/flavour.sh has their names)")
    parser.add_argument("--build", metavar="NAME",
                        help="take modules and programs from build/NAME (default: the kernel's name)")
    parser.add_argument("--debian", metavar="A[,B]",
                        help="the release of Debian of the hosts, or of host A and host B: trixie, forky, or bookworm, "
                             "which has what the jobs of smoke use (default: that of the kernels)")
    parser.add_argument("--pair", action="append", metavar="A,B",
                        help="drivers of host A and host B (default: rsiw,rsiw); "
                             "may be repeated: the jobs run once for each pair")
    parser.add_argument("--interop", action="store_true",
                        help="run jobs that say 'interop: yes' also with siw on either host")
    parser.add_argument("--link", choices=["auto", "tap", "socket"], default="auto")
    parser.add_argument("--accel", choices=["auto", "tcg", "kvm"], default="auto")
    parser.add_argument("--cpu", help="QEMU's CPU model under emulation (default: a model, and a kernel "
                        "command line, that are cheap to emulate)")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE",
                        help="set a variable for the jobs, on both hosts")
    parser.add_argument("--pcap", action="store_true", help="capture the link in every job")
    parser.add_argument("--memory", default="2G")
    parser.add_argument("--append", default="", help="add to the kernel command line")
    parser.add_argument("--insns", action="store_true",
                        help="count the instructions that guests execute in the kernel (tools/vm/insns.c), for jobs "
                             "that read the counts: perf/insns, perf/kernel; emulation only")
    parser.add_argument("--repeat", type=int)
    parser.add_argument("--again", action="store_true",
                        help="run a failed job once more, alone: if it passes then, it is unsteady, not failed")
    parser.add_argument("--together", action="store_true",
                        help="run several lanes of jobs in parallel, one for each processor")
    parser.add_argument("--lanes", type=int, help="the number of lanes (default: of processors)")
    parser.add_argument("--factor", type=float, help="multiply time limits by this")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the jobs' output")
    parser.add_argument("--qemu-args", default="", help=argparse.SUPPRESS)
    # Paths that vm-run passes.
    for name in ("top", "cache", "boot", "disk", "source"):
        parser.add_argument(f"--{name}", required=True, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.insns:
        args.accel = "tcg"
    args.repeat = args.repeat or (20 if args.action == "steady" else 1)
    return args


KEEP_RUNS = 40


def forget_old_runs(base):
    """Removes the logs of all but the latest runs. Names begin with the time, so they sort by age."""
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
    # Renamed into place, as another run may replace the link at the same time.
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
    # Guests cannot write to the tests, and would compile each program whenever it starts.
    peers = [f"{kernel.build}/bin/python" for kernel in args.kernels]
    subprocess.run([sys.executable, "-m", "compileall", "-q", args.tests, *peers], check=False)
    args.kernel = args.kernels[0].family
    own = any(kernel.family != "stock" for kernel in args.kernels)
    args.boot_timeout = 300
    args.usual_boot = 45 if own else 12         # seconds
    args.slow = args.factor or (4 if own else 1)
    args.qemu_args = args.qemu_args.split()
    # Whether there is virtual time.
    args.virtual = args.kernels[0] == args.kernels[1] and args.kernels[0].has_pmem
    args.job_env = {"RSIW_DEBIAN": args.debian.split(",")[0], **dict(pair.split("=", 1) for pair in args.env)}
    args.pairs = [tuple(pair.split(",")) for pair in args.pair or ["rsiw,rsiw"]]
    return args


def make_plan(args, jobs, count):
    """The list of (job, pair) in running order, for jobs that boot `count` guests."""
    plan = []
    for pair in args.pairs + (INTEROP if args.interop else []):
        for job in jobs:
            wanted = pair in args.pairs or job.interop
            if job.boots(args, pair) != count or not wanted or not job.fits(pair, args.kernel):
                continue
            # A job of one host uses only the pair's first driver. It runs once for each such driver.
            entry = (job, pair if job.guests == 2 else pair[:1])
            if entry not in plan:
                plan.append(entry)
    # Guests reboot for another number of processors, and for another time. Sorted, they do so once for each.
    return sorted(plan * args.repeat, key=lambda entry: (entry[0].on_virtual_time(args, entry[1]), entry[0].cpus))


def taken(plan):
    """Takes entries from a plan until it is empty. Other lanes take from the same plan."""
    while True:
        try:
            yield plan.popleft()
        except IndexError:
            return


TRIES = 4       # of a job in which siw crashes its own host


def run_job(session, job, pair, echo):
    """Runs a job, again if siw crashes its own host, as it now and then does: siw is only the peer here,
    not what is tested. Problems that rsiw's host reported before the crash still count. A job that crashes
    siw's host each time has failed."""
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


def run_session(args, rundir, report, tag, plan, count, again=False):
    """Runs the plan's jobs, all of `count` guests, in one boot unless something goes wrong. `again`: they have
    failed before."""
    rundir = f"{rundir}/{tag}"
    os.mkdir(rundir)
    session = Session(args, make_link(args.link, rundir, tag), rundir, count)
    try:
        for job, pair in taken(plan):
            report.begin(job, pair)
            outcome = run_job(session, job, pair, report.echo)
            if again:
                report.end_again(outcome)
            elif args.again and outcome.may_run_again:
                report.hold(outcome)
            else:
                report.end(outcome)
        for result in session.leaks():
            report.extra(result)
    finally:
        session.close()


def memory_of(text):
    """QEMU's notation for a size of memory (2G), in MiB."""
    units = {"M": 1, "G": 1024}
    return int(text.rstrip("MG")) * units.get(text[-1], 1)


def how_many(args):
    """The number of lanes: one for each processor, as most jobs compute about as much as they wait, and more
    lanes would be slower. At least two, so that jobs of one guest need not wait for those of two. No more than
    fit in memory with two guests each."""
    if args.lanes:
        return args.lanes
    with open("/proc/meminfo") as meminfo:
        available = next(int(line.split()[1]) // 1024 for line in meminfo
                         if line.startswith("MemAvailable"))
    room = available // (2 * memory_of(args.memory))
    return max(2, min(len(os.sched_getaffinity(0)), room))


def make_lanes(args, jobs):
    """The lanes, which run in parallel. A lane is a list of sessions, (plan, count, least), which run one after
    the other. Lanes share plans. A lane that joins in another lane's plan boots guests for it, so it does
    so only while the plan has more than `least` jobs left."""
    def session(count):
        plan = deque(make_plan(args, jobs, count))
        return [(plan, count, 0)] if plan else []

    def shared(sessions):
        return [(plan, count, 2) for plan, count, _ in sessions]

    if not args.together:
        lanes = [session(1) + session(2)]
    else:
        single, pair = session(1), session(2)
        lanes = [pair + shared(single) if pair else single, single + shared(pair) if single else pair]
        more = shared(pair) + shared(single)
        lanes += [more if nth % 2 else more[::-1] for nth in range(how_many(args) - 2)]
    return [lane for lane in lanes if lane]


def run_lane(args, rundir, report, lane, sessions):
    for nth, (plan, count, least) in enumerate(sessions):
        if len(plan) > least:
            run_session(args, rundir, report, 10 * lane + nth, plan, count)


AGAIN = 1000    # the first tag of a session that runs a job again; lanes have smaller ones


def run_again(args, rundir, report):
    """Runs each job that was held back once more, in fresh guests and beside no other job."""
    for nth, outcome in enumerate(report.take_held()):
        plan = deque([(outcome.job, outcome.pair)])
        run_session(args, rundir, report, AGAIN + nth, plan, outcome.job.boots(args, outcome.pair), again=True)


def test(args, rundir):
    return run_tests(args, rundir, Report(args.verbose))


BUSY = "while True: pass"
BUSY_PROCESSES = 2


def steady(args, rundir):
    report = Report(args.verbose)
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(BUSY_PROCESSES)]
    try:
        return run_tests(args, rundir, report)
    finally:
        for process in busy:
            process.kill()
        report.rates()


def run_tests(args, rundir, report):
    jobs = find_jobs(args.tests, args.names)
    if args.virtual and any(job.virtual for job in jobs) and not args.kernels[0].shares:
        make_shares(args.kernels[0], args.tests, rundir)
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
            # This process is the namespace's first one: when it exits, the kernel kills the guests.
            print("vm: interrupted", flush=True)
            os._exit(130)
    run_again(args, rundir, report)
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


ACTIONS = {"test": test, "steady": steady, "shell": shell}


def main():
    args = configure(parse_args())
    if args.action == "list":
        for job in find_jobs(args.tests, args.names):
            print(f"{job.title}: guests {job.guests}, kernel {job.kernel}, "
                  f"pairs {' '.join(job.pairs)}")
        return 0
    # For sockets, whose paths must be short.
    rundir = tempfile.mkdtemp(prefix="vm")
    try:
        for kernel in args.kernels[:1 if args.kernels[0] is args.kernels[1] else 2]:
            if not kernel.has_9p:
                make_shares(kernel, args.tests, rundir)
        return ACTIONS[args.action](args, rundir)
    finally:
        shutil.rmtree(rundir, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
