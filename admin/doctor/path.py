# SPDX-License-Identifier: GPL-2.0
"""The way to a peer: its address, the route, packets of full size, and who answers at the port."""

import ipaddress
import re

from . import mpa
from .link import setting, setting_file, type_of
from .report import command

# MTUs that occur: Ethernet, jumbo frames, and what tunnels leave of them.
SIZES = (9000, 8000, 4000, 2000, 1500, 1492, 1480, 1450, 1420, 1400, 1380, 1350, 1300, 1280, 1200, 1000, 576)
MIN_IPV6_MTU = 1280
# Bytes of IP's and ICMP's headers in front of a ping's data.
OVERHEAD = {4: 28, 6: 48}


def split_peer(text):
    """ADDRESS[:PORT]; an IPv6 address with a port is in brackets."""
    found = re.fullmatch(r"\[([^]]+)\](?::(\d+))?", text)
    if not found and text.count(":") <= 1:
        found = re.fullmatch(r"([^:]+)(?::(\d+))?", text)
    if not found:
        return text, None
    return found.group(1), int(found.group(2)) if found.group(2) else None


def is_address(text):
    try:
        ipaddress.ip_address(text.partition("%")[0])
        return True
    except ValueError:
        return False


def resolve(system, report, host):
    if is_address(host):
        return host
    found = system.run("getent", "ahosts", host).out.split()
    if found and is_address(found[0]):
        return found[0]
    report.fail("peer", f"'{host}' is no address, and no name that this host knows",
                command("getent ahosts {}   # asks what the resolver is set up to ask", host))
    return None


def prefix_of(address):
    return f"{address}/{128 if ':' in address else 32}"


def neighbours(system, address, links):
    """The first of the links on whose network the address is."""
    target = ipaddress.ip_address(address.partition("%")[0])
    for link, netdev in ((link, netdev) for link in links for netdev in link.netdevs()):
        for entry in system.run("ip", "-j", "addr", "show", "dev", netdev).json():
            for a in entry.get("addr_info", []):
                if "local" in a and target in ipaddress.ip_network(f"{a['local']}/{a['prefixlen']}", strict=False):
                    return link
    return None


def find_route(system, plain, scope, links):
    """What `ip route get` says: of the main table, or of the first VRF with a link whose table leads to that link."""
    found = system.run("ip", "-j", "route", "get", plain, *(("oif", scope) if scope else ()))
    if not any(entry.get("dev") in link.netdevs() for link in links for entry in found.json()):
        for vrf in sorted({link.vrf for link in links if link.vrf}):
            inside = system.run("ip", "-j", "route", "get", plain, "vrf", vrf)
            devices = [vrf, *(link.netdev for link in links if link.vrf == vrf)]
            if any(entry.get("dev") in devices for entry in inside.json()):
                return inside, vrf
    return found, None


def check_route(system, report, address, links):
    """Returns the link that connections to the peer use, the source address, and whether the peer is this host."""
    plain, _, scope = address.partition("%")
    if ipaddress.ip_address(plain).is_loopback:
        return check_loopback(report, plain, links)
    found, vrf = find_route(system, plain, scope, links)
    entries = found.json()
    near = neighbours(system, address, links)
    if found.status != 0 or not entries:
        why = found.err.replace("RTNETLINK answers:", "").strip().rstrip(".") or "no answer"
        report.fail("route", f"there is no route to {plain}: {why}",
                    command("sudo ip route add {} via GATEWAY   # or an address of its network for a netdev", prefix_of(plain)))
        return None, None, False
    entry = entries[0]
    netdev, source = entry.get("dev"), entry.get("prefsrc") or entry.get("src")
    local = netdev in ("lo", vrf) and ("local" in entry.get("cache", []) or entry.get("type") == "local")
    if local:
        # The RDMA CM takes the device that has the address.
        holder = next((link for link in links if has_address(system, link, plain)), None)
        if holder:
            report.ok("route", f"{plain} is an address of this host, on {holder.netdev} ({holder.name})")
        else:
            report.fail("route", f"{plain} is an address of this host, on a network device without an rsiw device",
                        f"ip -br addr   # then: sudo rdma link add NAME type {missing_type(links)} netdev DEV")
        return holder, source, True
    link = next((one for one in links if netdev in one.netdevs()), None)
    if link:
        via = f" via {entry['gateway']}" if entry.get("gateway") else ""
        where = f" in the VRF {vrf}" if vrf else ""
        report.ok("route", f"{plain} is reached by {netdev} ({link.name}){where}{via}, from {source}")
    elif near:
        report.fail("route", f"the route to {plain} leaves by {netdev}, which has no rsiw device, and not by "
                    f"{near.netdev} ({near.name}), which is in its network",
                    command("sudo ip route replace {} dev {}", prefix_of(plain), near.netdev))
    else:
        report.fail("route", f"the route to {plain} leaves by {netdev}, which has no rsiw device that was looked at",
                    command("sudo rdma link add {} type {} netdev {}", f"rsiw_{netdev[:10]}", missing_type(links), netdev))
    return link, source, False


