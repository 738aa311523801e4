# SPDX-License-Identifier: GPL-2.0
"""hostile.py ADDRESS PORT DIRECTORY: a client of TLS that breaks rules, against an rping server. DIRECTORY has
ca.pem, and a certificate and key of the client. Prints "ok NAME" or "not ok NAME" for each case."""

import os
import socket
import ssl
import struct
import subprocess
import sys
import time

sys.path.insert(0, "/tests/wire")
import mpa  # noqa: E402

SLOW = float(os.environ.get("RSIW_SLOW", "1"))
REQUEST = mpa.frame(mpa.REQUEST, flags=mpa.LARGE)


def log():
    return subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout


class Peer:
    """A connection with TLS whose records are in the case's hands."""

    def __init__(self, address, port, directory, certificate=True, most=None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(f"{directory}/ca.pem")
        if certificate:
            context.load_cert_chain(f"{directory}/hosta.pem", f"{directory}/hosta.key")
        if most:
            context.maximum_version = most
        self.sock = socket.create_connection((address, port), 30 * SLOW)
        self.sock.settimeout(30 * SLOW)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.here, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.here, self.out)
        self.step(self.tls.do_handshake)
        self.flush()

    def step(self, call, *args):
        while True:
            try:
                return call(*args)
            except ssl.SSLWantReadError:
                self.flush()
                octets = self.sock.recv(65536)
                if octets:
                    self.here.write(octets)
                else:
                    self.here.write_eof()

    def flush(self):
        octets = self.out.read()
        if octets:
            self.sock.sendall(octets)

    def records(self, data):
        """What TLS would send."""
        self.tls.write(data)
        return self.out.read()

    def send(self, data):
        self.sock.sendall(self.records(data))

    def recv(self, size):
        got = b""
        while len(got) < size:
            more = self.step(self.tls.read, size - len(got))
            if not more:
                break
            got += more
        return got

    def set_up(self):
        self.send(REQUEST)
        reply = self.recv(20)
        assert reply[:16] == mpa.REPLY, reply
        return reply

    def rest(self):
        """What comes until the end, and how it ends."""
        got = b""
        try:
            while True:
                more = self.step(self.tls.read, 65536)
                if not more:
                    return got, "close_notify"
                got += more
        except ssl.SSLZeroReturnError:
            return got, "close_notify"
        except ssl.SSLEOFError:
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
    assert reply[16] & mpa.LARGE and not reply[16] & (mpa.C | mpa.M | mpa.R), reply
    try:
        peer.tls.unwrap()
    except ssl.SSLWantReadError:
        pass
    peer.flush()
    peer.sock.shutdown(socket.SHUT_WR)
    ends(peer, "close_notify")


def no_certificate(connect):
    peer = connect(certificate=False)
    try:
        peer.send(REQUEST)
    except ConnectionError:
        # The reset has come first: the server knows all that it needs.
        return
    ends(peer, "reset", "cut")


def old_version(connect):
    try:
        peer = connect(most=ssl.TLSVersion.TLSv1_2)
        peer.send(REQUEST)
        ends(peer, "reset", "cut")
    except (ssl.SSLError, ConnectionError):
        pass


def flipped(connect):
    peer = connect()
    peer.set_up()
    record = bytearray(peer.records(bytes(100)))
    record[20] ^= 1
    peer.sock.sendall(record)
    ends(peer, "reset", "cut")


def replayed(connect):
    peer = connect()
    peer.send(REQUEST[:10])
    record = peer.records(REQUEST[10:])
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
    peer.sock.sendall(peer.records(bytes(1000))[:500])
    peer.sock.shutdown(socket.SHUT_WR)
    ends(peer, "reset", "cut")


def markers(connect):
    peer = connect()
    peer.send(mpa.frame(mpa.REQUEST, flags=mpa.M | mpa.LARGE))
    ends(peer, "reset", "cut")


def bad_frame(connect):
    peer = connect()
    peer.send(b"GET / HTTP/1.1\r\n\r\n" + bytes(20))
    ends(peer, "reset", "cut")


def bad_fpdu(connect):
    """A DDP version that is none: a Terminate comes by TLS, and close_notify behind it."""
    peer = connect()
    peer.set_up()
    peer.send(struct.pack("!H", 18) + b"\xff" * 18 + bytes(4))
    got = ends(peer, "close_notify")
    assert got and got[3] & 0x0F == 7, got


def one_octet_each(connect):
    """The Request in as many records as it has octets."""
    peer = connect()
    for octet in REQUEST:
        peer.send(bytes([octet]))
    assert peer.recv(20)[:16] == mpa.REPLY
    peer.sock.close()


def raw(address, port, octets, seconds):
    sock = socket.create_connection((address, port), 30 * SLOW)
    sock.settimeout(seconds * SLOW)
    began = time.monotonic()
    try:
        sock.sendall(octets)
        while sock.recv(4096):
            pass
    except ConnectionError:
        pass
    print(f"# over after {time.monotonic() - began:.1f} s")


def main():
    address, port, directory = sys.argv[1], int(sys.argv[2]), sys.argv[3]

    def connect(**options):
        return Peer(address, port, directory, **options)

    cases = {
        "an honest peer sets up a connection, with large FPDUs and without CRCs": (lambda: good(connect), "TLS with"),
        "a Request in records of one octet is answered": (lambda: one_octet_each(connect), "TLS with"),
        "a client without a certificate is reset": (lambda: no_certificate(connect), "shows no certificate"),
        "a client of TLS 1.2 is reset": (lambda: old_version(connect), "TLS handshake failed"),
        "a Request in the clear is reset": (lambda: raw(address, port, REQUEST, 10), "no TLS, which is required"),
        "garbage instead of a ClientHello is reset": (
            lambda: raw(address, port, b"\x16" + bytes(300), 25), "TLS handshake failed"),
        "a client that says nothing behind its first octet is given up": (
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
    failed = False
    for name, (case, words) in cases.items():
        before = len(log())
        try:
            case()
            for _ in range(int(20 * SLOW)):
                if words in log()[before:]:
                    break
                time.sleep(0.1)
            else:
                raise AssertionError(f"the log has no {words!r}: {log()[before:]}")
            print(f"ok {name}", flush=True)
        except (AssertionError, OSError) as e:
            failed = True
            print(f"# {type(e).__name__}: {e}\nnot ok {name}", flush=True)
        # The log is written at a limited rate.
        time.sleep(1)
    return 3 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
