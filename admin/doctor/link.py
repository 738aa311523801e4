# SPDX-License-Identifier: GPL-2.0
"""Links: rsiw's devices, their network devices, addresses and namespaces, and the files that ask for links."""

import ipaddress
import re

from .report import command

LINKS_D = "/etc/rsiw/links.d"
SERVICE = "/usr/lib/systemd/system/rsiw-link@.service"
# As rsiw-link has it.
GOOD_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
LINK_LOCAL = ipaddress.ip_network("fe80::/10")
# Behind a command that makes a link of which nobody knows the type.
OR_RC = "   # or type rsiw_rc, for programs that connect queue pairs without the RDMA CM"


class Link:
    """One of rsiw's devices. `netdev` is None where that is in another network namespace, `vrf` where it is in none.
    `rc` tells the type rsiw_rc, whose `gids` have addresses of other network devices on top of `netdev`, too.
    `addresses` are those by which peers reach `netdev`."""

    def __init__(self, name, state="", netdev=None, rc=False):
        self.name, self.state, self.netdev, self.rc = name, state, netdev, rc
        self.vrf, self.addresses, self.gids = None, [], []

    def netdevs(self):
        """The network devices whose addresses queue pairs may have."""
        return [self.netdev, *sorted({netdev for _, _, netdev in self.gids if netdev} - {self.netdev})]


def type_of(rc):
    return "rsiw_rc" if rc else "rsiw"


def is_rsiw(system, name):
    """Other drivers' devices have no such directory."""
    return system.exists(f"/sys/class/infiniband/{name}/settings")


def is_rc(system, name):
    """Whether programs connect the device's queue pairs themselves: they see an adapter for InfiniBand."""
    return is_rsiw(system, name) and "RNIC" not in (system.read(f"/sys/class/infiniband/{name}/node_type") or "RNIC")


def gids(system, name):
    """(index, address, network device) of each GID. The core makes one of each address."""
    port, found = f"/sys/class/infiniband/{name}/ports/1", []
    for path in system.glob(f"{port}/gids/[0-9]*"):
        index = path.rpartition("/")[2]
        gid = ipaddress.IPv6Address(system.read(path) or 0)
        # Those that are free read as zero. At index 0 is one that is made of the hardware address.
        if int(gid) and gid not in LINK_LOCAL:
            found.append((int(index), gid.ipv4_mapped or gid, system.read(f"{port}/gid_attrs/ndevs/{index}")))
    return sorted(found, key=lambda gid: gid[0])


def parse_links(entries):
    return [Link(e["ifname"], e.get("state", ""), e.get("netdev")) for e in entries if "ifname" in e]


def find(system, report):
    """rsiw's links of this namespace and of others, as far as they show here. None: nobody can tell."""
    found = system.run("rdma", "-j", "link", "show")
    if found.status == 127:
        report.fail("link", "there is no command rdma", "sudo apt install iproute2")
        return None
    if found.status != 0:
        report.fail("link", f"rdma link show: {found.err or 'failed'}", "sudo modprobe ib_core")
        return None
    links = [link for link in parse_links(found.json()) if is_rsiw(system, link.name)]
    for link in links:
        link.rc = is_rc(system, link.name)
        link.gids = gids(system, link.name) if link.rc else []
    # Of the two links of a network device, checks of a route take the first: it serves the RDMA CM.
    return sorted(links, key=lambda link: link.rc)


def netns_mode(system):
    """Whether RDMA devices show in all network namespaces ("shared") or in one ("exclusive")."""
    found = re.search(r"netns\W+(\w+)", system.run("rdma", "system", "show").out)
    return found.group(1) if found else "shared"


def namespace_of(system, name):
    """The named namespace whose network device the RDMA device has, or None."""
    for entry in system.run("ip", "-j", "netns", "list").json():
        ns = entry.get("name")
        links = system.run("ip", "netns", "exec", ns, "rdma", "-j", "link", "show") if ns else None
        if links and any(link.name == name and link.netdev for link in parse_links(links.json())):
            return ns
    return None


