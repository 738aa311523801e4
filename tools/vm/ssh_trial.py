# SPDX-License-Identifier: GPL-2.0
"""Tests the code that runs jobs between machines by ssh; two guests stand in for the machines.

The runner reaches a guest's sshd over a second interface; eth0 is for the tests. Afterwards the trial checks
that both guests are in the state in which they were before.
"""

import copy
import os
import subprocess
import time

from agent import GuestDied
from ktap import Result
from link import TapLink, ip
from machine import Address, Machine
from session import Session

NETWORK = "10.8.0"


class ManagedLink(TapLink):
    """The data link, and a second link for ssh, to which the runner is connected, too."""

    def __init__(self, rundir, tag):
        super().__init__(rundir, tag)
        ip("link", "add", "mgmt", "type", "bridge", "forward_delay", "0", "mcast_snooping", "0")
        ip("addr", "add", f"{NETWORK}.254/24", "dev", "mgmt")
        ip("link", "set", "mgmt", "up")
        for side in "ab":
            ip("tuntap", "add", f"mgmt{side}", "mode", "tap")
            ip("link", "set", f"mgmt{side}", "master", "mgmt", "up")

    def arguments(self, side):
        return super().arguments(side) + [
            "-netdev", f"tap,id=mgmt,ifname=mgmt{side},script=no,downscript=no,vhost=off",
            "-device", f"virtio-net-pci,netdev=mgmt,romfile=,mac=52:54:00:08:00:0{1 + 'ab'.index(side)}"]


def machines(args, rundir):
    """Two guests with sshd, and the arguments of a run that uses them as machines."""
    session = Session(args, ManagedLink(rundir, 0), rundir, 2)
    key = f"{rundir}/key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    try:
        session.boot()
        with open(f"{key}.pub") as public:
            line = public.read().strip()
        for nth, guest in enumerate(session.guests.values(), 1):
            status, text = guest.channel.run(["/tests/guest/sshd", f"{NETWORK}.{nth}/24", line])
            if status != 0:
                raise GuestDied(f"no sshd in host{guest.side}: {text.strip()}")
    except BaseException:
        session.close()
        raise
    there = copy.copy(args)
    there.ssh_options = ["-i", key, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
                         "-o", "LogLevel=ERROR"]
    there.machines = [Address(f"root@{NETWORK}.{nth}", "eth0") for nth in (1, 2)]
    return session, there


def state(guest):
    """The state of a guest that has to be the same before and after."""
    command = "ip -br addr | sort; ip netns; ls /var/tmp; ls /sys/fs/cgroup; grep -o '^rsiw' /proc/modules; " \
        "cat /sys/class/net/eth0/mtu; nft list ruleset 2>&1"
    return guest.channel.run(["bash", "-c", command])[1]


def refused(args, interface, why):
    """A result: whether a machine refuses an interface for this reason."""
    there = copy.copy(args)
    there.machines = [Address(args.machines[0].target, interface)] * 2
    machine = Machine("a", there, None, None)
    name = f"an interface is refused: {why}"
    try:
        machine.boot()
        machine.wait_up(60)
    except GuestDied as error:
        return Result(name, "ok" if why in str(error) else "not ok", str(error))
    finally:
        machine.kill()
    return Result(name, "not ok", "it was taken")


def cut_off(args):
    """Cuts a machine's connection in the middle of a job. trial() then checks that the state is restored."""
    machine = Machine("a", args, None, None)
    machine.boot()
    machine.wait_up(60)
    machine.channel.start(["bash", "-c", ". /tests/lib.sh; load_driver; sleep 1000"], group="job",
                          env={"RSIW_DRIVER": "rsiw", "RSIW_GUESTS": "2"})
    _, loaded = machine.channel.run(["bash", "-c", "until rdma link | grep rsiw0; do sleep 0.1; done"])
    machine.process.kill()
    machine.process.wait()
    machine.kill()
    return Result("a machine's connection is cut off while the driver is loaded",
                  "ok" if "rsiw0" in loaded else "not ok", loaded)


def trial(args, rundir, report, run):
    """run(args, rundir) runs the jobs on machines."""
    os.mkdir(f"{rundir}/guests")
    session, there = machines(args, f"{rundir}/guests")
    try:
        before = [state(guest) for guest in session.guests.values()]
        report.extra(refused(there, "eth1", "is the interface of this ssh connection"))
        report.extra(refused(there, "eth7", "there is no interface eth7"))
        run(there, rundir)
        report.extra(cut_off(there))
        # The runner did not wait while the machine that was cut off restored its state.
        for _ in range(60):
            after = [state(guest) for guest in session.guests.values()]
            if after == before:
                break
            time.sleep(1)
        for side, was, now in zip("ab", before, after):
            report.extra(Result(f"host{side} is what it was before", "ok" if was == now else "not ok",
                                f"before:\n{was}\nafter:\n{now}"))
    finally:
        session.close()
