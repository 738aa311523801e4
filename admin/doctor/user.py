# SPDX-License-Identifier: GPL-2.0
"""What a program needs of this host: the provider, device nodes, locked memory, and room in its cgroup."""

import re

from .report import command

MIB = 1 << 20
# With less locked memory a program has hardly room for its queues.
LEAST = MIB
# Half of a usual MPI program's; the distribution's limit for users is 8 MiB.
PLENTY = 64 * MIB
# Who may open the devices, where nobody has chosen a group for that.
GROUP = "rdma"
RULES = "/etc/udev/rules.d/99-rdma.rules"
DRIVER = "/etc/libibverbs.d/siw.driver"


def check_provider(system, report):
    """The library that drives the device: libibverbs loads what the .driver files name."""
    libraries = [path for pattern in ("/usr/lib/*/libibverbs/libsiw-rdmav*.so", "/usr/lib64/libibverbs/libsiw-rdmav*.so")
                 for path in system.glob(pattern)]
    if not libraries:
        report.fail("provider", "the provider siw of libibverbs is not installed: programs see no device",
                    "sudo apt install --reinstall ibverbs-providers")
    elif not re.search(r"^driver\s+siw$", system.read(DRIVER) or "", re.M):
        report.fail("provider", f"{DRIVER} is missing or does not name siw: programs see no device",
                    f"echo 'driver siw' | sudo tee {DRIVER}")
    else:
        report.ok("provider", libraries[0])
    if not system.glob("/usr/lib/*/librdmacm.so.1") + system.glob("/usr/lib64/librdmacm.so.1"):
        report.fail("provider", "librdmacm is not installed: programs cannot connect", "sudo apt install librdmacm1")


def check_nodes(system, report, links):
    """The nodes that programs open."""
    nodes = {}
    for path in system.glob("/sys/class/infiniband_verbs/uverbs*/ibdev"):
        nodes[system.read(path)] = "/dev/infiniband/" + path.split("/")[4]
    wanted = [(link.name, nodes.get(link.name)) for link in links] if system.exists("/sys/module/ib_uverbs") else []
    if system.exists("/sys/module/rdma_ucm"):
        wanted.append(("librdmacm", "/dev/infiniband/rdma_cm"))
    for name, node in wanted:
        if not node or not system.exists(node):
            report.fail("nodes", f"{name}: the node {node or 'in /dev/infiniband'} is missing",
                        "sudo udevadm trigger --action=add --subsystem-match=infiniband_verbs "
                        "--subsystem-match=misc && sudo udevadm settle")
        elif system.usable(node):
            report.ok("nodes", f"{node} ({name}) is open to {system.user()}")
        else:
            group = system.group_of(node)
            report.fail("nodes", f"{system.user()} may not read and write {node} ({name})", *let_in(system, group))


def let_in(system, group):
    """The commands that let the user open the nodes. Without a group that may, they make one."""
    join = command("sudo usermod -aG {} {}   # and log in anew", group or GROUP, system.user())
    if group:
        return [join]
    return [f"sudo groupadd --system --force {GROUP} && " + join,
            command("echo {} | sudo tee {}", f'KERNEL=="uverbs*|rdma_cm", GROUP="{GROUP}", MODE="0660"', RULES),
            "sudo udevadm control --reload && sudo udevadm trigger --action=add "
            "--subsystem-match=infiniband_verbs --subsystem-match=misc && sudo udevadm settle"]


def size(count):
    if count is None:
        return "unlimited"
    return f"{count // MIB} MiB" if count >= MIB else f"{count // 1024} KiB"


def pinned(system, limit):
    """Processes that have pinned more than four fifths of `limit`: (number, name, bytes)."""
    for path in system.glob("/proc/[0-9]*/status"):
        text = system.read(path) or ""
        pin = re.search(r"^VmPin:\s+(\d+) kB", text, re.M)
        if pin and int(pin.group(1)) * 1024 * 5 > limit * 4:
            name = re.search(r"^Name:\s+(\S+)", text, re.M)
            yield path.split("/")[2], name.group(1) if name else "?", int(pin.group(1)) * 1024


