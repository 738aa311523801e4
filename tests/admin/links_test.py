#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What rsiw-link reads in files of links.d, and which units it makes of them. Nothing of this host is touched."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = TOP / "admin/rsiw-link"
NAME_RULE = "the name may have 63 letters, digits, '.', '_' and '-'"

# A file's text, and what is wrong with it.
BAD = [
    ("", ": there is no line netdev=..."),
    ("# netdev=eth0\n", ": there is no line netdev=..."),
    ("crc=0\n", ": there is no line netdev=..."),
    ("netdev\n", ":1: this is not KEY=VALUE"),
    ("=eth0\n", ":1: this is not KEY=VALUE"),
    ("[Link]\nnetdev=eth0\n", ":1: this is not KEY=VALUE"),
    ("\n# of two words\nnet dev=eth0\n", ":3: this is not KEY=VALUE"),
    ("netdev=eth0\nnetdev=eth0\n", ":2: netdev is in line 1 already"),
    ("netdev=eth0\n\ncrc=0\ncrc=0\n", ":4: crc is in line 3 already"),
    ("netdev=\n", ":1: '' cannot be the name of a network device"),
    ("netdev=.\n", ":1: '.' cannot be the name of a network device"),
    ("netdev=..\n", ":1: '..' cannot be the name of a network device"),
    ("netdev=a/b\n", ":1: 'a/b' cannot be the name of a network device"),
    ("netdev=eth0:1\n", ":1: 'eth0:1' cannot be the name of a network device"),
    ("netdev=eth0 eth1\n", ":1: 'eth0 eth1' cannot be the name of a network device"),
    ("netdev=eth0 # the first\n", ":1: 'eth0 # the first' cannot be the name of a network device"),
    ("netdev=sixteen_letters_\n", ":1: 'sixteen_letters_' cannot be the name of a network device"),
    # Bytes count, not characters.
    ("netdev=éééééééé\n", ":1: 'éééééééé' cannot be the name of a network device"),
    ("netdev=eth0\nname=\n", ":2: " + NAME_RULE),
    ("netdev=eth0\nname=a/b\n", ":2: " + NAME_RULE),
    ("netdev=eth0\nname=a%d\n", ":2: " + NAME_RULE),
    ("netdev=eth0\nname=-a\n", ":2: " + NAME_RULE),
    ("netdev=eth0\nname=.a\n", ":2: " + NAME_RULE),
    ("netdev=eth0\nname=a b\n", ":2: " + NAME_RULE),
    ("netdev=eth0\nname=é\n", ":2: " + NAME_RULE),
    ("netdev=eth0\nname=" + "x" * 64, ":2: " + NAME_RULE),
    ("netdev=eth0\ncolour=1\n", ":2: there is no setting colour"),
    ("netdev=eth0\nCRC=1\n", ":2: there is no setting CRC"),
    ("netdev=eth0\n@=1\n", ":2: there is no setting @"),
    ("netdev=eth0\na[$(touch x)]=1\n", ":2: this is not KEY=VALUE"),
    ("netdev=eth0\na[$(id)]=1\n", ":2: there is no setting a[$(id)]"),
    ("netdev=eth0\ncrc\n", ":2: this is not KEY=VALUE"),
] + [(f"netdev=eth0\ncrc={value}\n", ":2: crc must be a number from 0 to 1")
     for value in ("", "2", "-1", "+1", "01", "0x1", "1.0", "yes", "1 0", "1 # on", "a[0]", "$(id)", "4294967296",
                   "18446744073709551616", "1=1")]

BAD += [(f"netdev=eth0\ntls_names={value}\n", ":2: tls_names must be NAME or PORT=NAME, with commas between them")
        for value in ("0=a", "65536=a", "=a", "80=", "a, 80= ,b", "a\tb", "é", "a" * 129, "a," * 2001, "\x7f", "80=\x1b")]

# A file's text, and the names of the RDMA device and of the network device that it gives "link".
GOOD = [
    ("netdev=eth0\n", "link", "eth0"),
    ("netdev=eth0", "link", "eth0"),
    ("netdev=eth0\r\ncrc=1\r\n", "link", "eth0"),
    ("  netdev = eth0\t\n\n\t# a comment\n  \n#netdev=eth1\ncrc= 0 \n", "link", "eth0"),
    ("crc=0\nname=a.b-c_D9\nnetdev=br-1.100\n", "a.b-c_D9", "br-1.100"),
    ("netdev=fifteen_letters\nname=" + "x" * 63, "x" * 63, "fifteen_letters"),
    ("netdev=a=b\n", "link", "a=b"),
    ("netdev=#1\n", "link", "#1"),
] + [(f"netdev=eth0\ntls_names={value}\n", "link", "eth0")
     for value in ("hosta", "", "*", "hosta, host b,, 80=hosta@[fd07::1] ,", "80 = a", "a=b", "$(id)", "65535=" + "a" * 128,
                   "a;b", "'", "a" * 128)]

