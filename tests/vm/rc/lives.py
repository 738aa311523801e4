# SPDX-License-Identifier: GPL-2.0
"""A peer that breaks off at any point, while a queue pair lives many lives: it is reset, held and destroyed at random
(prog/rclives.c). lives.py DEVICE GID-INDEX ADDRESS called|calls LIVES SEED

The queue pair has ADDRESS. "called": the peer calls it, from an address below. "calls": it calls the peer, which has
an address below and would have to call it by its address alone, so the peer takes the address above (PEER).
Prints what rclives has said at its end, and how often the peer broke off where. Exit status 0 if all is well, and
the peer broke off at each point.
"""

import collections
import os
import random
import socket
import subprocess
import sys
import threading

from peer import FAILURES, check, reset
from peer.messages import SEND, WRITE, tagged, untagged
from peer.mpa import A, C, R, REPLY, REQUEST, RTR_WRITE, S, enhanced, frame, receive_frame
from peer.stream import Stream, fpdu

import caller
from caller import ADDRESS, DEVICE, INDEX, OURS, PORT, QPN, admitted, call

ROLE, LIVES, SEED = sys.argv[4:7]
# Above any address of the queue pair.
PEER = OURS if ROLE == "called" else "10.7.99.9"
# Where the peer breaks off at the least.
POINTS = {"before the Request", "behind the Request", "before the first FPDU", "within the first FPDU"}
dice = random.Random(int(SEED))
counts = collections.Counter()
program = number = None
received = threading.Event()
ended = threading.Event()


def leave(sock, point):
    """Ends a connection in one way or the other."""
    counts[point] += 1
    enough = received.is_set() and POINTS <= counts.keys()
    try:
        os.write(program.stdin.fileno(), b"e" if enough else b"x")
    except BrokenPipeError:
        pass
    if dice.random() < 0.5:
        reset(sock)
    else:
        sock.close()


def talk(sock):
    """Both ends have the connection: some FPDUs, whole or not."""
    write = fpdu(tagged(WRITE, 0, 0))
    if dice.random() < 0.25:
        return leave(sock, "before the first FPDU")
    if dice.random() < 0.25:
        sock.sendall(write[:dice.randrange(1, len(write))])
        return leave(sock, "within the first FPDU")
    sends = dice.randrange(3)
    data = write + b"".join(fpdu(untagged(SEND, b"hello", number=n + 1)) for n in range(sends))
    sock.sendall(data)
    return leave(sock, f"after {sends} Sends")


def calls_it():
    """Calls the queue pair, until rclives ends."""
    while not ended.is_set():
        try:
            sock = socket.create_connection((ADDRESS, PORT), timeout=10, source_address=(PEER, 0))
        except OSError:
            # No queue pair waits, or no longer.
            ended.wait(0.001)
            continue
        try:
            if dice.random() < 0.1:
                leave(sock, "before the Request")
                continue
            caller.ask(sock, call(number, from_=PEER))
            if dice.random() < 0.2:
                leave(sock, "behind the Request")
                continue
            admitted(sock)
            talk(sock)
        except FAILURES:
            counts["refused, or reset"] += 1
            sock.close()


def answers(listener):
    """Is called by the queue pair, until rclives ends."""
    while True:
        sock, _ = listener.accept()
        if ended.is_set():
            return
        try:
            if dice.random() < 0.1:
                leave(sock, "before the Request")
                continue
            _, _, data = receive_frame(sock, REQUEST)
            if dice.random() < 0.2:
                leave(sock, "behind the Request")
                continue
            flags = C | S | (R if dice.random() < 0.1 else 0)
            sock.sendall(frame(REPLY, flags, 2, enhanced(A, RTR_WRITE)))
            if dice.random() < 0.3:
                leave(sock, "behind the Reply")
                continue
            check(Stream(sock).next()[:2] == b"\xc1\x40", "no RTR")
            talk(sock)
        except FAILURES:
            counts["refused, or reset"] += 1
            sock.close()


def main():
    global number, program
    program = subprocess.Popen(["rclives", DEVICE, INDEX, "::ffff:" + PEER, str(QPN), LIVES, SEED],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    number = int(program.stdout.readline())
    listener = None
    if ROLE == "called":
        peers = [threading.Thread(target=calls_it) for _ in range(3)]
    else:
        listener = socket.create_server((PEER, PORT))
        peers = [threading.Thread(target=answers, args=(listener,))]
    for peer in peers:
        peer.start()
    said = []
    for line in program.stdout:
        if line.strip().isdigit():
            number = int(line)
        elif line == "received\n":
            received.set()
        else:
            said.append(line.strip())
    ended.set()
    if listener:
        socket.create_connection((PEER, PORT)).close()
    for peer in peers:
        peer.join()
    print(*said, sep="\n")
    print(", ".join(f"{point}: {count}" for point, count in sorted(counts.items())))
    check(POINTS <= counts.keys(), "the peer did not break off at each point")
    check(received.is_set(), "no Send was received")
    sys.exit(program.wait())


main()
