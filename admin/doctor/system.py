# SPDX-License-Identifier: GPL-2.0
"""The system that is examined: its files, commands and limits. Tests put canned answers in its place."""

import glob
import grp
import json
import os
import pwd
import resource
import signal
import stat
import subprocess
import time

# Ordinary users do not have the administrators' commands in theirs.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Seconds that a command may take. Nothing that is called here has more to do.
LIMIT = 8
CAP_IPC_LOCK = 14


class Result:
    """What a command has done: its exit status (127: there is none, 124: it took too long) and output."""

    def __init__(self, status, out="", err=""):
        self.status, self.out, self.err = status, out, err

    def json(self):
        """The output, which is JSON; an empty list if it is not, as where the command failed."""
        try:
            return json.loads(self.out or "[]")
        except ValueError:
            return []


class System:
    def run(self, *command, limit=LIMIT):
        return self.run_all([command], limit)[0]

    def run_all(self, commands, limit=LIMIT):
        """Several commands at the same time, which share the time limit."""
        running, end = [self._start(command) for command in commands], time.monotonic() + limit
        return [one if isinstance(one, Result) else self._finish(one, end - time.monotonic()) for one in running]

    def _start(self, command):
        try:
            # A session of its own: what a command has started must not keep its output open.
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    text=True, errors="replace", start_new_session=True,
                                    env={**os.environ, "PATH": PATH, "LC_ALL": "C"})
        except FileNotFoundError:
            return Result(127, "", f"there is no command {command[0]}")
        except OSError as e:
            return Result(126, "", f"{command[0]}: {e.strerror}")

    def _finish(self, process, left):
        try:
            out, err = process.communicate(timeout=max(left, 0.01))
        except subprocess.TimeoutExpired:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except OSError:
                # It is another user's, as after sudo: it goes on, and nobody waits for it.
                return Result(124, "", f"{process.args[0]} took too long")
            process.communicate()
            return Result(124, "", f"{process.args[0]} took too long")
        return Result(process.returncode, out, err)

    def has(self, command):
        return any(os.access(f"{folder}/{command}", os.X_OK) for folder in PATH.split(":"))

    def read(self, path):
        """The text of a file without the white space around it, or None."""
        try:
            with open(path, errors="replace") as file:
                return file.read().strip()
        except OSError:
            return None

    def read_bytes(self, path):
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError:
            return None

    def exists(self, path):
        return os.path.exists(path)

    def glob(self, pattern):
        return sorted(glob.glob(pattern))

    def usable(self, path):
        """Whether the calling user may read and write it."""
        return os.access(path, os.R_OK | os.W_OK)

    def group_of(self, path):
        """The name of the group that may read and write a file, other than root's; or None."""
        try:
            info = os.stat(path)
            if info.st_gid == 0 or info.st_mode & stat.S_IRWXG & 0o060 != 0o060:
                return None
            return grp.getgrgid(info.st_gid).gr_name
        except (OSError, KeyError):
            return None

    def release(self):
        return os.uname().release

    def is_root(self):
        return os.geteuid() == 0

    def user(self):
        """The name of the calling user."""
        try:
            return pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            return f"user {os.geteuid()}"

    def memlock(self):
        """Soft and hard limit of locked memory in bytes, None for unlimited."""
        return tuple(None if n == resource.RLIM_INFINITY else n
                     for n in resource.getrlimit(resource.RLIMIT_MEMLOCK))

    def may_lock(self):
        """Whether the limit of locked memory does not concern this process (CAP_IPC_LOCK)."""
        for line in (self.read("/proc/self/status") or "").splitlines():
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> CAP_IPC_LOCK & 1)
        return False

    def systemd(self):
        return self.exists("/run/systemd/system")

    def processes(self, name):
        """The numbers of processes of that name."""
        return [path.split("/")[2] for path in self.glob("/proc/[0-9]*/comm") if self.read(path) == name]
