#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""refuser.py ADDRESS PORT: a peer to which a program's FetchAdd comes, and which refuses it in each way that a peer may
that knows RFC 7306 or does not. The program's completions are compared with what it has to be told."""

import socket
import struct
import subprocess
import sys

from peer import Failed, check, play
from peer.messages import (ATOMIC, DDP_UNTAGGED, LAST, RDMA_OPERATION, RDMA_PROTECTION, RDMAP, TERMINATE, VERSION,
                           untagged)
from peer.mpa import C, REPLY, REQUEST, S, frame, receive_frame
from peer.stream import Stream

FLUSHED = "Work Request Flushed Error"
INVALID, ACCESS, UNABLE = "remote invalid request error", "remote access error", "remote operation error"
CATASTROPHIC = 0x00
# What the peer says: a Terminate with the request's DDP header ("named") or without, or nothing; and what the FetchAdd
# completes with. The Send behind it is flushed.
CASES = {
    "a peer that does not know the opcode refuses it": ((RDMA_OPERATION, 0x06, "named"), INVALID),
    "a peer that does not know the opcode says so without a header": ((RDMA_OPERATION, 0x06, ""), INVALID),
    "a peer says so as siw does": ((0x20, 0x06, ""), INVALID),
    "a peer ends the stream by a catastrophic error": ((RDMA_OPERATION, 0x07, ""), INVALID),
    "a peer is not able to": ((RDMA_OPERATION, 0xFF, "named"), UNABLE),
    "a peer does not know the key": ((RDMA_PROTECTION, 0x00, "named"), ACCESS),
    "a peer finds the value out of bounds": ((RDMA_PROTECTION, 0x01, "named"), ACCESS),
    "a peer grants no atomics there": ((RDMA_PROTECTION, 0x02, "named"), ACCESS),
    "a peer has a fault of its own": ((CATASTROPHIC, 0x00, ""), FLUSHED),
    "a peer blames a message that was not sent": ((DDP_UNTAGGED, 0x02, "send"), FLUSHED),
    "a peer leaves without a word": (None, FLUSHED),
}


def terminate(kind, code, header, request):
    """A Terminate that a peer sends about an Atomic Request."""
    rest, bits = b"", 0
    if header:
        ddp = request[:18] if header == "named" else untagged(3)
        bits, rest = 0xC0, struct.pack("!H", len(request)) + ddp
    return untagged(TERMINATE, bytes((kind, code, bits, 0)) + rest, queue=2)


OWN = "a request that cannot be made ends the stream without a header"


def refuse(listener, what):
    """Refuses the request; or returns the Terminate that comes in its place."""
    sock, _ = listener.accept()
    with sock:
        _, revision, data = receive_frame(sock, REQUEST)
        sock.sendall(frame(REPLY, C | S, revision, data[:4]))
        stream = Stream(sock)
        # The RTR of a peer-to-peer connection comes first.
        while True:
            request = stream.next()
            check(request, "no Atomic Request")
            if request[:2] == bytes((LAST | VERSION, RDMAP | TERMINATE)):
                return request
            if request[:2] == bytes((LAST | VERSION, RDMAP | ATOMIC)):
                break
        if what:
            stream.send(terminate(*what, request))
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(4096):
            pass
    return None


def fetchadd(listener, what, status, *arguments):
    """Plays the peer of the program, which is to tell that status, and returns what refuse() does."""
    with subprocess.Popen(["fetchadd", *arguments], stdout=subprocess.PIPE, text=True) as program:
        got = refuse(listener, what)
        try:
            said = program.communicate(timeout=60)[0].splitlines()
        except subprocess.TimeoutExpired:
            program.kill()
            raise Failed("the program does not end") from None
    wanted = [f"FetchAdd: {status}", f"Send: {FLUSHED}"]
    check(said == wanted, f"{said}, not {wanted}")
    return got


#= 7306-8.1-2
def cannot_be_made(listener, address, port):
    got = fetchadd(listener, None, "local protection error", address, port, "own")
    check(got == untagged(TERMINATE, bytes(4), queue=2), f"another message: {got}")


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join([*CASES, OWN]))
        return
    address, port = sys.argv[1:]
    with socket.create_server((address, int(port))) as listener:
        listener.settimeout(60)
        for name in CASES:
            play(name, fetchadd, listener, *CASES[name], address, port)
        play(OWN, cannot_be_made, listener, address, port)


main()