def missing_type(links):
    """Of which type a link has to be made: that of those which were looked at."""
    return type_of(bool(links) and all(link.rc for link in links))


def check_loopback(report, plain, links):
    """The RDMA CM takes any device for a client, but only one on lo for its server."""
    link = next((link for link in links if link.netdev == "lo"), None)
    if link:
        report.ok("route", f"{plain} is this host by lo ({link.name})")
    else:
        report.fail("route", f"{plain} is this host by lo, which has no rsiw device",
                    f"sudo rdma link add rsiw_lo type {missing_type(links)} netdev lo   "
                    "# or use an address of another network device")
    return link, plain, True


def has_address(system, link, address):
    return any(a.get("local") == address for netdev in link.netdevs()
               for entry in system.run("ip", "-j", "addr", "show", "dev", netdev).json() for a in entry.get("addr_info", []))


def pings(system, address, mtus, vrf=None):
    """For each MTU whether a packet of that size is answered: True, False, or the MTU that the path has said."""
    version = 6 if ":" in address else 4
    sizes = [str(max(mtu - OVERHEAD[version], 0)) for mtu in mtus]
    inside = ("-I", vrf) if vrf else ()
    done = system.run_all([("ping", "-n", f"-{version}", "-M", "do", "-c", "2", "-i", "0.3", "-W", "1", "-w", "3",
                            *inside, "-s", size, address) for size in sizes], limit=6)
    answers = []
    for result in done:
        said = re.search(r"mtu ?= ?(\d+)", result.out + result.err)
        if result.status == 0:
            answers.append(True)
        elif result.status in (126, 127) or "ermitted" in result.err:
            answers.append(None)
        else:
            answers.append(int(said.group(1)) if said else False)
    return answers


def check_mtu(system, report, address, link, mtu):
    """Packets that must not be fragmented, as TCP's, have to arrive, or their sender has to be told."""
    netdev = link.netdev
    full, small = pings(system, address, (mtu, 128), link.vrf)
    if None in (full, small):
        report.skip("mtu", "packets of full size: there is no ping, or the user may not use it",
                    "sudo apt install iputils-ping")
    elif full is True:
        report.ok("mtu", f"packets of {mtu} bytes, the MTU of {netdev}, arrive")
    elif small is not True:
        report.skip("mtu", f"{address} answers no pings, so nobody knows whether large packets arrive")
    else:
        lower = [size for size in SIZES if size < mtu]
        arrived = [size for size, answer in zip(lower, pings(system, address, lower, link.vrf)) if answer is True]
        best = max(arrived, default=1280 if ":" in address else 576)
        if full is not False:
            report.ok("mtu", f"the path's MTU is {full}, and that of {netdev} {mtu}: TCP is told so, and obeys")
        else:
            # A device with a smaller MTU loses its IPv6 addresses (RFC 8200 section 5); TCP can find what passes.
            remedy = (command("sudo ip link set {} mtu {}", netdev, best) if best >= MIN_IPV6_MTU else
                      "sudo sysctl -w net.ipv4.tcp_mtu_probing=1   # on both hosts")
            report.fail("mtu", f"packets of {mtu} bytes, the MTU of {netdev}, vanish without a word, those of {best} "
                        "arrive: connections hang when they send much", remedy)