def origin(system):
    """Which files set limits of locked memory at login."""
    paths = ["/etc/security/limits.conf", *system.glob("/etc/security/limits.d/*.conf")]
    found = [path for path in paths if re.search(r"^\s*[^#\s]\S*\s+\S+\s+memlock\s", system.read(path) or "", re.M)]
    return f" (limits are in {', '.join(found)})" if found else ""


def check_memlock(system, report, memory=None):
    """The limit of locked memory, which registrations count against, for this user and for services."""
    soft, hard = system.memlock()
    least = (memory or 0) * MIB
    wanted = "unlimited" if not least else least // 1024
    if soft is None or system.may_lock():
        who = "is unlimited" if soft is None else f"of {size(soft)} does not count for {system.user()} (CAP_IPC_LOCK)"
        report.ok("memlock", f"the limit of locked memory {who}")
    else:
        if hard is None or least and hard >= least:
            mend = f"ulimit -l {wanted}"
        else:
            mend = f"sudo prlimit --pid $$ --memlock={wanted if not least else least}"
        enough = least or PLENTY
        # "-" sets both limits, and must not lower the hard one.
        which = "-" if hard is not None and hard < enough else "soft"
        keep = command("echo {} | sudo tee {}   # from the next login on", f"{system.user()} {which} memlock {enough // 1024}",
                       f"/etc/security/limits.d/rsiw-{system.user()}.conf")
        text = f"{system.user()} may lock {size(soft)} of memory{origin(system)}"
        if soft < (least or LEAST):
            report.fail("memlock", f"{text}: registrations fail with \"Cannot allocate memory\"", mend, keep)
        elif not least and soft < PLENTY:
            report.warn("memlock", f"{text}: larger registrations fail with \"Cannot allocate memory\"", mend, keep)
        else:
            report.ok("memlock", text)
        for number, name, count in pinned(system, soft):
            report.warn("memlock", f"{name} (process {number}) has pinned {size(count)} of {size(soft)}",
                        f"sudo prlimit --pid {number} --memlock=unlimited")
    if system.systemd():
        check_services(system, report)


def check_services(system, report):
    found = system.run("systemctl", "show", "-p", "DefaultLimitMEMLOCK").out.strip().partition("=")[2]
    if not found.isdigit():
        return
    if int(found) < PLENTY:
        report.ok("memlock", f"services of systemd may lock {size(int(found))} (DefaultLimitMEMLOCK); one that "
                  "registers more needs LimitMEMLOCK=infinity")


def check_cgroup(system, report, links):
    """Limits of RDMA objects (rdma.max) of the cgroup of this process and those above it."""
    group = re.search(r"^0::(/.*)$", system.read("/proc/self/cgroup") or "", re.M)
    path = group.group(1).rstrip("/") if group else ""
    names = {link.name for link in links}
    while path:
        folder = "/sys/fs/cgroup" + path
        limits, used = parse_rdma(system.read(f"{folder}/rdma.max")), parse_rdma(system.read(f"{folder}/rdma.current"))
        for device in sorted(names & limits.keys()):
            for key, limit in limits[device].items():
                if limit == "max":
                    continue
                now = used.get(device, {}).get(key, "0")
                mend = command("echo {} | sudo tee {}", f"{device} {key}=max", f"{folder}/rdma.max")
                full = now.isdigit() and limit.isdigit() and int(now) >= int(limit)
                (report.fail if full else report.warn)(
                    "cgroup", f"the cgroup {path} has {now} of at most {limit} {key} of {device}", mend)
        path = path.rpartition("/")[0]


def parse_rdma(text):
    """Lines as "rsiw0 hca_handle=2 hca_object=max"."""
    devices = {}
    for line in (text or "").splitlines():
        name, *pairs = line.split()
        devices[name] = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    return devices
