#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""make install and make uninstall, below a folder, and that what is installed there works."""

import os
import pathlib
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
# A stand-in for a build: what is installed of a module is the file, and for which kernel it is says its text.
KERNEL = "install-test"
RELEASE = "7.3.4+deb13-cloud-amd64"
MODULE = b"\x7fELF\0license=GPL\0vermagic=" + RELEASE.encode() + b" SMP preempt mod_unload modversions \0name=rsiw\0"

ADMIN = {
    "usr/libexec/rsiw/rsiw-link": 0o755,
    "usr/lib/systemd/system-generators/rsiw-generator": 0o755,
    "usr/lib/systemd/system/rsiw-link@.service": 0o644,
    "usr/sbin/rsiw-key": 0o755,
    "usr/lib/systemd/system/rsiw-key.service": 0o644,
    "usr/share/bash-completion/completions/rsiw-key": 0o644,
    "usr/sbin/rsiw-cdi": 0o755,
    "usr/share/bash-completion/completions/rsiw-cdi": 0o644,
    "usr/share/doc/rsiw/examples/rsiw0.conf.example": 0o644,
    "usr/bin/rsiw-doctor": 0o755,
    "usr/share/bash-completion/completions/rsiw-doctor": 0o644,
} | {f"usr/lib/rsiw/doctor/{path.name}": 0o644 for path in TOP.glob("admin/doctor/*.py")
     # The provider's page is in its package.
     } | {f"usr/share/man/man{path.stem[-1]}/{path.stem}": 0o644 for path in TOP.glob("Documentation/*.[1-9].md")
         if path.stem != "rsiw-provider.7"}
INSTALLED = {f"lib/modules/{RELEASE}/updates/rsiw.ko": 0o644}