def choose(system, report, links, wanted):
    """The links to look at: the wanted one, or all of this namespace. Says what is wrong if there is none."""
    if wanted:
        here = [link for link in links if link.name == wanted and link.netdev]
        if not here:
            report_absent(system, report, links, wanted)
        return here
    here = [link for link in links if link.netdev]
    for link in links:
        if not link.netdev and here:
            report.skip("namespace", f"{link.name} belongs to another network namespace")
    if not here and links:
        report_absent(system, report, links, links[0].name)
    elif not here:
        netdev = likely_netdev(system)
        report.fail("link", "there is no rsiw device", command("sudo rdma link add rsiw0 type rsiw netdev {}", netdev)
                    + OR_RC)
    return here


def report_absent(system, report, links, name):
    there = any(link.name == name for link in links)
    if system.exists(f"/sys/class/infiniband/{name}") and not there:
        report.fail("link", f"{name} is a device of another driver than rsiw", "rdma link show")
        return
    mode = netns_mode(system)
    ns = namespace_of(system, name) if (there or mode == "exclusive") else None
    if ns:
        report.fail("namespace", f"{name} belongs to the network namespace {ns}: programs have to run there",
                    command("sudo ip netns exec {} rsiw-doctor {}", ns, name))
    elif there and not system.is_root():
        report.fail("namespace", f"{name} belongs to another network namespace, which only root can look for",
                    command("sudo rsiw-doctor {}", name))
    elif there:
        report.fail("namespace", f"{name} belongs to a network namespace that is not this one, and has no name",
                    "sudo lsns -t net   # then, with a process of it: sudo nsenter -n -t PID rsiw-doctor")
    else:
        text = f"there is no rsiw device {name}"
        if mode == "exclusive":
            text += " in this network namespace (devices show in their own only)"
        netdev, rc = configured(system).get(name) or (None, False)
        known = make(system, name, netdev, rc) if netdev else make(system, name, likely_netdev(system), False) + OR_RC
        report.fail("link", text, known)


def likely_netdev(system):
    """The network device of the default route, or the first that could serve."""
    for entry in system.run("ip", "-j", "route", "show", "default").json():
        if entry.get("dev"):
            return entry["dev"]
    for entry in system.run("ip", "-j", "link", "show", "up").json():
        if entry.get("link_type") == "ether":
            return entry.get("ifname")
    return "eth0"


def parse_file(text):
    """KEY=VALUE lines; blanks around them do not count."""
    pairs = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.lstrip().startswith("#"):
            pairs[key.strip()] = value.strip()
    return pairs


def files(system):
    """(file, link's name, network device or None, whether of type rsiw_rc) of each file of links.d."""
    for path in system.glob(f"{LINKS_D}/*.conf"):
        pairs = parse_file(system.read(path) or "")
        yield path, pairs.get("name") or stem_of(path), pairs.get("netdev"), pairs.get("type") == "rsiw_rc"


def stem_of(path):
    return path.rpartition("/")[2].removesuffix(".conf")


def configured(system):
    return {name: (netdev, rc) for _, name, netdev, rc in files(system)}


def unit_of(system, name, netdev, rc):
    """The instance of rsiw-link@.service that has the link, or None."""
    if not system.systemd() or not system.exists(SERVICE):
        return None
    for path, link, *wanted in files(system):
        unit = stem_of(path)
        if GOOD_NAME.fullmatch(unit) and wanted[0] and (link == name or wanted == [netdev, rc]):
            return unit
    return None


def make(system, name, netdev, rc):
    """The command that makes a link: by its service if it has one, which knows its settings."""
    unit = unit_of(system, name, netdev, rc)
    if unit:
        return command("sudo systemctl daemon-reload && sudo systemctl restart {}", f"rsiw-link@{unit}")
    return command("sudo rdma link add {} type {} netdev {}", name, type_of(rc), netdev)


def remake(system, name, netdev, rc):
    """The command that makes a link anew. A service removes what it has made itself, and nothing else."""
    unit = unit_of(system, name, netdev, rc)
    if unit and system.exists(f"/run/rsiw/{unit}"):
        return make(system, name, netdev, rc)
    return command("sudo rdma link delete {} && ", name) + make(system, name, netdev, rc)


