#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What rsiw-key reads in /etc/rsiw/keys, and what it has the kernel do. Nothing of this host is touched."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = TOP / "admin/rsiw-key"
# The kernel, as far as rsiw-key sees it: a directory has a file for each key of the keyring. It takes none of "refused".
FAKE = {
    "keyctl": '''
        cd "$KEYRING" || exit
        case $1 in
        id) echo 7 ;;
        rlist) ls | tr '\\n' ' ' ;;
        rdescribe) echo "psk;0;0;3f010000;$(cat "$2")" ;;
        padd) case $4 in refused*) exit 1 ;; esac; cat >/dev/null; echo "$4" >"$(echo "$4" | cksum | cut -d ' ' -f 1)" ;;
        unlink) rm "$2" ;;
        esac''',
    "modprobe": ":",
    "systemctl": ":",
}
KEY, LONG = "0123456789abcdef" * 4, "0123456789ABCDEF" * 6
IDENTITY = "hosta@[10.7.0.2]"

# A file's text, and what is wrong with it.
BAD = [
    (f"{IDENTITY}\n", ":1: this is not NAME@[ADDRESS] KEY"),
    (f"\n# one\n{IDENTITY} {KEY} {KEY}\n", ":3: this is not NAME@[ADDRESS] KEY"),
    (f"{IDENTITY} {KEY[1:]}\n", ":1: the key must have 64 or 96 hexadecimal digits"),
    (f"{IDENTITY} {KEY}0\n", ":1: the key must have 64 or 96 hexadecimal digits"),
    (f"{IDENTITY} {KEY[:-1]}g\n", ":1: the key must have 64 or 96 hexadecimal digits"),
    (f"{IDENTITY} $(id)\n", ":1: the key must have 64 or 96 hexadecimal digits"),
    ("".join(f"a{n}@[::] {KEY}\n" for n in range(1025)), ":1025: there may be 1024 keys"),
    (f"{IDENTITY} {KEY}\n{IDENTITY} {LONG}\n", f":2: {IDENTITY} is in line 1 already"),
] + [(f"{identity} {KEY}\n", ":1: the identity is not NAME@[ADDRESS]")
     for identity in ("hosta", "@[10.7.0.2]", "hosta@10.7.0.2", "hosta@[]", "hosta@[hostb]", "hosta@[fe80::1%eth0]",
                      "a;hosta@[10.7.0.2]", "hostä@[10.7.0.2]", "hosta@[10.7.0.2]x", "$(id)", "a[0]",
                      "a" * 118 + "@[10.7.0.2]")]

GOOD = [
    ("", []),
    ("# nothing\n\n", []),
    (f"{IDENTITY} {KEY}", [IDENTITY]),
    (f"  {IDENTITY}\t{LONG} \n\nb@[fd07::2] {KEY}\n", [IDENTITY, "b@[fd07::2]"]),
    (f"nfs@hosta@[10.7.0.2] {KEY}\n$(id)@[::] {KEY}\n", ["nfs@hosta@[10.7.0.2]", "$(id)@[::]"]),
    ("a" * 117 + f"@[10.7.0.2] {KEY}\n", ["a" * 117 + "@[10.7.0.2]"]),
]


