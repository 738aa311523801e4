# SPDX-License-Identifier: GPL-2.0
"""A host with canned answers, for the tests of rsiw-doctor."""

import contextlib
import fnmatch
import io
import json
import pathlib
import re
import sys
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "admin"))
sys.dont_write_bytecode = True

from doctor import link, main  # noqa: E402
from doctor.report import Report  # noqa: E402
from doctor.system import Result, System  # noqa: E402

RELEASE = "7.3.4+deb13-amd64"


class Fake(System):
    """A host on which all is well, until a test changes it: files by path, commands by their words."""

    def __init__(self):
        self.files = {
            "/sys/module/rsiw": "", "/sys/module/ib_uverbs": "", "/sys/module/rdma_ucm": "", "/sys/module/iw_cm": "",
            "/sys/module/rsiw/taint": "OE", "/proc/sys/kernel/tainted": "12288",
            "/sys/class/infiniband/rsiw0": "", "/sys/class/infiniband/rsiw0/settings": "",
            "/sys/class/infiniband/rsiw0/settings/crc": "1",
            "/sys/class/infiniband/rsiw0/settings/port_mapper": "0",
            "/sys/class/infiniband/rsiw0/settings/mpa_revision": "2",
            "/sys/class/infiniband_verbs/uverbs0/ibdev": "rsiw0",
            "/sys/class/net/eth0": "", "/sys/class/net/eth1": "",
            "/dev/infiniband/uverbs0": "", "/dev/infiniband/rdma_cm": "",
            "/usr/lib/x86_64-linux-gnu/libibverbs/libsiw-rdmav34.so": "",
            "/usr/lib/x86_64-linux-gnu/librdmacm.so.1": "", "/etc/libibverbs.d/siw.driver": "driver siw",
        }
        self.commands = {
            "modinfo -F vermagic rsiw": RELEASE + " SMP preempt mod_unload",
            "rdma -j link show": [{"ifname": "rsiw0", "port": 1, "state": "ACTIVE", "netdev": "eth0"}],
            "rdma system show": "netns shared privileged-qkey off monitor on copy-on-fork on",
            "ip -j addr show dev eth0": [{"ifname": "eth0", "flags": ["BROADCAST", "UP", "LOWER_UP"], "mtu": 1500,
                                          "addr_info": [{"family": "inet", "local": "10.7.0.1", "prefixlen": 24,
                                                         "scope": "global"}]}],
            "ip -j route get 10.7.0.2": [{"dst": "10.7.0.2", "dev": "eth0", "prefsrc": "10.7.0.1", "cache": []}],
        }
        self.locked, self.root, self.limits, self.privileged = set(), True, (None, None), True
        self.groups, self.running, self.programs = {}, set(), {"iwpmd", "nft", "rdma"}

    def run(self, *command, limit=8):
        answer = self.commands.get(" ".join(command), Result(1, "", "no"))
        if isinstance(answer, Result):
            return answer
        return Result(0, answer if isinstance(answer, str) else json.dumps(answer))

    def run_all(self, commands, limit=8):
        return [self.run(*command) for command in commands]

    def has(self, command):
        return command in self.programs

    def read(self, name):
        return self.files.get(name)

    def read_bytes(self, name):
        value = self.files.get(name)
        return value.encode("latin-1") if value is not None else None

    def exists(self, name):
        return name in self.files

    def glob(self, pattern):
        return sorted(name for name in self.files if fnmatch.fnmatch(name, pattern))

    def usable(self, name):
        return name not in self.locked

    def group_of(self, name):
        return self.groups.get(name)

    def release(self):
        return RELEASE

    def is_root(self):
        return self.root

    def user(self):
        return "tester"

    def memlock(self):
        return self.limits

    def may_lock(self):
        return self.privileged

    def processes(self, name):
        return ["1"] if name in self.running else []


class Case(unittest.TestCase):
    def setUp(self):
        self.system, self.report = Fake(), Report()

    def examine(self, *arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.status = main.main(list(arguments), self.system)
        return out.getvalue()

    def finds(self, status, pattern, mend, *arguments):
        """The whole command finds this one thing, says what mends it, and finds nothing else."""
        said = self.examine("--quiet", *arguments)
        self.assertRegex(said, pattern)
        self.assertEqual(self.status, status, said)
        self.assertEqual(len(re.findall(r"(?m)^\w", said)), 1, said)
        self.assertIn(mend, said)

    def links(self):
        return [link.Link("rsiw0", "ACTIVE", "eth0")]