def check_files(system, report, links):
    """Every file of links.d has its link."""
    for path, name, netdev, rc in files(system):
        if not GOOD_NAME.fullmatch(stem_of(path)):
            report.fail("links.d", f"{path}: no link can have a file of this name",
                        command("sudo mv {} {}", path, f"{LINKS_D}/NAME.conf"))
            continue
        if not netdev:
            report.fail("links.d", f"{path} names no network device (netdev=...)", command("sudo editor {}", path))
            continue
        there = [link for link in links if (link.netdev, link.rc) == (netdev, rc)]
        same_name = next((link for link in links if link.name == name), None)
        if there:
            if there[0].name == name:
                report.ok("links.d", f"{path}: {name} is there")
            else:
                report.warn("links.d", f"{path}: the device of {netdev} is {there[0].name}, not {name}",
                            command("sudo rdma dev set {} name {}", there[0].name, name))
        elif same_name:
            what = f"on {netdev}" if same_name.netdev != netdev else f"of type {type_of(rc)}"
            report.warn("links.d", f"{path}: {name} is not {what}", remake(system, name, netdev, rc))
        elif not system.exists(f"/sys/class/net/{netdev}"):
            report.fail("links.d", f"{path}: {name} is missing, as there is no network device {netdev} here",
                        "ip link show   # is it there by another name, or in another namespace?")
        else:
            report.fail("links.d", f"{path}: {name} is missing", make(system, name, netdev, rc))


def check(system, report, link):
    """A link's state, its network device, and that one's addresses. Returns the network device's MTU."""
    name, netdev = link.name, link.netdev
    entries = system.run("ip", "-j", "addr", "show", "dev", netdev).json()
    entry = entries[0] if entries else {}
    flags = entry.get("flags", [])
    if "UP" not in flags:
        report.fail("netdev", f"{netdev}, the network device of {name}, is down", command("sudo ip link set {} up", netdev))
    elif "LOWER_UP" not in flags:
        report.fail("netdev", f"{netdev}, the network device of {name}, has no carrier",
                    command("sudo ethtool {}   # is the cable in, and the switch's port on?", netdev))
    elif link.state != "ACTIVE":
        report.fail("link", f"{name} is {link.state or 'without a state'}, and {netdev} is up",
                    remake(system, name, netdev, link.rc))
    else:
        report.ok("link", f"{name} on {netdev} is active")
    link.vrf = vrf_of(system, netdev)
    if link.vrf:
        report.ok("netdev", f"{netdev} is in the VRF {link.vrf}: programs name its address, clients as their source")
    # Those of lo are of host scope, and serve programs of this host.
    scopes = ("global", "host") if "LOOPBACK" in flags else ("global",)
    usable = [a["local"] for a in entry.get("addr_info", []) if a.get("scope") in scopes and "local" in a]
    link.addresses = usable
    if usable:
        report.ok("address", f"{netdev} has {', '.join(usable)}")
    elif link.gids:
        report.ok("address", f"{netdev} has no address, and those on top of it have: {', '.join(link.netdevs()[1:])}")
    else:
        report.fail("address", f"{netdev} has no address by which a peer could reach it",
                    command("sudo ip addr add ADDRESS/PREFIX dev {}   # an address of its network", netdev))
    return entry.get("mtu")


def vrf_of(system, netdev):
    """The VRF that a network device is in, or is; None: none."""
    for entry in system.run("ip", "-j", "-d", "link", "show", "dev", netdev).json():
        info = entry.get("linkinfo", {})
        if info.get("info_slave_kind") == "vrf":
            return entry.get("master")
        if info.get("info_kind") == "vrf":
            return netdev
    return None


def setting_file(name, key):
    return f"/sys/class/infiniband/{name}/settings/{key}"


def setting(system, name, key):
    return system.read(setting_file(name, key))


def check_port_mapper(system, report, link):
    wanted = setting(system, link.name, "port_mapper")
    running = bool(system.processes("iwpmd"))
    if wanted == "1" and not running:
        service = system.systemd() and system.glob("/usr/lib/systemd/system/iwpmd.service")
        start = "sudo systemctl start iwpmd" if service else "sudo iwpmd"
        report.fail("portmapper", f"{link.name} has port_mapper=1, and iwpmd does not run: nothing can listen",
                    start if system.has("iwpmd") else "sudo apt install rdma-core")
    elif wanted == "0" and running:
        # udev starts it for any iWARP device, and a peer that asks it is told the port that it asked for.
        report.ok("portmapper", f"{link.name} does without it (port_mapper=0); iwpmd runs, which does no harm")
    elif wanted is not None:
        report.ok("portmapper", f"{link.name} has port_mapper={wanted}, and iwpmd "
                  + ("runs" if running else "does not run"))