class Keys(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.keys = pathlib.Path(folder.name, "keys")

    def run_program(self, *arguments, **more):
        return subprocess.run([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=dict(os.environ, RSIW_KEYS=self.keys, **more))

    def load(self, ring):
        """Loads the file into the keyring that is the directory; returns status, words, and identities it then has."""
        folder = self.keys.parent
        for name, text in FAKE.items():
            (folder / name).write_text("#!/bin/sh\n" + text)
            (folder / name).chmod(0o755)
        done = self.run_program("load", KEYRING=ring, RSIW_PATH=f"{folder}:/usr/bin:/bin", RSIW_STATE=f"{folder}/state")
        return done.returncode, done.stdout, sorted(key.read_text().strip() for key in ring.iterdir())

    def write(self, text, mode=0o600):
        self.keys.write_text(text)
        self.keys.chmod(mode)

    def test_bad_files_are_refused_by_one_line_without_a_key(self):
        for text, wrong in BAD:
            with self.subTest(text):
                self.write(text)
                for command in ("check", "load"):
                    done = self.run_program(command)
                    self.assertEqual((done.returncode, done.stdout), (1, f"rsiw-key: {self.keys}{wrong}\n"))

    def test_good_files(self):
        for text, _ in GOOD:
            with self.subTest(text):
                self.write(text)
                done = self.run_program("check")
                self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_no_file(self):
        done = self.run_program("check")
        self.assertEqual((done.returncode, done.stdout), (1, f"rsiw-key: {self.keys}: there is no such file\n"))

    def test_load_makes_the_keyring_what_the_file_says(self):
        ring = self.keys.parent / "ring"
        ring.mkdir()
        for names in ("a", "ab", "bc", ""):
            self.write("".join(f"{name}@[::1] {KEY}\n" for name in names))
            self.assertEqual(self.load(ring), (0, "", [f"{name}@[::1]" for name in names]))

    def test_a_key_that_the_kernel_refuses_keeps_no_other_key_out_or_in(self):
        ring = self.keys.parent / "ring"
        ring.mkdir()
        (ring / "1").write_text("removed@[::1]")
        self.write(f"refused@[::1] {KEY}\na@[::1] {KEY}\n")
        self.assertEqual(self.load(ring), (
            1, "rsiw-key: the kernel does not take the key of refused@[::1]\n", ["a@[::1]"]))

    def test_a_missing_or_bad_file_leaves_the_keyring_as_it_is(self):
        ring = self.keys.parent / "ring"
        ring.mkdir()
        (ring / "1").write_text(IDENTITY)
        self.assertEqual(self.load(ring), (1, f"rsiw-key: {self.keys}: there is no such file\n", [IDENTITY]))
        self.write("x\n")
        status, _, identities = self.load(ring)
        self.assertEqual((status, identities), (1, [IDENTITY]))

    def test_a_file_that_others_read_is_refused(self):
        for mode in (0o640, 0o604, 0o620, 0o602):
            self.write(f"{IDENTITY} {KEY}\n", mode)
            done = self.run_program("check")
            self.assertEqual((done.returncode, done.stdout), (
                1, f"rsiw-key: {self.keys}: others may read or change it: chmod 600 {self.keys}\n"))

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a file away")
    def test_a_file_of_somebody_else_is_refused(self):
        self.write(f"{IDENTITY} {KEY}\n")
        os.chown(self.keys, 12345, -1)
        done = self.run_program("check")
        self.assertEqual((done.returncode, done.stdout), (1, f"rsiw-key: {self.keys}: it is not root's: chown root {self.keys}\n"))

    def test_new_keys_are_lines_of_the_file(self):
        lines = set()
        for name, address in (("hosta", "10.7.0.2"), ("hosta", "fd07::2"), ("a" * 100, "10.7.0.2")):
            done = self.run_program("new", name, address)
            self.assertRegex(done.stdout, rf"\A{re.escape(f'{name}@[{address}]')} [0-9a-f]{{64}}\n\Z")
            lines.add(done.stdout.split()[1])
            self.write(done.stdout)
            self.assertEqual(self.run_program("check").stdout, "")
        self.assertEqual(len(lines), 3)

    def test_no_new_key_of_a_bad_name(self):
        for name, address in (("", "10.7.0.2"), ("a b", "10.7.0.2"), ("a;b", "10.7.0.2"), ("hosta", "hostb"), ("hosta", "")):
            done = self.run_program("new", name, address)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stdout, r"\Arsiw-key: [^\n]*\n\Z")

    def test_usage(self):
        for arguments in ((), ("nothing",), ("load", "x"), ("new", "hosta"), ("list", "x")):
            done = self.run_program(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn("usage: rsiw-key", done.stdout)

    def test_completion_has_the_commands(self):
        words = re.search(r'-W "([^"]*)"', (TOP / "admin/completion/rsiw-key").read_text()).group(1).split()
        usage = self.run_program().stdout
        self.assertEqual(sorted(words), sorted(re.findall(r"\b(load|check|list|new)\b", usage)))


if __name__ == "__main__":
    unittest.main()