class Install(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.dest = self.folder / "dest"
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self.module = TOP / "build" / KERNEL / "rsiw.ko"
        self.module.parent.mkdir(parents=True, exist_ok=True)
        self.module.write_bytes(MODULE)
        self.addCleanup(subprocess.run, ["rm", "-r", self.module.parent], check=True)

    def make(self, target, status=0, **variables):
        env = dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}", RSIW_MOK=str(self.folder / "mok"))
        # An outer make would have this one print directories.
        env.pop("MAKEFLAGS", None)
        done = subprocess.run(["make", "-s", "-C", TOP, target, f"KERNEL={KERNEL}", f"DESTDIR={self.dest}",
                               *(f"{name}={value}" for name, value in variables.items())],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def files(self):
        return {str(path.relative_to(self.dest)): path.stat().st_mode & 0o777
                for path in self.dest.glob("**/*") if not path.is_dir()}

    def folders(self):
        return {str(path.relative_to(self.dest)) for path in self.dest.glob("**/*") if path.is_dir()}

    def test_files_and_modes(self):
        self.make("install")
        self.assertEqual(self.files(), ADMIN | INSTALLED)
        self.assertIn("etc/rsiw/links.d", self.folders())
        installed = self.dest / f"lib/modules/{RELEASE}/updates/rsiw.ko"
        self.assertEqual(installed.read_bytes(), MODULE)

    def test_uninstall_leaves_nothing_of_ours(self):
        self.make("install")
        # What others have in the same folders.
        others = ["usr/share/man/man4/other.4", f"lib/modules/{RELEASE}/updates/other.ko",
                  f"lib/modules/{RELEASE}/modules.dep"]
        for name in others:
            (self.dest / name).write_text("")
        self.make("uninstall")
        self.assertEqual(set(self.files()), set(others))
        self.assertEqual([name for name in self.folders() if "rsiw" in name], [])
        # Once more, without anything there.
        self.make("uninstall")
        for name in others:
            (self.dest / name).unlink()
        self.make("install")
        self.make("uninstall")
        self.assertNotIn(f"lib/modules/{RELEASE}/updates", self.folders())

    def test_uninstall_needs_no_build(self):
        # After `make clean`, and for more kernels than one; those that a package has stay.
        self.make("install")
        self.module.unlink()
        kept = ["lib/modules/7.3.9/updates/rsiw.ko", "usr/lib/rsiw/7.3.9/rsiw.ko", "lib/modules/7.3.8/updates/dkms/rsiw.ko"]
        for name in [*kept, "lib/modules/7.3.8/updates/rsiw.ko"]:
            (self.dest / name).parent.mkdir(parents=True, exist_ok=True)
            (self.dest / name).write_text("")
        self.make("uninstall", KERNEL="another")
        self.assertEqual(set(self.files()), set(kept))

    def test_uninstall_leaves_a_package_alone(self):
        # All that it could remove is in a folder of this test.
        prefix = self.folder / "root"
        program = prefix / "libexec/rsiw/rsiw-link"
        program.parent.mkdir(parents=True)
        program.write_text("")
        for name, text in (("dpkg", f'[ "$*" = "-S {program}" ]'), ("sudo", "exit 1"), ("systemctl", "exit 0")):
            (self.bin / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.bin / name).chmod(0o755)
        done = subprocess.run([TOP / "tools/install", "--uninstall", f"--prefix={prefix}", "admin"], stderr=subprocess.PIPE,
                              text=True, env=dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}"))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\A.*package rsiw: apt remove rsiw\n\Z")
        self.assertTrue(program.exists())

    def test_the_doctor_works_where_it_is_installed(self):
        self.make("install")
        done = subprocess.run([self.dest / "usr/bin/rsiw-doctor", "--help"], stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn("--peer", done.stdout)

    def test_links_are_kept(self):
        self.make("install")
        link = self.dest / "etc/rsiw/links.d/rsiw0.conf"
        link.write_text("netdev=eth0\n")
        self.make("install")
        self.make("uninstall")
        self.assertEqual(set(self.files()), {"etc/rsiw/links.d/rsiw0.conf"})
        self.assertEqual(link.read_text(), "netdev=eth0\n")

    def test_packages_take_all_but_the_module(self):
        done = subprocess.run([TOP / "tools/install", f"--destdir={self.dest}", "admin"], cwd="/")
        self.assertEqual((done.returncode, self.files()), (0, ADMIN))

    def test_a_module_that_was_not_built(self):
        self.module.unlink()
        self.assertIn(f"there is no build/{KERNEL}/rsiw.ko: make KERNEL={KERNEL}", self.make("install", status=2))

    def test_wrong_arguments(self):
        for arguments in ([], ["--nothing", "all"], ["nothing"], ["all", "nothing"], [f"--destdir={self.dest}"]):
            done = subprocess.run([TOP / "tools/install", *arguments], stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn("usage: ", done.stderr)

    def signed(self):
        said = self.make("install")
        return said, (self.dest / f"lib/modules/{RELEASE}/updates/rsiw.ko").read_bytes() != MODULE

    def test_the_module_is_signed_with_the_machines_key(self):
        key, public = self.folder / "mok.key", self.folder / "mok.pub"
        key.write_text("a key")
        said, signed = self.signed()
        self.assertEqual((signed, "signed" in said), (False, False), "half a key")
        public.write_text("a certificate")
        said, signed = self.signed()
        self.assertFalse(signed)
        self.assertIn("not signed: there is neither linux-kbuild-7.3.4+deb13 nor kmodsign", said)
        tool = self.bin / "kmodsign"
        tool.write_text(f"#!/bin/sh\n[ \"$1 $2 $3\" = 'sha256 {key} {public}' ] && echo signature >>\"$4\"\n")
        tool.chmod(0o755)
        said, signed = self.signed()
        self.assertTrue(signed)
        self.assertIn(f"signed with {key}", said)
        # A module that the kernel would refuse takes no other's place.
        tool.write_text("#!/bin/sh\nexit 1\n")
        self.make("install", status=2)
        self.assertNotEqual((self.dest / f"lib/modules/{RELEASE}/updates/rsiw.ko").read_bytes(), MODULE)

    def test_another_prefix(self):
        # Where it is installed it runs from.
        root = self.folder / "root"
        self.make("install", PREFIX=f"{root}/")
        (self.dest / str(root)[1:]).rename(root)
        links = self.folder / "links.d"
        links.mkdir()
        (links / "rsiw0.conf").write_text("netdev=eth0\n")
        out = self.folder / "units"
        done = subprocess.run([root / "lib/systemd/system-generators/rsiw-generator", out, out, out],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=dict(os.environ, RSIW_LINKS_DIR=links))
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        unit = out / "sys-subsystem-net-devices-eth0.device.wants/rsiw-link@rsiw0.service"
        self.assertEqual(os.readlink(unit), f"{root}/lib/systemd/system/rsiw-link@.service")
        service = unit.read_text()
        for verb in ("ExecStart", "ExecReload", "ExecStop"):
            self.assertIn(f"{verb}={root}/libexec/rsiw/rsiw-link ", service)

    def test_another_prefix_is_for_our_files_only(self):
        self.make("install", PREFIX="/opt/rsiw")
        for name in ADMIN:
            text = (self.dest / "opt/rsiw" / name.removeprefix("usr/")).read_text()
            self.assertNotRegex(text, "/opt/rsiw/(?!libexec/rsiw/|lib/systemd/system/rsiw-link@|sbin/rsiw-key)")
            self.assertNotIn("/usr/libexec/rsiw/", text)
        doctor = (self.dest / "opt/rsiw/lib/rsiw/doctor/link.py").read_text()
        self.assertIn('"/opt/rsiw/lib/systemd/system/rsiw-link@.service"', doctor)
        self.assertIn('"/usr/lib/systemd/system/iwpmd.service"', doctor)

    def test_the_generator_never_fails(self):
        # Without the program, or without a place to write to.
        script = self.folder / "generator"
        text = (TOP / "admin/rsiw-generator").read_text()
        for program in (self.folder / "nonesuch", TOP / "admin/rsiw-link"):
            script.write_text(text.replace("/usr/libexec/rsiw/rsiw-link", str(program)))
            links = self.folder / "links.d"
            links.mkdir(exist_ok=True)
            (links / "rsiw0.conf").write_text("netdev=eth0\n")
            done = subprocess.run(["sh", script, "/dev/null"], env=dict(os.environ, RSIW_LINKS_DIR=links),
                                  stderr=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
