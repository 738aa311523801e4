#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What tools/preflight says before make run and make test. It runs in a copy of the tools, with commands in its PATH
that answer as on the machine of each case; the tools that it asks for their products are stand-ins."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
# What preflight runs as it is.
REAL = "awk bash cut dirname env grep head mkdir mktemp rm sed sh sha256sum stat tail timeout uname".split()
MADE = ["buildroot", "kernel", "kernel-debug", "guest-image"]
# Has its product if the file "has" names it; whoever calls it to make that is noted.
TOOL = """#!/bin/bash
grep -qwF -- "{name}" "{folder}/has" || {{ [ "$RSIW_ONLY_CACHED" ] || echo "{name}" >>"{folder}/made"; exit 1; }}
echo "{folder}/root"
"""


def cat(meminfo="MemAvailable: 6000000 kB\nSwapFree: 0 kB", uid_map="0 0 4294967295", **others):
    """A cat that has these texts for files of /proc and /sys, whose names end with the arguments'."""
    cases = [f'*/{name}) echo "{text}" ;;' for name, text in
             {"meminfo": meminfo, "uid_map": uid_map, **others}.items()]
    return "case $1 in\n" + "\n".join(cases) + "\n/proc/* | /sys/*) exit 1 ;;\n*) exec /bin/cat \"$@\" ;;\nesac"


def df(kb):
    return f'echo Filesystem; echo "/dev/vda 500000000 0 {kb} 0% /"'


USER = {"id": 'if [ "$1" = -u ]; then echo 1000; else echo ann; fi', "sudo": ""}
REFUSED = "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1"
# A machine with all that is needed, whose user is root.
GOOD = {"id": 'if [ "$1" = -u ]; then echo 0; else echo root; fi', "df": df(50000000), "cat": cat(), "unshare": "",
        "git": "", "apt-helper": "", "apt-get": "", "mmdebstrap": ""}
ROOT_AND_DISK = "making the build root and the guests' disk needs root"

# What differs from the good machine (None: there is no such command), and the line about it.
LACKS = [
    ({**USER, "sudo": None},
     ROOT_AND_DISK + ", and there is no sudo: run this as root, or install sudo and allow it to ann"),
    ({**USER, "sudo": "echo 'sudo: a password is required' >&2; exit 1"},
     ROOT_AND_DISK + ", and sudo refuses without a terminal (a password is required): run this as root, or allow ann "
     "to use sudo without a password"),
    ({"unshare": REFUSED},
     "root may not mount in a namespace of its own here (unshare: unshare failed: Operation not permitted): in a "
     "container, start that with --privileged; otherwise use a virtual machine"),
    ({"cat": cat(uid_map="0 1000 1")},
     "the user namespace that this runs in has 1 of the 65536 users that making the build root and the guests' disk "
     "needs: give it a range of subordinate user IDs, or run this outside of it"),
    ({**USER, "unshare": REFUSED},
     "ann may not mount in a user namespace here (unshare: unshare failed: Operation not permitted): run this as "
     "root, or outside of this chroot or container"),
    *[({**USER, "unshare": REFUSED, "cat": cat(**{knob: value})},
       "ann may not mount in a user namespace here (unshare: unshare failed: Operation not permitted): as root, "
       f"'sysctl {where}.{knob}={remedy}', or run this as root") for where, knob, value, remedy in [
           ("kernel", "unprivileged_userns_clone", 0, 1),
           ("user", "max_user_namespaces", 0, 10000),
           ("kernel", "apparmor_restrict_unprivileged_userns", 1, 0)]],
    ({"apt-get": None, "mmdebstrap": None},
     "this is no Debian machine, and has no apt-get: install mmdebstrap, and the keys of Debian 13 "
     "(debian-archive-keyring), in its own way"),
    ({"df": df(8000000)},
     "CACHE has 8.1 GB free, and 10.5 GB are needed: make room, or have RSIW_CACHE name a directory elsewhere"),
    ({"cat": cat(meminfo="MemAvailable: 1000000 kB\nSwapFree: 500000 kB")},
     "1536 MB of memory are available, and 2500 are needed: end other programs, or add memory or swap"),
    ({"cat": cat(**{"memory.max": 1000000000})},
     "1000 MB of memory are available, and 2500 are needed: end other programs, or add memory or swap"),
    ({"apt-helper": "echo \"E: Failed to fetch http://deb.debian.org/x  Could not resolve 'deb.debian.org'\"; exit 100"},
     "http://deb.debian.org/debian does not answer (Could not resolve 'deb.debian.org'): have http_proxy name the "
     "network's proxy, or RSIW_MIRROR another mirror of Debian"),
]


