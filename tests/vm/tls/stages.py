# SPDX-License-Identifier: GPL-2.0
"""Connections with the program victim over TLS, each at another stage, as records.py attacks them."""

import socket
import ssl
import struct

from peer import SLOW, check
from peer.messages import SEND, WRITE, tagged, untagged
from peer.mpa import C, REPLY, REQUEST, S, frame
from peer.stream import Stream, fpdu
from peer.tls import Secure
from peer.victim import PLACES_NOTHING, RECEIVES, Attacker

A_REQUEST = frame(REQUEST, data=struct.pack("!IBB", 0xFFFFFFFF, 0, RECEIVES))


class Open:
    """A connection, and the victim's number of it, if it has one."""

    def __init__(self, victim, sock, token=None):
        self.victim, self.sock, self.token = victim, sock, token

    def raw(self, data):
        try:
            self.sock.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def fin(self):
        try:
            self.sock.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def ends(self, *how):
        """Nothing comes, and the connection ends: reset, closed as it should be, or cut."""
        self.sock.settimeout(20 * SLOW)
        try:
            got = self.sock.recv(1000)
            end = got.hex() or "closed"
        except ConnectionResetError:
            end = "reset"
        except BrokenPipeError:
            end = "cut"
        except socket.timeout:
            end = "not at all"
        except ssl.SSLError as e:
            end = f"alert {e.reason}"
        self.sock.close()
        check(end.split()[0] in how, f"it ends: {end}")
        if self.token:
            check(self.victim.ended(self.token) == 0, "a message was delivered")


def dial(victim, **more):
    return Secure(socket.create_connection((victim.address, victim.port), 30 * SLOW), **more)


def before_request(victim):
    return Open(victim, dial(victim))


def within_request(victim):
    stage = before_request(victim)
    stage.sock.sendall(A_REQUEST[:10])
    return stage


def answer_call(victim):
    """The victim calls; returns the socket, and the victim's number of it."""
    token = next(victim.tokens)
    sock = socket.socket()
    sock.settimeout(30 * SLOW)
    return victim.call(sock, token, PLACES_NOTHING, RECEIVES), token


def before_reply(victim):
    sock, token = answer_call(victim)
    stage = Open(victim, Secure(sock, server=True), token)
    check(Stream(stage.sock).receive(16) == REQUEST, "no Request")
    # The rest may wait in the socket.
    stage.sock.recv(1000)
    return stage


def within_reply(victim):
    stage = before_reply(victim)
    stage.sock.sendall(frame(REPLY, C | S, 2)[:9])
    return stage


def between_fpdus(victim, flags=PLACES_NOTHING):
    a = Attacker(victim, flags=flags)
    stage = Open(victim, a.sock, a.token)
    stage.told = a.told
    return stage


def within_header(victim):
    stage = between_fpdus(victim)
    stage.sock.sendall(a_write(stage)[:7])
    return stage


def within_payload(victim):
    stage = between_fpdus(victim, 0)
    stage.sock.sendall(fpdu(untagged(SEND, bytes(30)))[:25])
    return stage


STAGES = (before_request, within_request, before_reply, within_reply, between_fpdus, within_header,
          within_payload)


NAMES = ("before the Request", "within the Request", "before the Reply", "within the Reply", "between FPDUs",
         "within an FPDU's header", "within an FPDU's payload")


def name_of(stage):
    return NAMES[STAGES.index(stage)]


def a_write(stage):
    return fpdu(tagged(WRITE, stage.told.both.stag, stage.told.both.at + 16, b"stray..."))
