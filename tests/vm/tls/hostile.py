# SPDX-License-Identifier: GPL-2.0
"""hostile.py ADDRESS PORT: a client of TLS that breaks rules, against an rping server. RSIW_TLS: see peer.tls.
Prints "ok NAME" or "not ok NAME" for each case."""

import socket
import ssl
import struct
import subprocess
import sys
import time

from peer import SLOW, play
from peer.mpa import C, LARGE, M, R, REPLY, REQUEST, frame
from peer.tls import Secure

OFFER = frame(REQUEST, flags=LARGE)


def log():
    return subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout


class Peer(Secure):
    """A connection with TLS whose records are in the case's hands."""

    def __init__(self, address, port, **more):
        sock = socket.create_connection((address, port), 30 * SLOW)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().__init__(sock, **more)

    def exactly(self, size):
        got = b""
        while len(got) < size and (more := self.recv(size - len(got))):
            got += more
        return got

    def set_up(self):
        self.sendall(OFFER)
        reply = self.exactly(20)
        assert reply[:16] == REPLY, reply
        return reply

    def rest(self):
        """What comes until the end, and how it ends."""
        got = b""
        try:
            while more := self.recv(65536):
                got += more
            return got, "close_notify"
        except BrokenPipeError:
            return got, "cut"
        except (ssl.SSLError, ConnectionError) as e:
            return got, f"reset {e}"


def ends(peer, *how):
    got, end = peer.rest()
    assert end.split()[0] in how, (got[:40], end)
    return got


def good(connect):
    peer = connect()
    assert peer.tls.version() == "TLSv1.3", peer.tls.version()
    reply = peer.set_up()
    assert reply[16] & LARGE and not reply[16] & (C | M | R), reply
    peer.shutdown(socket.SHUT_WR)
    ends(peer, "close_notify")


def no_certificate(connect):
    peer = connect(name="")
    try:
        peer.sendall(OFFER)
    except ConnectionError:
        # The reset has come first: the server knows all that it needs.
        return
    ends(peer, "reset", "cut")


def old_version(address, port):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        sock = context.wrap_socket(socket.create_connection((address, port), 30 * SLOW))
        assert not sock.recv(1), "an answer"
    except (ssl.SSLError, ConnectionError):
        pass


def flipped(connect):
    peer = connect()
    peer.set_up()
    record = bytearray(peer.record(bytes(100)))
    record[20] ^= 1
    peer.sock.sendall(record)
    ends(peer, "reset", "cut")


def replayed(connect):
    peer = connect()
    peer.sendall(OFFER[:10])
    record = peer.record(OFFER[10:])
    peer.sock.sendall(record + record)
    ends(peer, "reset", "cut")


def bad_header(connect, header):
    peer = connect()
    peer.set_up()
    peer.sock.sendall(header + bytes(100))
    ends(peer, "reset", "cut")


def cut(connect):
    peer = connect()
    peer.set_up()
    peer.sock.shutdown(socket.SHUT_WR)
    ends(peer, "reset", "cut")


def cut_in_record(connect):
    peer = connect()
    peer.set_up()
    peer.sock.sendall(peer.record(bytes(1000))[:500])
    peer.sock.shutdown(socket.SHUT_WR)
    ends(peer, "reset", "cut")


def markers(connect):
    peer = connect()
    peer.sendall(frame(REQUEST, flags=M | LARGE))
    ends(peer, "reset", "cut")


def bad_frame(connect):
    peer = connect()
    peer.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(20))
    ends(peer, "reset", "cut")


def bad_fpdu(connect):
    """A DDP version that is none: a Terminate comes by TLS, and close_notify behind it."""
    peer = connect()
    peer.set_up()
    peer.sendall(struct.pack("!H", 18) + b"\xff" * 18 + bytes(4))
    got = ends(peer, "close_notify")
    assert got and got[3] & 0x0F == 7, got


def one_byte_each(connect):
    """The Request in as many records as it has bytes."""
    peer = connect()
    for byte in OFFER:
        peer.sendall(bytes([byte]))
    assert peer.exactly(20)[:16] == REPLY
    peer.sock.close()


def raw(address, port, data, seconds):
    sock = socket.create_connection((address, port), 30 * SLOW)
    sock.settimeout(seconds * SLOW)
    began = time.monotonic()
    try:
        sock.sendall(data)
        while sock.recv(4096):
            pass
    except ConnectionError:
        pass
    print(f"# over after {time.monotonic() - began:.1f} s")


def main():
    address, port = sys.argv[1], int(sys.argv[2])

    def connect(**options):
        return Peer(address, port, **options)

    cases = {
        "an honest peer sets up a connection, with large FPDUs and without CRCs": (lambda: good(connect), "TLS with"),
        "a Request in records of one byte is answered": (lambda: one_byte_each(connect), "TLS with"),
        "a client without a certificate is reset": (lambda: no_certificate(connect), "shows no certificate"),
        "a client of TLS 1.2 is reset": (lambda: old_version(address, port), "TLS handshake failed"),
        "a Request in the clear is reset": (lambda: raw(address, port, OFFER, 10), "no TLS, which is required"),
        "garbage instead of a ClientHello is reset": (
            lambda: raw(address, port, b"\x16" + bytes(300), 25), "TLS handshake failed"),
        "a client that says nothing behind its first byte is given up": (
            lambda: raw(address, port, b"\x16", 30), "TLS handshake failed"),
        "a record with a wrong bit ends the stream": (lambda: flipped(connect), "TLS stream broken: error -74"),
        "a replayed record ends the stream": (lambda: replayed(connect), "TLS"),
        "a record that is too long ends the stream": (
            lambda: bad_header(connect, b"\x17\x03\x03\xff\xff"), "TLS stream broken"),
        "a record of another version ends the stream": (
            lambda: bad_header(connect, b"\x17\x02\x00\x00\x50"), "TLS stream broken"),
        "a FIN without close_notify cuts the stream": (lambda: cut(connect), "TLS stream cut"),
        "a FIN within a record cuts the stream": (lambda: cut_in_record(connect), "TLS stream cut"),
        "a Request with markers is reset": (lambda: markers(connect), "markers within TLS"),
        "something else than MPA within TLS is reset": (lambda: bad_frame(connect), "bad MPA Request"),
        "an FPDU that is wrong gets its Terminate by TLS": (lambda: bad_fpdu(connect), "stream terminated"),
    }
    def logged(case, words):
        before = len(log())
        case()
        for _ in range(int(20 * SLOW)):
            if words in log()[before:]:
                return
            time.sleep(0.1)
        raise AssertionError(f"the log has no {words!r}: {log()[before:]}")

    well = True
    for name, how in cases.items():
        well &= play(name, logged, *how)
        # The log is written at a limited rate.
        time.sleep(1)
    return 0 if well else 3


if __name__ == "__main__":
    sys.exit(main())
