# SPDX-License-Identifier: GPL-2.0
"""For the adversary: peers on the victim's host that send pages without a copy, and write to them meanwhile.

sendfile() of a memfd gives TCP its pages. Over loopback the victim receives these very pages, while a thread
changes them by its mapping.
"""

import mmap
import os
import threading

from peer.messages import WRITE, tagged
from peer.stream import fpdu
from peer.tls import DIRECTORY
from peer.victim import Attacker

# Bytes of an FPDU's payload, and FPDUs of a message.
SEGMENT, SEGMENTS = 24, 4
MESSAGES = 60
# How often each case is played.
ROUNDS = int(os.environ.get("SPLICES") or 5)


class Pages:
    def __init__(self, data):
        self.size, self.fd = len(data), os.memfd_create("spliced")
        os.ftruncate(self.fd, self.size)
        self.map = mmap.mmap(self.fd, self.size)
        self.map[:] = data

    def send(self, sock):
        sent = 0
        while sent < self.size:
            sent += os.sendfile(sock.fileno(), self.fd, sent, self.size - sent)

    def close(self):
        self.map.close()
        os.close(self.fd)


def writes(t):
    """Writes of several segments each, to a region that the victim gives."""
    for _ in range(MESSAGES):
        for i in range(SEGMENTS):
            yield fpdu(tagged(WRITE, t.both.stag, t.both.at + i * SEGMENT, bytes(SEGMENT),
                                        last=i == SEGMENTS - 1))


def unchanged(victim):
    """What is sent without a copy arrives like anything else."""
    a = Attacker(victim)
    pages = Pages(b"".join(writes(a.told)))
    pages.send(a.sock)
    a.lives()
    pages.close()
    a.over()


def changed(at, bits):
    """The byte `at` of each FPDU changes back and forth. The victim may find any fault, or none."""
    def once(victim):
        a = Attacker(victim)
        fpdus = list(writes(a.told))
        pages, done = Pages(b"".join(fpdus)), threading.Event()

        def change():
            while not done.is_set():
                for i in range(at, pages.size, len(fpdus[0])):
                    pages.map[i] ^= bits
                    pages.map[i] ^= bits

        thread = threading.Thread(target=change)
        thread.start()
        try:
            pages.send(a.sock)
            a.fin()
        except (BrokenPipeError, ConnectionResetError):
            # The victim has ended the connection.
            pass
        finally:
            done.set()
            thread.join()
        while a.next_or_reset():
            pass
        pages.close()
        a.over(None)

    def play(victim):
        for _ in range(ROUNDS):
            once(victim)
    return play


def spliced(everything):
    # TLS encrypts to pages of its own.
    if DIRECTORY:
        return
    yield "unchanged", unchanged
    for name, at, bits in (("length", 0, 0x80), ("length, less", 1, 0x3f), ("opcode", 3, 3),
                           ("STag", 4, 0xff), ("offset", 8, 0xff), ("CRC", SEGMENT + 16, 1)):
        yield f"{name} changes", changed(at, bits)


GROUPS = {"spliced": spliced}
