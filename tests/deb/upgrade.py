#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rsiw's packages in the life of two machines, from apt install to apt purge.

Part short: host A and B install, reboot, talk, and remove. Part upgrade: host A also gets a newer kernel with
its module, by an upgrade. Each step is a line, and the last one counts them, as for all tests here."""

import argparse
import concurrent.futures
import os
import sys
import time

# What differs from a new machine after a purge, and is not rsiw's: logs, caches, and what dpkg, apt and
# systemd note down.
IGNORED = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp", "/srv", "/var/log", "/var/cache", "/var/lib/apt",
           "/var/lib/dpkg", "/var/lib/systemd", "/root", "/boot")
LIST = (f"find / -xdev {' '.join(f'-path {path} -prune -o' for path in IGNORED)} -print | "
        "grep -v '__pycache__' | sort")
APT = "export DEBIAN_FRONTEND=noninteractive; apt-get -q -y -o Dpkg::Use-Pty=0"
# Until a condition holds, in seconds of a slow processor.
WAIT = "for i in {1..60}; do if %s; then exit 0; fi; sleep 0.5; done; exit 1"


class Steps:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def step(self, name, function, *args):
        """Runs a step, which raises Failed or returns an excuse for not having run."""
        began = time.monotonic()
        try:
            excuse = function(*args)
        except Failed as error:
            self.failed += 1
            print(f"FAIL {name} ({time.monotonic() - began:.0f} s)")
            for line in str(error).splitlines()[-40:]:
                print(f"     | {line}")
            sys.stdout.flush()
            return False
        if excuse:
            self.skipped += 1
            print(f"skip {name}: {excuse}", flush=True)
        else:
            self.passed += 1
            print(f"ok   {name} ({time.monotonic() - began:.0f} s)", flush=True)
        return True


def do(host, script, timeout=120):
    """Output of a script that has to succeed."""
    status, output = host.run(script, timeout)
    if status:
        raise Failed(f"host {host.side}: {script}\nstatus {status}\n{output}")
    return output


def wait(host, condition):
    do(host, WAIT % condition)


def expect_empty(host, script, timeout=120):
    output = do(host, script, timeout)
    if output.strip():
        raise Failed(f"host {host.side}: {script}\n{output}")


def both(hosts, function, *args):
    """On all hosts at once."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for future in [pool.submit(function, host, *args) for host in hosts]:
            future.result()


def boots(host, release):
    got = host.boot() if host.process is None else host.reboot()
    if got != release:
        raise Failed(f"host {host.side} runs {got}, not {release}")
    do(host, "systemctl is-system-running --wait")


def install(host):
    do(host, f"{LIST} >/var/tmp/before")
    # Without what other packages recommend, which would only take time.
    do(host, f"apt-get -q update && {APT} --no-install-recommends install rsiw rdmacm-utils ibverbs-utils", 400)
    expect_empty(host, "dpkg --verify; lsmod | grep -w ^rsiw; apt-get -q check >/dev/null")


def configure(host):
    do(host, "echo netdev=eth0 >/etc/rsiw/links.d/rsiw0.conf")


def link_is_there(host):
    wait(host, "rdma link show rsiw0/1 2>/dev/null | grep -q 'state ACTIVE.*netdev eth0'")
    do(host, "systemctl is-active rsiw-link@rsiw0")
    do(host, "ibv_devinfo -d rsiw0")


def rping(client, server, address):
    do(server, f"systemd-run -q --unit=rping-server rping -s -a {address} -v")
    wait(server, "ss -ltn | grep -q :7174 || rdma resource show cm_id | grep -q LISTEN")
    do(client, f"rping -c -a {address} -C 20 -v")
    do(server, WAIT % "! systemctl is-active -q rping-server")


def doctor(host):
    if host.run("command -v rsiw-doctor")[0]:
        return "the package has none"
    do(host, "rsiw-doctor")
    return None


def no_fault(host):
    """Since the machine was new: no unit failed, and no kernel complained."""
    expect_empty(host, "systemctl --failed --no-legend --plain")
    host.keep_log()
    bad = dmesg.splats(host.kmsg)
    if bad:
        raise Failed("\n".join(bad))


def signs(host, release):
    """The key is not one that this kernel trusts; it only says so, as Secure Boot is off."""
    package = f"rsiw-modules-{release}"
    do(host, "mkdir -p /var/lib/dkms; cp /srv/rsiw/key/mok.* /var/lib/dkms/")
    said = do(host, f"dpkg-reconfigure -f noninteractive {package}")
    if "is not signed: install linux-kbuild-" not in said:
        raise Failed(f"no word about what is missing: {said}")
    said = do(host, f"{APT} install linux-kbuild-{release.split('-', maxsplit=1)[0]}; dpkg-reconfigure {package}", 400)
    if do(host, "modinfo -F signer rsiw") != "key of this test\n":
        raise Failed(f"not signed: {said}")
    expect_empty(host, f"dpkg --verify {package}")
    do(host, f"rm -r /var/lib/dkms; apt-mark auto linux-kbuild-{release.split('-', maxsplit=1)[0]}")


