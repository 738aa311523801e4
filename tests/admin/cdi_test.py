#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The descriptions that rsiw-cdi writes, of made-up devices. Nothing of this host is touched."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = TOP / "admin/rsiw-cdi"


class Cdi(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.sys = self.folder / "class"
        self.dev = self.folder / "dev"
        for path in self.sys / "infiniband", self.sys / "infiniband_verbs", self.dev:
            path.mkdir(parents=True)
        (self.dev / "rdma_cm").touch()
        self.file = self.folder / "cdi" / "rsiw.json"

    def device(self, name, number=None, rsiw=True):
        """A device, and its node of that number."""
        (self.sys / "infiniband" / name).mkdir()
        if rsiw:
            (self.sys / "infiniband" / name / "settings").mkdir()
        if number is not None:
            node = self.sys / "infiniband_verbs" / f"uverbs{number}"
            node.mkdir()
            (node / "ibdev").write_text(f"{name}\n")

    def run_it(self, *arguments):
        env = dict(os.environ, RSIW_CLASS=str(self.sys), RSIW_NODES=str(self.dev))
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, env=env)

    def spec(self, *arguments):
        done = self.run_it(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(self.file.read_text() if "-o" in arguments else done.stdout)

    def nodes(self, spec):
        """For each device the nodes that only it brings, without their directory."""
        found = {}
        for device in spec["devices"]:
            self.assertEqual(set(device), {"name", "containerEdits"})
            found[device["name"]] = self.paths(device["containerEdits"])
        self.assertEqual(len(found), len(spec["devices"]), "a name is there twice")
        return found

    def paths(self, edits):
        self.assertEqual(set(edits), {"deviceNodes"})
        for node in edits["deviceNodes"]:
            self.assertEqual(node, {"path": node["path"], "permissions": "rw"})
            self.assertEqual(pathlib.Path(node["path"]).parent, self.dev)
        return [pathlib.Path(node["path"]).name for node in edits["deviceNodes"]]

    def fails(self, message, *arguments):
        """The last line of its errors is this one; those before it are about devices that it leaves out."""
        done = self.run_it(*arguments)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr.splitlines()[-1], f"rsiw-cdi: {message}")


    def test_all_devices(self):
        # Numbers of nodes follow the order in which devices of all drivers were made.
        self.device("rsiw0", 7)
        self.device("mlx5_0", 0, rsiw=False)
        self.device("blue", 1)
        spec = self.spec()
        self.assertEqual((spec["cdiVersion"], spec["kind"]), ("0.5.0", "rsiw/device"))
        self.assertEqual(self.paths(spec["containerEdits"]), ["rdma_cm"])
        self.assertEqual(self.nodes(spec), {"blue": ["uverbs1"], "rsiw0": ["uverbs7"], "all": ["uverbs1", "uverbs7"]})

    def test_some_devices(self):
        self.device("a", 0)
        self.device("b", 1)
        self.device("c", 2)
        self.assertEqual(self.nodes(self.spec("c", "a")), {"c": ["uverbs2"], "a": ["uverbs0"]})

    def test_a_device_called_all(self):
        self.device("all", 3)
        self.device("b", 4)
        self.assertEqual(self.nodes(self.spec()), {"all": ["uverbs3"], "b": ["uverbs4"]})

    def test_names(self):
        # No name may end a string of the JSON, or is one that engines refuse.
        for name in 'a"b', "a b", "-a", "a.", "a=b":
            self.device(name)
            self.fails(f"{name} is no name for CDI", "--", name)
        self.device("good", 0)
        done = self.run_it()
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.nodes(json.loads(done.stdout)), {"good": ["uverbs0"], "all": ["uverbs0"]})
        self.assertEqual(len(done.stderr.splitlines()), 5)

    def test_what_is_missing(self):
        self.fails("there is no rsiw device")
        self.device("mlx5_0", 0, rsiw=False)
        self.fails("there is no rsiw device")
        self.fails("there is no rsiw device mlx5_0", "mlx5_0")
        self.device("rsiw0")
        self.fails("there is no rsiw device rsiw1", "rsiw0", "rsiw1")
        self.fails("rsiw0 has no node: modprobe ib_uverbs")
        self.device("rsiw1", 1)
        (self.dev / "rdma_cm").unlink()
        self.fails(f"there is no {self.dev}/rdma_cm: modprobe rdma_ucm", "rsiw1")

    def test_file(self):
        self.device("rsiw0", 0)
        self.assertEqual(self.nodes(self.spec("-o", self.file)), {"rsiw0": ["uverbs0"], "all": ["uverbs0"]})
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o644)
        before = self.file.read_text()
        self.fails("there is no rsiw device other", "-o", self.file, "other")
        self.assertEqual(self.file.read_text(), before)
        # A device that has gone is described no more.
        (self.sys / "infiniband/rsiw0/settings").rmdir()
        self.fails("there is no rsiw device", "-o", self.file)
        self.assertEqual(list(self.file.parent.iterdir()), [])

    def test_a_file_that_cannot_be_written(self):
        self.device("rsiw0", 0)
        (self.folder / "plain").touch()
        self.file.mkdir(parents=True)
        self.fails(f"cannot write {self.folder}/plain/rsiw.json", "-o", self.folder / "plain/rsiw.json")
        self.fails(f"cannot write {self.file}", "-o", self.file)
        self.assertEqual(list(self.file.parent.iterdir()), [self.file])

    def test_usage(self):
        for arguments in ("-x",), ("-o",):
            self.fails("usage: rsiw-cdi [-o FILE] [DEVICE...]", *arguments)


if __name__ == "__main__":
    unittest.main()
