# SPDX-License-Identifier: GPL-2.0
"""Work in a directory that several processes, on the client and on the server, share.

    locks.py hold FILE END      lock FILE and print "held"; when the file END exists, write to
                                FILE and print "still held"
    locks.py probe FILE         print whether a process has locked it: "free" or "locked"
    locks.py count FILE N       N times, under the lock: read the number, write the next
    locks.py names DIR ID N     N times: make, write, link, rename, look, unlink
"""

import errno
import fcntl
import os
import sys
import time


def hold(path, end):
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.lockf(fd, fcntl.LOCK_EX)
    print("held", flush=True)
    while not os.path.exists(end):
        time.sleep(0.1)
    # The write fails if the client has lost the lock.
    os.pwrite(fd, b"still", 0)
    os.fsync(fd)
    print("still held", flush=True)


def try_lock(fd):
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        if e.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True


def take(fd):
    """Tries until it has the lock. A blocking lock may take 30 s: of five processes that wait, the
    NFS client now and then misses that the lock is free, over TCP and RDMA alike."""
    while not try_lock(fd):
        time.sleep(0.01)


def probe(path):
    print("free" if try_lock(os.open(path, os.O_RDWR)) else "locked")


def count(path, times):
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    for _ in range(int(times)):
        take(fd)
        number = int(os.pread(fd, 20, 0) or b"0")
        os.pwrite(fd, b"%d" % (number + 1), 0)
        os.fsync(fd)
        fcntl.lockf(fd, fcntl.LOCK_UN)


def names(directory, who, times):
    """A process sees its own changes at once, whatever other processes do."""
    os.chdir(directory)
    for i in range(int(times)):
        first, second, final = (f"{who}-{part}-{i}" for part in ("first", "second", "final"))
        with open(first, "w") as file:
            file.write(first * 50)
        os.link(first, second)
        os.rename(first, final)
        assert not os.path.exists(first) and os.stat(final).st_nlink == 2
        # The new name exists already.
        os.rename(second, f"{who}-target")
        if i % 3:
            os.unlink(final)
        with open(f"{who}-target") as file:
            assert file.read() == first * 50


if __name__ == "__main__":
    {"hold": hold, "probe": probe, "count": count, "names": names}[sys.argv[1]](*sys.argv[2:])