class Preflight(unittest.TestCase):
    def setUp(self):
        # in-root needs no mount point below /tmp.
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.top = self.folder / "top"
        self.cache = self.folder / "cache"
        (self.top / "tools").mkdir(parents=True)
        for name in ("lib.sh", "flavour.sh"):
            shutil.copy(TOP / "tools" / name, self.top / "tools")
        # Another device in place of that of taps.
        (self.folder / "tun").symlink_to("/dev/null")
        self.script(self.top / "tools/preflight",
                    (TOP / "tools/preflight").read_text().replace("/dev/net/tun", f"{self.folder}/tun"))
        for name in MADE:
            self.script(self.top / "tools" / name, TOOL.format(name=name, folder=self.folder))
        self.has()

    @staticmethod
    def script(path, text):
        path.write_text(text)
        path.chmod(0o755)

    def has(self, *names):
        (self.folder / "has").write_text("".join(f"{name}\n" for name in names))

    def run_in(self, machine, *args, status=0):
        """Runs preflight on the good machine with changes, and returns its lines."""
        commands = self.folder / "bin"
        shutil.rmtree(commands, ignore_errors=True)
        commands.mkdir()
        for name in REAL:
            (commands / name).symlink_to(shutil.which(name))
        for name, text in {**GOOD, **machine}.items():
            if text is not None:
                self.script(commands / name, f"#!/bin/bash\n{text}\n")
        # In a session without a terminal, as sudo asks on that.
        done = subprocess.run([self.top / "tools/preflight", *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, start_new_session=True, check=False,
                              env={"PATH": str(commands), "RSIW_CACHE": str(self.cache), "HOME": str(self.folder)})
        self.assertEqual(done.returncode, status, done.stdout)
        self.assertFalse((self.folder / "made").exists(), "a tool was asked to make something")
        lines = [line.removeprefix("preflight: ") for line in done.stdout.splitlines()]
        return [line.replace(str(self.cache), "CACHE").replace(f"{self.folder}/tun", "TUN") for line in lines]

    def test_says_what_it_makes(self):
        parts = ["the build root (3 min)", "the kernel's source and a tree of it (4 min)", "the guests' disk (3 min)"]
        self.assertEqual(self.run_in({}, "run"), [
            "make run builds rsiw.ko, boots two virtual hosts, and shows RDMA between them",
            f"first, and only once, it makes in CACHE: {', '.join(parts)}",
            "all of it takes about 13 minutes on two processors; the next time, about a minute"])
        parts.insert(2, "the debug kernel (15 min)")
        self.assertEqual(self.run_in({}, "test"), [
            "make test runs the tests that CI runs",
            f"first, and only once, it makes in CACHE: {', '.join(parts)}",
            "all of it takes about 45 minutes on two processors; the next time, about 20 minutes"])

    def test_leaves_out_what_the_cache_has(self):
        self.has("buildroot", "kernel", "guest-image")
        for path in (self.cache, self.top):
            (self.folder / f"root{path}").mkdir(parents=True)
        (self.top / "build/stock").mkdir(parents=True)
        (self.top / "build/stock/rsiw.ko").touch()
        # All is there, so neither root nor the mirror is needed.
        machine = {**USER, "sudo": None, "apt-helper": "exit 1", "df": df(1000000)}
        self.assertEqual(self.run_in(machine, "run")[1:], ["all of it takes about a minute on two processors"])
        self.assertEqual(self.run_in({"apt-helper": "exit 1"}, "test")[1:], [
            "first, and only once, it makes in CACHE: the debug kernel (15 min)",
            "all of it takes about 35 minutes on two processors; the next time, about 20 minutes"])

    def test_leaves_out_what_the_stages_do_not_need(self):
        self.assertEqual(self.run_in({}, "test", "scripts", "host"), [
            "make test runs a part of the tests: scripts host",
            "first, and only once, it makes in CACHE: the build root (3 min), "
            "the kernel's source and a tree of it (4 min)",
            "making these takes about 7 minutes on two processors"])
        self.assertIn("guests' disk (3 min)", self.run_in({}, "test", "vm-stock")[1])

    def test_says_what_the_machine_lacks(self):
        for machine, line in LACKS:
            with self.subTest(line):
                self.assertEqual(self.run_in(machine, "run", status=1)[3:], [
                    line, "nothing was built yet, as this machine lacks 1 of the things needed (above)"])

    def test_says_all_that_the_machine_lacks(self):
        lines = self.run_in({key: value for machine, _ in LACKS[-3:] for key, value in machine.items()} |
                            {"unshare": REFUSED}, "run", status=1)
        self.assertIn("lacks 3 of the things", lines[-1])

    def test_tests_need_git(self):
        fatal = {"git": "echo 'fatal: not a git repository' >&2; exit 128"}
        self.run_in(fatal, "run")
        self.assertEqual(self.run_in(fatal, "test", status=1)[3:-1], [
            "make test asks git for the files of the project, which fails (fatal: not a git repository): use a clone "
            "of your own"])
        self.assertEqual(self.run_in({"git": None}, "test", status=1)[3:-1], [
            "make test asks git for the files of the project, and there is no git: install it"])

    def test_wants_a_path_that_make_can_use(self):
        self.cache = self.folder / "my cache"
        self.assertEqual(self.run_in({}, "run", status=1)[3:-1], [
            "the kernel's build system cannot work in 'CACHE': use a path without blanks and colons (RSIW_CACHE moves "
            "the cache)"])

    def test_a_new_checkout_needs_a_mount_point(self):
        self.has(*MADE)
        (self.folder / f"root{self.cache}").mkdir(parents=True)
        lines = self.run_in({**USER, "sudo": None}, "run", status=1)
        self.assertEqual(lines[2].replace(str(self.top), "TOP"),
                         "making a mount point for TOP needs root, and there is no sudo: run this as root, or install "
                         "sudo and allow it to ann")

    def test_says_why_no_taps_join_the_hosts(self):
        (self.folder / "tun").unlink()
        line = ("no TUN (it does not exist), so a socket joins the two hosts, without segmentation offload; "
                "'modprobe tun', 'chmod 666 TUN', or a container's --device TUN mends that")
        self.assertIn(line, self.run_in({}, "run"))
        self.assertNotIn(line, self.run_in({}, "test", "scripts"))
        self.assertFalse((self.folder / "tun").exists())

    def test_refuses_a_kernel_that_does_not_exist(self):
        self.assertEqual(self.run_in({}, "run", "colour", status=1),
                         ["no such kernel: 'colour' (tools/flavour.sh has the names)"])


class Cached(unittest.TestCase):
    def test_real_tools_make_nothing_when_asked_what_they_have(self):
        with tempfile.TemporaryDirectory() as cache:
            for name in MADE:
                done = subprocess.run([TOP / "tools" / name], check=False, capture_output=True,
                                      env={**os.environ, "RSIW_CACHE": cache, "RSIW_ONLY_CACHED": "yes"})
                self.assertEqual((name, done.returncode, done.stdout, done.stderr), (name, 1, b"", b""))
            self.assertEqual(os.listdir(cache), [])


class Progress(unittest.TestCase):
    def run_lines(self, lines):
        with tempfile.TemporaryDirectory() as cache:
            return subprocess.run(["bash", "-c", f"umask 077; . {TOP}/tools/lib.sh\n{lines}"], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=600, check=False,
                                  env={**os.environ, "RSIW_CACHE": cache})

    def test_a_caller_can_use_what_root_makes(self):
        self.assertEqual(self.run_lines("umask").stdout, "0022\n")

    def test_says_when_a_stage_begins_and_ends(self):
        done = self.run_lines('fill() { touch "$1/file"; }\n'
                              'stage "$CACHE/a" "filling a" fill; stage "$CACHE/a" again fill')
        self.assertRegex(done.stdout, r"\Abash: filling a \.\.\.\nbash: filling a: \d+ s\n\Z")

    def test_a_stage_that_fails_leaves_nothing_behind(self):
        # The read of the output ends only when each process has: that which tells the time, too.
        done = self.run_lines('fill() { false; }; stage "$CACHE/a" "filling a" fill')
        self.assertEqual((done.returncode, done.stdout), (1, "bash: filling a ...\nbash: failed: filling a\n"))
        self.assertEqual(self.run_lines('begin "filling a"; kill -9 $$').stdout, "bash: filling a ...\n")


if __name__ == "__main__":
    unittest.main()