# Network devices, and their units: the answers of `systemd-escape -p --suffix=device /sys/subsystem/net/devices/...`.
UNITS = {
    "eth0": "eth0", "eth0.100": "eth0.100", "br-lan": r"br\x2dlan", "a_b": "a_b", ".x": ".x", "-": r"\x2d",
    "a@b": r"a\x40b", 'a"b': r"a\x22b", "a\\b": r"a\x5cb", "é": r"\xc3\xa9", "50%": r"50\x25", "#1": r"\x231",
    "a=b": r"a\x3db", "$(id)": r"\x24\x28id\x29", "*": r"\x2a", "[a]": r"\x5ba\x5d", "enp0s31f6np0.12": "enp0s31f6np0.12",
}


class Links(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.links = pathlib.Path(folder.name, "links.d")
        self.out = pathlib.Path(folder.name, "units")
        self.links.mkdir()

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              cwd=self.links, env=dict(os.environ, RSIW_LINKS_DIR=self.links))

    def write(self, name, text):
        path = self.links / f"{name}.conf"
        path.write_text(text, newline="")
        return path

    def generate(self):
        done = self.run_program("generate", self.out)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        found = {}
        for path in self.out.glob("**/*"):
            if path.is_symlink():
                found[str(path.relative_to(self.out))] = os.readlink(path)
            elif path.is_file():
                found[str(path.relative_to(self.out))] = path.read_text()
        return found

    def test_bad_files_are_refused_by_one_line(self):
        for text, wrong in BAD:
            with self.subTest(text):
                path = self.write("link", text)
                done = self.run_program("check", "link")
                self.assertEqual((done.returncode, done.stdout), (1, f"rsiw-link: {path}{wrong}\n"))
                # It does not get as far as to ask the kernel for anything.
                done = self.run_program("up", "link")
                self.assertEqual((done.returncode, done.stdout), (1, f"rsiw-link: {path}{wrong}\n"))
        self.assertEqual([p.name for p in self.links.iterdir()], ["link.conf"])

    def test_good_files(self):
        for text, _, _ in GOOD:
            with self.subTest(text):
                self.write("link", text)
                done = self.run_program("check")
                self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_names_are_those_of_the_file(self):
        for text, name, netdev in GOOD:
            with self.subTest(text):
                self.write("link", text)
                # Two links of the same names are found out, and the names are shown with that.
                self.write("other", f"netdev={netdev}\nname={name}\n")
                done = self.run_program("check")
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"has netdev={netdev}, too\n", done.stdout)
                self.assertIn(f"has name={name}, too\n", done.stdout)

    def test_settings_are_the_drivers(self):
        text = (TOP / "rsiw/settings.rs").read_text()
        ranges = re.findall(r"^ +(\w+): u\d+ = \d+, (\w+)\.\.=(\w+),$", text, re.M)
        self.assertGreater(len(ranges), 10)
        for name, low, high in ranges:
            low, high = (int(n.replace("_", ""), 0) for n in (low, high))
            with self.subTest(name):
                for value in (low, high):
                    path = self.write("link", f"netdev=eth0\n{name}={value}\n")
                    self.assertEqual(self.run_program("check").stdout, "")
                for value in (low - 1, high + 1):
                    path = self.write("link", f"netdev=eth0\n{name}={value}\n")
                    self.assertEqual(self.run_program("check").stdout,
                                     f"rsiw-link: {path}:2: {name} must be a number from {low} to {high}\n")
        known = re.findall(r"^\t\[(\w+)\]=", PROGRAM.read_text(), re.M)
        self.assertEqual(sorted(known), sorted(name for name, _, _ in ranges))

    def test_examples(self):
        page = (TOP / "Documentation/rsiw.conf.5.md").read_text()
        examples = re.findall(r"`/etc/rsiw/links.d/(\S+)\.conf`.*?\n\n((?:    .*\n)+)", page)
        self.assertEqual(len(examples), 2)
        for name, text in examples:
            self.write(name, re.sub(r"^    ", "", text, flags=re.M))
        shipped = (TOP / "admin/rsiw0.conf.example").read_text()
        self.write("shipped", shipped.replace("eth0", "eth5"))
        # What is commented out is good, too.
        self.write("changed", re.sub(r"^#(\w+=)", r"\1", shipped.replace("eth0", "eth6").replace("rsiw0", "rsiw6"),
                                     flags=re.M))
        done = self.run_program("check")
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_names_of_files(self):
        for name in ("a b", "é", "-a", ".a", "a%d", "x" * 64, "a@b"):
            with self.subTest(name):
                path = self.write(name, "netdev=eth0\n")
                done = self.run_program("check", name)
                self.assertEqual((done.returncode, done.stdout), (1, f"rsiw-link: {path}: {NAME_RULE}\n"))
                for command in ("up", "down"):
                    done = self.run_program(command, name)
                    self.assertEqual((done.returncode, done.stdout),
                                     (1, f"rsiw-link: {self.links}: no link can have the name '{name}'\n"))
                path.unlink()
        done = self.run_program("up", "../links.d/x")
        self.assertEqual(done.stdout, f"rsiw-link: {self.links}: no link can have the name '../links.d/x'\n")

    def test_files_that_are_none(self):
        (self.links / "folder.conf").mkdir()
        (self.links / "dangling.conf").symlink_to("nowhere")
        for name in ("missing", "folder", "dangling"):
            done = self.run_program("check", name)
            self.assertEqual((done.returncode, done.stdout),
                             (1, f"rsiw-link: {self.links}/{name}.conf: there is no such file\n"))

    def test_missing_network_device(self):
        path = self.write("link", "netdev=nonesuch0\n")
        done = self.run_program("up", "link")
        self.assertEqual((done.returncode, done.stdout),
                         (1, f"rsiw-link: {path}: there is no network device nonesuch0\n"))

    def test_usage(self):
        for arguments in ([], ["up"], ["down"], ["up", "a", "b"], ["restart", "a"], ["generate"]):
            done = self.run_program(*arguments)
            self.assertEqual((done.returncode, done.stdout.split()[0]), (2, "usage:"), arguments)

    def test_units(self):
        for netdev, unit in UNITS.items():
            with self.subTest(netdev):
                path = self.write("my-link", f"netdev={netdev}\n")
                device = f"sys-subsystem-net-devices-{unit}.device"
                self.assertEqual(self.generate(), {
                    f"{device}.wants/rsiw-link@my-link.service": "/usr/lib/systemd/system/rsiw-link@.service",
                    "rsiw-link@my-link.service.d/link.conf":
                        f"# Made by rsiw-generator\n[Unit]\nSourcePath={path}\nBindsTo={device}\nAfter={device}\n"})
                subprocess.run(["rm", "-r", self.out], check=True)

    def test_units_without_a_network_device(self):
        self.write("loop", "netdev=lo\n")
        self.write("bad", "netdev=eth0\ncolour=1\n")
        (self.links / "folder.conf").mkdir()
        # Not a link at all.
        (self.links / "README").write_text("netdev=eth0\n")
        found = self.generate()
        self.assertEqual(set(found), {f"{folder}{name}.service{file}" for name in ("loop", "bad", "folder")
                                      for folder, file in (("multi-user.target.wants/rsiw-link@", ""),
                                                           ("rsiw-link@", ".d/link.conf"))})
        self.assertEqual([text for text in found.values() if "BindsTo" in text], [])

    def test_names_that_no_link_can_have_fail_at_boot(self):
        for name in ("a b", "é", "-a", "a%d", "x" * 64, "é" * 120, "a\nb", "-"):
            with self.subTest(name):
                self.write(name, "netdev=eth0\n")
                self.write("good", "netdev=lo\n")
                units = [path for path in self.generate() if path.startswith("multi-user.target.wants/")]
                self.assertEqual(len(units), 2, units)
                self.assertIn("multi-user.target.wants/rsiw-link@good.service", units)
                units.remove("multi-user.target.wants/rsiw-link@good.service")
                unit = units[0].removeprefix("multi-user.target.wants/")
                # systemd takes it, and what the service is told is not taken.
                self.assertRegex(unit, r"^rsiw-link@[A-Za-z0-9:_.\\-]{1,200}\.service$")
                instance = unit.removeprefix("rsiw-link@").removesuffix(".service")
                done = self.run_program("up", instance)
                self.assertEqual((done.returncode, done.stdout),
                                 (1, f"rsiw-link: {self.links}: no link can have the name '{instance}'\n"))
                (self.links / f"{name}.conf").unlink()
                subprocess.run(["rm", "-r", self.out], check=True)

    def test_order_of_the_service(self):
        pairs = re.findall(r"^(Wants|Before|After|Requires)=(.*)$", (TOP / "admin/rsiw-link@.service").read_text(), re.M)
        order = {key: " ".join(value for k, value in pairs if k == key).split() for key, _ in pairs}
        # A tunnel's network device may come after it, so a mount that requires the link would never come.
        self.assertNotIn("network-online.target", order["Before"])
        # The target is passive: without a service that wants it, it orders nothing.
        self.assertIn("remote-fs-pre.target", order["Wants"])
        self.assertLessEqual({"remote-fs-pre.target", "nvmf-autoconnect.service", "iscsid.service", "nfs-server.service"},
                             set(order["Before"]))

    def test_no_links(self):
        self.assertEqual(self.generate(), {})
        self.assertEqual(self.run_program("check").returncode, 0)
        self.links.rmdir()
        self.assertEqual(subprocess.run([PROGRAM, "generate", self.out], cwd="/",
                                        env=dict(os.environ, RSIW_LINKS_DIR=self.links)).returncode, 0)


if __name__ == "__main__":
    unittest.main()