def comes_back(host):
    """A link whose network device goes and comes."""
    there = "[ -d /sys/class/infiniband/ring ]"
    # systemd starts nothing for a network device that is back before its unit has stopped.
    stopped = "[ $(systemctl show -P ActiveState rsiw-link@ring) = inactive ]"
    do(host, "echo netdev=ring0 >/etc/rsiw/links.d/ring.conf; systemctl daemon-reload")
    for _ in range(2):
        do(host, "ip link add ring0 type veth peer ring1")
        wait(host, there)
        do(host, "ip link delete ring0")
        wait(host, f"! {there} && {stopped}")


def upgrade(host):
    do(host, "sed -i 's|/srv/rsiw/old|/srv/rsiw/new|' /etc/apt/sources.list")
    # As a user types it: unlike apt-get it installs what is new.
    do(host, f"apt-get -q update && {APT.replace('apt-get', 'apt')} upgrade", 900)


def remove(host):
    # An upgrade may have left more links than that of eth0.
    do(host, f"{APT} remove rsiw")
    expect_empty(host, "lsmod | grep -w ^rsiw; ls /sys/class/infiniband; ls -d /run/rsiw /usr/libexec/rsiw 2>/dev/null;"
                       "systemctl list-units --all --no-legend 'rsiw-link@*'; [ -s /etc/rsiw/links.d/rsiw0.conf ]")


def purge(host):
    do(host, f"{APT} purge rsiw 'rsiw-modules-*'", 400)
    expect_empty(host, f"{LIST} | grep -i rsiw | grep -v rsiw-test-agent || true")
    expect_empty(host, "dpkg-query -Wf '${db:Status-Abbrev} ${Package}\\n' | grep rsiw || true")


def as_before(host):
    """What came with rsiw goes with it, but for packages that others need, or could need, as well. Each file
    that was not there is of a package that is installed, and none has gone."""
    do(host, f"{APT} autopurge", 400)
    expect_empty(host, f"{LIST} >/tmp/after; sort -u /var/lib/dpkg/info/*.list >/tmp/owned;"
                       "comm -23 /tmp/after /var/tmp/before | comm -23 - /tmp/owned; comm -13 /tmp/after /var/tmp/before")


def run(steps, hosts, releases, with_upgrade):
    a, b = hosts
    old, new = releases
    if not steps.step(f"two machines with Debian and Linux {old} boot", both, hosts, boots, old):
        return
    if not steps.step("apt installs rsiw and its module on both hosts", both, hosts, install):
        return
    steps.step("a file in links.d is written on both hosts", both, hosts, configure)
    if not steps.step("both hosts reboot", both, hosts, boots, old):
        return
    steps.step("the links are there after the reboot", both, hosts, link_is_there)
    steps.step("rping goes from A to B", rping, a, b, "10.7.0.2")
    steps.step("rping goes from B to A", rping, b, a, "10.7.0.1")
    steps.step("rsiw-doctor finds no fault", doctor, a)
    if with_upgrade:
        steps.step(f"apt upgrades A to Linux {new} and its module", upgrade, a)
        steps.step("rping works after the upgrade, before the reboot", rping, a, b, "10.7.0.2")
        if not steps.step(f"A reboots into Linux {new}", boots, a, new):
            return
        steps.step("A's link is there on the newer kernel", link_is_there, a)
        steps.step("rping goes from the newer kernel to the older one", rping, a, b, "10.7.0.2")
        steps.step("rsiw-doctor finds no fault on the newer kernel", doctor, a)
    steps.step("a module is signed with the machine's key", signs, b, old)
    steps.step("a link comes back with its network device", comes_back, a)
    steps.step("no unit failed, and the kernel's log is clean, while rsiw was there", both, hosts, no_fault)
    steps.step("apt remove ends the links and unloads the module", both, hosts, remove)
    steps.step("apt purge leaves nothing of rsiw", both, hosts, purge)
    steps.step("apt autopurge leaves the machine as it was", as_before, b)
    steps.step("no unit failed, and the kernel's log is clean, to the end", both, hosts, no_fault)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--image", required=True, help="folder of tests/deb/image")
    parser.add_argument("--packages", required=True, help="disk with rsiw's packages")
    parser.add_argument("--work", required=True)
    parser.add_argument("--releases", nargs=2, required=True)
    parser.add_argument("part", choices=("short", "upgrade"))
    args = parser.parse_args()
    steps = Steps()
    wire = link.make_link("auto", args.work)
    hosts = [machine.Machine(side, args.image, args.packages, wire, args.work) for side in "ab"]
    try:
        run(steps, hosts, args.releases, args.part == "upgrade")
    finally:
        for host in hosts:
            host.kill()
            os.unlink(host.disk)
    print(f"{steps.passed} passed, {steps.failed} failed, {steps.skipped} skipped")
    sys.exit(steps.failed != 0)


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:0] = [here, os.path.join(here, "../../tools/vm")]
    import dmesg
    import link
    import machine
    from machine import Failed
    main()
