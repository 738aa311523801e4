# SPDX-License-Identifier: GPL-2.0
"""Links of type rsiw_rc: the GIDs that programs name by index, and the TCP port at which their queue pairs connect."""

import ipaddress
import re

from . import firewall, mpa
from .link import remake, setting, setting_file, type_of
from .report import command

PROGRAMS = {False: "programs that use the RDMA CM (NFS, NVMe, iSER, rping, perftest with -R, libfabric)",
            True: "programs that connect queue pairs themselves (ibv_rc_pingpong, perftest without -R, UCX)"}
DEFAULT_PORT = 4791


def port_of(system, link):
    return int(setting(system, link.name, "rc_port") or DEFAULT_PORT)


def check_types(system, report, links):
    """Where all links are of one type, whom they serve, and how the others get theirs."""
    here = [link for link in links if link.netdev]
    if len({link.rc for link in here}) != 1:
        return
    other = not here[0].rc
    base, count = "rc" if other else "rsiw", 0
    while system.exists(f"/sys/class/infiniband/{base}{count}"):
        count += 1
    netdev = parent_of(system, here[0].netdev) if other else here[0].netdev
    make = command("sudo rdma link add {} type {} netdev {}", f"{base}{count}", type_of(other), netdev)
    report.ok("type", f"{', '.join(link.name for link in here)}: of type {type_of(not other)}, for "
              f"{PROGRAMS[not other]}; {PROGRAMS[other]} need one of type {type_of(other)} on both hosts: {make}")


def parent_of(system, netdev):
    """The network device that a VLAN is on: its link of type rsiw_rc has the VLAN's GIDs, too. Others: themselves."""
    for entry in system.run("ip", "-j", "-d", "link", "show", "dev", netdev).json():
        if entry.get("linkinfo", {}).get("info_kind") == "vlan" and entry.get("link"):
            return entry["link"]
    return netdev


def check_gids(system, report, link):
    """Which index programs have to name for an address, and whether all addresses have a GID."""
    if link.state != "ACTIVE":
        return
    for index, address, netdev in link.gids:
        of = "" if netdev == link.netdev else f" of {netdev}"
        report.ok("gid", f"{link.name}: {address}{of} is GID index {index} (ibv_rc_pingpong -g {index})")
    known = [address for _, address, netdev in link.gids if netdev == link.netdev]
    missing = [address for address in link.addresses if ipaddress.ip_address(address) not in known]
    if missing and not link.gids:
        report.fail("gid", f"{link.name} has no GID but that of the link-local address: programs cannot use "
                    f"{', '.join(missing)}", remake(system, link.name, link.netdev, True))
    elif missing:
        report.warn("gid", f"{link.name} has no GID for {', '.join(missing)}: programs cannot use that address",
                    remake(system, link.name, link.netdev, True))


def is_in_the_way(at, link):
    """Whether a socket that listens at ADDRESS[%DEV]:PORT has the port of the link's queue pairs."""
    host, _, netdev = at.rpartition(":")[0].replace("[", "").replace("]", "").partition("%")
    own = [*link.addresses, *(str(address) for _, address, _ in link.gids)]
    return netdev in ("", *link.netdevs()) and host in ("*", "0.0.0.0", "::", *own)


def check_port(system, report, link):
    """Queue pairs listen at their own addresses while they wait for a peer, which no other program may do."""
    port = port_of(system, link)
    sockets = system.run("ss", "-Hltnp", f"sport = :{port}")
    if sockets.status != 0:
        report.skip("rc_port", f"who listens on port {port}: {sockets.err}", "sudo apt install iproute2")
        return
    lines = [line for line in sockets.out.splitlines() if is_in_the_way((line.split() + [""] * 4)[3], link)]
    ids = system.run("rdma", "resource", "show", "cm_id").out
    servers = [comm for comm, at in re.findall(rf"^link .*state LISTEN.* comm (\S+) src-addr (\S*:{port}) ", ids, re.M)
               if is_in_the_way(at, link)]
    programs = re.findall(r'users:\(\("([^"]*)"', "\n".join(lines)) + servers
    if programs:
        report.fail("rc_port", f"{', '.join(sorted(set(programs)))} listens on TCP port {port}, the rc_port of {link.name}: "
                    "ibv_modify_qp to RTR fails with \"Address already in use\"",
                    f"sudo ss -ltnp 'sport = :{port}'   # which it is; have it use another port",
                    command("echo PORT | sudo tee {}   # or have rsiw use another one, on all hosts",
                            setting_file(link.name, "rc_port")))
    elif lines and not system.is_root():
        report.skip("rc_port", f"only root can tell whether it is for queue pairs that somebody listens on port {port}",
                    command("sudo rsiw-doctor {}", link.name))
    elif lines:
        report.ok("rc_port", f"the kernel listens on TCP port {port}, as it does for queue pairs of {link.name}")
    else:
        report.ok("rc_port", f"TCP port {port} is free for queue pairs of {link.name} that wait for their peers")


def check_firewall(system, report, link, peer=None):
    """Peers connect to this host's port, or this host to theirs: which, the queue pairs' GIDs and numbers decide."""
    port = port_of(system, link)
    ways = (True, False) if peer else (True,)
    firewall.check(system, report, [packet for netdev in link.netdevs() for server in ways
                                    for packet in firewall.packets_for(port, peer, netdev, server)])


def check_peer(system, report, address, source, link):
    """Whether packets pass to the peer's port and back, which is open only while a queue pair of the peer waits."""
    check_firewall(system, report, link, address)
    port = port_of(system, link)
    there = command("sudo rsiw-doctor --peer {}   # on {}", source or "ADDRESS", address)
    how, got = mpa.connect(address, port, vrf=link.vrf)
    if how == mpa.OPEN:
        got.close()
        report.ok("rc_port", f"TCP port {port} of {address} is open: a queue pair waits there, or has its peer")
    elif how == mpa.REFUSED:
        report.skip("rc_port", f"no queue pair of {address} waits at TCP port {port}, or there is no link of type "
                    "rsiw_rc, or a firewall there rejects connections", there)
    elif how == mpa.SILENT:
        report.fail("rc_port", f"{address} does not answer at TCP port {port}, so queue pairs wait in vain: it is down, "
                    "or a firewall drops the packets", there)
    else:
        report.fail("rc_port", f"TCP port {port} of {address}: {got}", there)
