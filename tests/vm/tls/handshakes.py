# SPDX-License-Identifier: GPL-2.0
"""Cases of records.py: attacks on the handshake of TLS, from both ends."""

import socket
import ssl
import struct
import time

from peer import SLOW, Failed, check
from peer.mpa import REPLY
from peer.tls import ALERT, DATA, DIRECTORY, FATAL, HANDSHAKE, MOST, WARNING, Secure, contexts

from stages import A_REQUEST, Open, answer_call, dial


def client_hello():
    out = ssl.MemoryBIO()
    tls = contexts(DIRECTORY, "hosta").client.wrap_bio(ssl.MemoryBIO(), out)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def raw_ends(sock, seconds=10):
    """Whatever comes, it ends in time."""
    sock.settimeout(seconds * SLOW)
    try:
        while sock.recv(65536):
            pass
    except ConnectionError:
        pass
    except socket.timeout as e:
        raise Failed("it does not end") from e
    finally:
        sock.close()


def send_last(sock, data):
    """Sends those bytes and a FIN, unless the victim has reset the connection already."""
    try:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def hello_then(data):
    """The victim's answer is awaited before those bytes are sent."""
    def play(victim):
        sock = socket.create_connection((victim.address, victim.port), 30 * SLOW)
        sock.sendall(client_hello())
        check(sock.recv(5)[:1] == bytes((HANDSHAKE,)), "no ServerHello")
        send_last(sock, data)
        raw_ends(sock)
    return play


def instead(make):
    def play(victim):
        sock = socket.create_connection((victim.address, victim.port), 30 * SLOW)
        send_last(sock, make())
        raw_ends(sock)
    return play


def cut_hello(victim):
    hello = client_hello()
    for at in (1, 4, 5, 6, 9, 43, len(hello) - 1):
        instead(lambda n=at: hello[:n])(victim)


def in_pieces(victim):
    """A ClientHello in segments of one byte is a ClientHello."""
    sock = socket.create_connection((victim.address, victim.port), 30 * SLOW)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in client_hello():
        sock.sendall(bytes((byte,)))
    check(sock.recv(5)[:1] == bytes((HANDSHAKE,)), "no ServerHello")
    sock.close()


def giant():
    """A ClientHello of 16 MiB, as its header says, of which the first MiB comes."""
    record = bytes((HANDSHAKE, 3, 1, 0x40, 0))
    first = struct.pack("!I", 1 << 24 | 0xFFFFFF) + b"\3\3" + bytes(MOST - 6)
    return (record + first) + (record + bytes(MOST)) * 63


def slow(victim):
    """A byte every two seconds, for longer than a handshake may take."""
    began = time.monotonic()
    sock = socket.create_connection((victim.address, victim.port), 30 * SLOW)
    try:
        for byte in client_hello():
            sock.sendall(bytes((byte,)))
            time.sleep(2 * SLOW)
            check(time.monotonic() - began < 40 * SLOW, "it is waited for, for ever")
    except ConnectionError:
        pass
    sock.close()


def silent(victim):
    """A client that does not answer the ServerHello."""
    sock = socket.create_connection((victim.address, victim.port), 30 * SLOW)
    sock.sendall(client_hello())
    raw_ends(sock, 40)


def as_client(name):
    """Either end tells the other why."""
    def play(victim):
        try:
            s = Open(victim, dial(victim, name=name))
            s.sock.sendall(A_REQUEST)
            s.ends("reset", "cut", "alert")
        except (ssl.SSLError, ConnectionError):
            pass
    return play


def as_server(name):
    def play(victim):
        sock, token = answer_call(victim)
        try:
            tls = Secure(sock, server=True, name=name)
            tls.sendall(bytes(20))
            check(not tls.recv(1), "a Request")
        except (ssl.SSLError, ConnectionError):
            pass
        check(victim.ended(token, 30) == 0, "a message was delivered")
        sock.close()
    return play


def odd_server(data):
    def play(victim):
        sock, token = answer_call(victim)
        check(sock.recv(1)[:1] == bytes((HANDSHAKE,)), "no ClientHello")
        if data is not None:
            send_last(sock, data)
        check(victim.ended(token, 40) == 0, "a message was delivered")
        sock.close()
    return play


CERTIFICATES = {"of another CA": "foreign", "that has expired": "expired", "that is not valid yet": "future"}
SLOW_CASES = {
    "a client that sends a byte now and then is given up": slow,
    "a client that is silent in the handshake is given up": silent,
    "a server that is silent is given up": lambda v: odd_server(None)(v.caller()),
}
HANDSHAKES = {
    "a ClientHello that is cut off ends the connection": cut_hello,
    "a ClientHello in segments of one byte is answered": in_pieces,
    "a ClientHello of many MiB ends the connection": instead(giant),
    "a ClientHello of empty records ends the connection": instead(lambda: bytes((HANDSHAKE, 3, 1, 0, 0)) * 1000),
    "two ClientHellos end the connection": instead(lambda: client_hello() * 2),
    "a ServerHello in place of a ClientHello ends the connection": instead(
        lambda: client_hello()[:5] + b"\2" + client_hello()[6:]),
    "an alert within the handshake ends it": hello_then(bytes((ALERT, 3, 3, 0, 2, FATAL, 40))),
    "close_notify within the handshake ends it": hello_then(bytes((ALERT, 3, 3, 0, 2, WARNING, 0))),
    "data within the handshake end it": hello_then(bytes((DATA, 3, 3, 0, 80)) + bytes(80)),
    "a FIN within the handshake ends it": hello_then(b""),
    "a Request within the handshake ends it": hello_then(A_REQUEST),
    **{f"a client with a certificate {what} is reset": as_client(name) for what, name in CERTIFICATES.items()},
    **{f"a server with a certificate {what} is not accepted": lambda v, n=name: as_server(n)(v.caller())
       for what, name in {**CERTIFICATES, "of another name": "nameless"}.items()},
    "a server that answers something else is not accepted": lambda v: odd_server(REPLY + bytes(4))(v.caller()),
    "a server that sends an alert is not accepted": lambda v: odd_server(
        bytes((ALERT, 3, 3, 0, 2, FATAL, 40)))(v.caller()),
    "a server that closes is not accepted": lambda v: odd_server(b"")(v.caller()),
}