def check_port(system, report, address, port, link, with_mpa, same_host):
    """Connects by TCP, and sees whether an iWARP responder answers."""
    where = "this host" if same_host else address
    test = command("rping -s -a {} -p {} -v   # on {}, a server for a test", address, port, where)
    vrf = link.vrf if link else None
    how, got = mpa.connect(address, port, vrf=vrf)
    if how == mpa.REFUSED:
        report.fail("port", f"nobody listens on port {port} of {where}, or a firewall there rejects it", test)
        return
    if how == mpa.SILENT:
        report.fail("port", f"{address} does not answer at port {port}: it is down, or a firewall drops the packets",
                    command("sudo rsiw-doctor --port {}   # on {}: which rule it is", port, address))
        return
    if how == mpa.UNREACHABLE:
        report.fail("port", f"port {port} of {address}: {got}",
                    command("sudo rsiw-doctor --port {}   # on {}", port, address))
        return
    if not with_mpa:
        got.close()
        report.ok("port", f"port {port} of {address} is open; whether iWARP answers was not asked")
        return
    found = mpa.probe(address, port, got, vrf=vrf)
    if found.kind == mpa.IWARP:
        report_reply(system, report, address, port, link, found.reply)
    elif found.kind == mpa.OTHER:
        report.fail("port", f"a TCP program that knows no iWARP answers at port {port} of {address}: "
                    f"{found.raw[:40]!r}", test)
    elif found.kind == mpa.CLOSED:
        report.fail("port", f"port {port} of {address} is open, but closes at an MPA Request: the program there uses "
                    "TCP and not RDMA, takes connections with TLS only (tls=3 of rsiw), or none from here", test)
    else:
        report.fail("port", f"port {port} of {address} is open, but does not answer an MPA Request in {mpa.LIMIT} s: "
                    "the program there uses TCP and not RDMA, or hangs", test)


def report_reply(system, report, address, port, link, reply):
    if reply.rejected:
        report.ok("port", f"an iWARP responder rejects a connection without data of its protocol: {reply}")
        return
    report.ok("port", f"an iWARP responder answers at port {port} of {address}: {reply}")
    if reply.markers:
        report.warn("port", f"{address} wants MPA markers, which cost time", "# turn them off on the peer")
    crc = setting(system, link.name, "crc") if link else None
    if crc == "0" and reply.crc:
        report.warn("crc", f"{link.name} has crc=0, but the peer asks for CRCs, so connections have them",
                    command("echo 0 | sudo tee /sys/class/infiniband/DEVICE/settings/crc   # on {}, if it is rsiw's", address),
                    command("echo 1 | sudo tee {}   # or say so here", setting_file(link.name, "crc")))
    elif crc is not None and not reply.rejected:
        report.ok("crc", f"crc={crc} here, {int(reply.crc)} at the peer: connections "
                  + ("have CRCs" if crc == "1" or reply.crc else "have none"))
    if link and reply.revision == 1 and setting(system, link.name, "mpa_revision") == "2":
        report.warn("mpa", f"the peer knows MPA revision 1 only, and {link.name} connects with 2",
                    command("echo 1 | sudo tee {}", setting_file(link.name, "mpa_revision")))


def rdma_listeners(text, port):
    """Who listens by RDMA on the port: lines as "link rsiw0/1 cm-idn 0 state LISTEN ps TCP pid 7 comm rping
    src-addr 10.7.0.1:7174 dst-addr 0.0.0.0:0". Those of the kernel have its module's name as comm, in brackets. A server
    that listens at all addresses has no port of a device: "link rsiw0/-"."""
    found = re.findall(rf"^link (\S+?)/(?:\d+|-) .*state LISTEN.* comm (\S+) src-addr \S*:{port}\b", text, re.M)
    return sorted({f"{comm} ({name})" for name, comm in found})


def check_listener(system, report, port):
    """This host as a server: something has to listen on the port, and it has to be RDMA.

    Servers of other network namespaces may not be listed. But rsiw's sockets belong to no process, so root can tell
    them from those of a TCP program."""
    ids = system.run("rdma", "resource", "show", "cm_id")
    sockets = system.run("ss", "-Hltnp", f"sport = :{port}")
    servers = rdma_listeners(ids.out, port)
    of_kernel = [line for line in sockets.out.splitlines() if line.strip() and "users:(" not in line]
    if servers:
        report.ok("port", f"by RDMA, {', '.join(servers)} listens on port {port}")
    elif ids.status != 0 or sockets.status != 0:
        report.skip("port", f"who listens on port {port}: {ids.err or sockets.err}", "sudo apt install iproute2")
    elif of_kernel and not system.is_root():
        report.skip("port", f"only root can tell whether it is by RDMA that somebody listens on port {port}",
                    f"sudo rsiw-doctor --port {port}")
    elif of_kernel:
        report.ok("port", f"the kernel listens on port {port}, as it does for RDMA")
    elif sockets.out.strip():
        report.fail("port", f"a TCP program listens on port {port}, and nobody by RDMA",
                    f"sudo ss -ltnp 'sport = :{port}'   # which one; have it use RDMA, or another port")
    else:
        report.fail("port", f"nobody listens on port {port} of this host",
                    f"rping -s -p {port} -v   # a server for a test")
