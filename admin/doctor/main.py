# SPDX-License-Identifier: GPL-2.0
"""The command: options, the order of the checks, and the exit status."""

import argparse
import sys

from . import firewall, link, module, path, rc, tls, user
from .report import Report
from .system import System

EX_USAGE = 64
EPILOG = """exit status: 0 all is fine, 1 warnings only, 2 something is broken, 64 wrong options.
rsiw-doctor(8) has all checks."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.print_usage(sys.stderr)
        self.exit(EX_USAGE, f"{self.prog}: {message}\n")


def port_number(text):
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"'{text}' is not the number of a port")
    return int(text)


def peer(text):
    host, port = path.split_peer(text)
    if not host or host.startswith("-") or not host.isprintable():
        raise argparse.ArgumentTypeError(f"'{text}' is not ADDRESS[:PORT]")
    return host, None if port is None else port_number(str(port))


def mebibytes(text):
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of MiB")
    return int(text)


def device(text):
    if not text or "/" in text or text.startswith("."):
        raise argparse.ArgumentTypeError(f"'{text}' cannot be the name of a device")
    return text


def parse(arguments):
    parser = Parser(prog="rsiw-doctor", description="Find out why RDMA over rsiw does not work, and what mends it.",
                    epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("device", nargs="?", type=device, metavar="DEVICE", help="an rsiw device; default: all")
    parser.add_argument("--peer", type=peer, metavar="ADDRESS[:PORT]",
                        help="a peer: the route to it, packets of full size, and who answers at its port")
    parser.add_argument("--port", type=port_number,
                        help="this host is a server: who listens on the port, and whether a firewall drops it")
    parser.add_argument("--memory", type=mebibytes, metavar="MIB", help="what a program wants to register")
    parser.add_argument("--no-mpa", action="store_true",
                        help="connect to the peer by TCP only: its program sees no connection")
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--quiet", action="store_true", help="only what is wrong")
    return parser.parse_args(arguments)


class Doctor:
    def __init__(self, options, system, report):
        self.options, self.system, self.report = options, system, report
        self.links, self.mtus, self.address = [], {}, None

    def guard(self, check, *arguments):
        """A check that fails itself must not hide what the others find."""
        try:
            return check(self.system, self.report, *arguments)
        except Exception as e:
            self.report.warn("doctor", f"a fault of rsiw-doctor: {check.__name__}: {type(e).__name__}: {e}")
            return None

    def examine(self):
        self.guard(module.check)
        self.guard(self.find_links)
        for one in self.links:
            self.mtus[one.netdev] = self.guard(link.check, one)
            if not one.rc:
                self.guard(link.check_port_mapper, one)
            else:
                self.guard(rc.check_gids, one)
                self.guard(rc.check_port, one)
                if not self.options.peer:
                    self.guard(rc.check_firewall, one)
            self.guard(tls.check, one)
        self.guard(user.check_provider)
        self.guard(user.check_nodes, self.links)
        self.guard(user.check_memlock, self.options.memory)
        self.guard(user.check_cgroup, self.links)
        if self.options.peer:
            self.guard(self.check_peer)
        if self.options.port:
            self.guard(self.check_server)

    def find_links(self, system, report):
        found = link.find(system, report)
        if found is None:
            return
        link.check_files(system, report, found)
        self.links = link.choose(system, report, found, self.options.device)
        rc.check_types(system, report, found)

    def check_peer(self, system, report):
        host, port = self.options.peer
        address = self.address = path.resolve(system, report, host)
        if not address:
            return
        used, source, same_host = path.check_route(system, report, address, self.links)
        if used and not same_host and self.mtus.get(used.netdev):
            self.guard(path.check_mtu, address, used, self.mtus[used.netdev])
        rc_link = next((one for one in [used, *self.links] if used and one.rc and used.netdev in one.netdevs()), None)
        if rc_link and not same_host and (used.rc or not port):
            self.guard(rc.check_peer, address, source, rc_link)
        if port:
            if not same_host:
                self.guard(firewall.check, firewall.packets_for(port, address, used and used.netdev, False))
            if used and used.rc:
                report.skip("port", f"{used.name} is of type rsiw_rc: at port {port} programs speak TCP, "
                            f"and their queue pairs connect at TCP port {rc.port_of(system, used)}")
            elif used and link.setting(system, used.name, "port_mapper") == "1":
                report.skip("port", f"{used.name} has port_mapper=1: the port mappers choose another TCP port than {port}")
            else:
                # A peer that takes connections with TLS only closes one that begins without.
                secure = used and link.setting(system, used.name, "tls") in ("2", "3")
                self.guard(path.check_port, address, port, used, not self.options.no_mpa and not secure, same_host)

    def check_server(self, system, report):
        port = self.options.port
        if self.links and all(one.rc for one in self.links):
            report.skip("port", f"who listens on port {port}: with links of type rsiw_rc programs do so by TCP")
        else:
            self.guard(path.check_listener, port)
        netdev = self.links[0].netdev if len(self.links) == 1 else None
        self.guard(firewall.check, firewall.packets_for(port, self.address, netdev, True))


def main(arguments=None, system=None):
    options = parse(arguments)
    report = Report()
    Doctor(options, system or System(), report).examine()
    try:
        sys.stdout.write(report.json(options.quiet) if options.json else report.text(options.quiet))
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
    return report.status
