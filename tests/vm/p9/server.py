#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""server.py ADDRESS PORT DIRECTORY: 9P over RDMA, as Linux' trans=rdma speaks it.

It serves 9P2000.L; each message is one Send. It serves one client at a time; the next
waits until that has gone. It checks all that a client sends: a bad request gets an
error, and a malformed message ends the connection. Clients do not get out of DIRECTORY:
names are single components, and symbolic links are not followed.
"""

import errno
import os
import resource
import stat
import struct
import sys
import time

import pyverbs.enums as e
from pyverbs.cmid import AddrInfo, CMID
from pyverbs.librdmacm_enums import RAI_PASSIVE, RDMA_PS_TCP
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QPCap, QPInitAttr

# Receives to post: the client has up to rq= requests under way, 32 by default, and over iWARP it
# does not wait for receives.
DEPTH = 32
# The default msize of Linux.
MSIZE = 128 * 1024 + 24
HEADER = struct.Struct("<IBH")
# The size of the headers in answers to Read and Readdir.
OVERHEAD = HEADER.size + 4
RLERROR = 7
ALL_BASIC = 0x7ff


class Fid:
    """A file or directory for which the client has a number.

    The fid holds a descriptor, not a name: renaming the file does not change it.
    """

    def __init__(self, node):
        self.node = node
        self.io = None
        self.entries = []

    def close(self):
        for fd in {self.node, self.io} - {None}:
            os.close(fd)

    def path(self):
        return f"/proc/self/fd/{self.node}"

    def opened(self):
        if self.io is None:
            fail(errno.EBADF)
        return self.io


def fail(number):
    raise OSError(number, os.strerror(number))


def name_of(name):
    if name in (b"", b".", b"..") or b"/" in name:
        fail(errno.EINVAL)
    return name


def look(at, name):
    return os.open(name_of(name), os.O_PATH | os.O_NOFOLLOW, dir_fd=at)


def qid(st):
    kind = 0x80 if stat.S_ISDIR(st.st_mode) else 0x02 if stat.S_ISLNK(st.st_mode) else 0
    return struct.pack("<BIQ", kind, 0, st.st_ino)


def string(text):
    return struct.pack("<H", len(text)) + text


def unpack(spec, body):
    """The fields of a request: integers w d q, s string, B data, T strings."""
    at = 0

    def integer(size):
        return int.from_bytes(take(size), "little")

    def take(size):
        nonlocal at
        if size > len(body) - at:
            fail(errno.EINVAL)
        at += size
        return body[at - size:at]

    read = {
        "w": lambda: integer(2),
        "d": lambda: integer(4),
        "q": lambda: integer(8),
        "s": lambda: take(integer(2)),
        "B": lambda: take(integer(4)),
        "T": lambda: [take(integer(2)) for _ in range(integer(2))],
    }
    fields = [read[kind]() for kind in spec]
    if at != len(body):
        fail(errno.EINVAL)
    return fields


class Session:
    """The fids of a client. Its methods answer requests with a type and a body."""

    def __init__(self, root):
        self.root = root
        self.fids = {}
        self.msize = MSIZE

    def end(self):
        for fid in self.fids.values():
            fid.close()
        self.fids.clear()

    def answer(self, message):
        """Returns the answer to a message, or None if it is no message of 9P."""
        if len(message) < HEADER.size:
            return None
        size, kind, tag = HEADER.unpack_from(message)
        if size != len(message):
            return None
        try:
            if kind not in self.REQUESTS:
                fail(errno.EOPNOTSUPP)
            spec, method = self.REQUESTS[kind]
            body = method(self, *unpack(spec, message[HEADER.size:]))
            kind += 1
        except OSError as error:
            kind, body = RLERROR, struct.pack("<I", error.errno)
        except (ValueError, OverflowError):
            # From Python, before the system call: a NUL in a name, an offset that is too large.
            kind, body = RLERROR, struct.pack("<I", errno.EINVAL)
        return HEADER.pack(HEADER.size + len(body), kind, tag) + body

    def fid(self, number):
        if number not in self.fids:
            fail(errno.EBADF)
        return self.fids[number]

    def free(self, number):
        if number in self.fids:
            fail(errno.EEXIST)

    def version(self, msize, version):
        self.end()
        if msize < 4096:
            fail(errno.EINVAL)
        self.msize = min(msize, MSIZE)
        known = version == b"9P2000.L"
        return struct.pack("<I", self.msize) + string(version if known else b"unknown")

    def attach(self, number, _afid, _user, _tree, _uid):
        self.free(number)
        self.fids[number] = Fid(os.open(self.root, os.O_PATH | os.O_DIRECTORY))
        return qid(os.fstat(self.fids[number].node))

    def flush(self, _tag):
        # Requests are answered in order: the one to be flushed has been answered.
        return b""

    def walk(self, number, new, names):
        """Walks as far as the names exist; makes the new fid only if all of them do."""
        if new != number:
            self.free(new)
        at, qids = os.dup(self.fid(number).node), []
        try:
            for name in names:
                try:
                    step = look(at, name)
                except OSError:
                    if not qids:
                        raise
                    break
                os.close(at)
                at = step
                qids.append(qid(os.fstat(at)))
            if len(qids) == len(names):
                if new == number:
                    self.fids.pop(number).close()
                self.fids[new], at = Fid(at), None
        finally:
            if at is not None:
                os.close(at)
        return struct.pack("<H", len(qids)) + b"".join(qids)

    def clunk(self, number):
        self.fid(number)
        self.fids.pop(number).close()
        return b""

    def lopen(self, number, flags):
        fid = self.fid(number)
        st = os.fstat(fid.node)
        if fid.io is not None or not (stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode)):
            fail(errno.EINVAL)
        # Without O_APPEND, with which pwrite ignores the offset. The client sends the right one.
        fid.io = os.open(fid.path(), flags & (os.O_ACCMODE | os.O_TRUNC))
        return qid(st) + struct.pack("<I", 0)

    def lcreate(self, number, name, flags, mode, _gid):
        fid = self.fid(number)
        if fid.io is not None:
            fail(errno.EINVAL)
        fd = os.open(name_of(name), flags & (os.O_ACCMODE | os.O_TRUNC | os.O_EXCL) | os.O_CREAT |
                     os.O_NOFOLLOW | os.O_NONBLOCK, mode & 0o7777, dir_fd=fid.node)
        # From now on the fid of the directory stands for the file.
        fid.close()
        fid.node = fid.io = fd
        return qid(os.fstat(fd)) + struct.pack("<I", 0)

    def read(self, number, offset, count):
        data = os.pread(self.fid(number).opened(), min(count, self.msize - OVERHEAD), offset)
        return struct.pack("<I", len(data)) + data

    def write(self, number, offset, data):
        return struct.pack("<I", os.pwrite(self.fid(number).opened(), data, offset))

    def fsync(self, number, _datasync):
        os.fsync(self.fid(number).opened())
        return b""

    def readdir(self, number, offset, count):
        fid, listed = self.fid(number), b""
        fd = fid.opened()
        if offset == 0:
            fid.entries = [b".", b"..", *map(os.fsencode, os.listdir(fd))]
        # An offset is an index into the list of entries that the first call has made.
        for at, name in enumerate(fid.entries[offset:], offset + 1):
            try:
                # The client must not see anything above the directory.
                st = os.stat(b"." if name == b".." else name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            entry = qid(st) + struct.pack("<QB", at, stat.S_IFMT(st.st_mode) >> 12) + string(name)
            if len(listed) + len(entry) > min(count, self.msize - OVERHEAD):
                break
            listed += entry
        return struct.pack("<I", len(listed)) + listed

    def getattr(self, number, _mask):
        st = os.fstat(self.fid(number).node)
        times = [part for ns in (st.st_atime_ns, st.st_mtime_ns, st.st_ctime_ns, 0)
                 for part in divmod(ns, 10**9)]
        return struct.pack("<Q", ALL_BASIC) + qid(st) + struct.pack(
            "<3I5Q8q2Q", st.st_mode, st.st_uid, st.st_gid, st.st_nlink, st.st_rdev, st.st_size,
            st.st_blksize, st.st_blocks, *times, 0, 0)

    def setattr(self, number, valid, mode, uid, gid, size, *times):
        fid = self.fid(number)
        if valid & 0x1:
            os.chmod(fid.path(), mode & 0o7777)
        if valid & 0x6:
            os.chown(fid.path(), uid if valid & 0x2 else -1, gid if valid & 0x4 else -1)
        if valid & 0x8:
            os.truncate(fid.path(), size)
        if valid & 0x30:
            st = os.stat(fid.path())
            # The time to set: the given one, or now; or no change.
            os.utime(fid.path(), ns=tuple(
                old if not valid & change else
                times[2 * i] * 10**9 + times[2 * i + 1] if valid & given else time.time_ns()
                for i, (old, change, given) in enumerate((
                    (st.st_atime_ns, 0x10, 0x80), (st.st_mtime_ns, 0x20, 0x100)))))
        return b""

    def statfs(self, number):
        st = os.fstatvfs(self.fid(number).node)
        return struct.pack("<2I6QI", 0x01021997, st.f_bsize, st.f_blocks, st.f_bfree, st.f_bavail,
                           st.f_files, st.f_ffree, 0, st.f_namemax)

    def mkdir(self, number, name, mode, _gid):
        at = self.fid(number).node
        os.mkdir(name_of(name), mode & 0o7777, dir_fd=at)
        return qid(os.stat(name, dir_fd=at, follow_symlinks=False))

    def renameat(self, old, old_name, new, new_name):
        os.rename(name_of(old_name), name_of(new_name), src_dir_fd=self.fid(old).node,
                  dst_dir_fd=self.fid(new).node)
        return b""

    def unlinkat(self, number, name, flags):
        remove = os.rmdir if flags & 0x200 else os.unlink
        remove(name_of(name), dir_fd=self.fid(number).node)
        return b""

    REQUESTS = {
        8: ("d", statfs), 12: ("dd", lopen), 14: ("dsddd", lcreate), 24: ("dq", getattr),
        26: ("dddddqqqqq", setattr), 40: ("dqd", readdir), 50: ("dd", fsync), 72: ("dsdd", mkdir),
        74: ("dsds", renameat), 76: ("dsd", unlinkat), 100: ("ds", version),
        104: ("ddssd", attach), 108: ("w", flush), 110: ("ddT", walk), 116: ("dqd", read),
        118: ("dqB", write), 120: ("d", clunk),
    }


def serve(conn, root):
    """Answers the requests of a client until it has gone."""
    session = Session(root)
    answers = conn.reg_msgs(MSIZE)
    receives = [conn.reg_msgs(MSIZE) for _ in range(DEPTH)]
    try:
        for buffer in receives:
            conn.post_recv(buffer)
        conn.accept()
        while True:
            # Receives complete in the order in which they were posted.
            for buffer in receives:
                done = conn.get_recv_comp()
                if done is None or done.status != e.IBV_WC_SUCCESS:
                    return
                message = buffer.read(done.byte_len, 0)
                # Post the receive again before the answer: then the client may use it.
                conn.post_recv(buffer)
                answer = session.answer(message)
                if answer is None:
                    return
                answers.write(answer, len(answer))
                conn.post_send(answers, length=len(answer))
                done = conn.get_send_comp()
                if done is None or done.status != e.IBV_WC_SUCCESS:
                    return
    except PyverbsError as error:
        print(f"connection: {error}", file=sys.stderr)
    finally:
        session.end()
        try:
            conn.disconnect()
        except PyverbsError:
            # The client has gone.
            pass
        for buffer in (answers, *receives):
            buffer.close()
        conn.close()


def main():
    address, port, root = sys.argv[1:]
    os.umask(0)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    where = AddrInfo(src=address, src_service=port, port_space=RDMA_PS_TCP, flags=RAI_PASSIVE)
    queues = QPInitAttr(qp_type=e.IBV_QPT_RC,
                        cap=QPCap(max_send_wr=1, max_recv_wr=DEPTH, max_send_sge=1, max_recv_sge=1))
    listener = CMID(creator=where, qp_init_attr=queues)
    listener.listen()
    while True:
        serve(listener.get_request(), root)


if __name__ == "__main__":
    main()
