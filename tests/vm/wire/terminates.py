# SPDX-License-Identifier: GPL-2.0
"""A peer of rping's server that makes its MPA, DDP and RDMAP messages itself, right and wrong ones.

    terminates.py ADDRESS PORT CASE...    runs each case on a connection of its own
    terminates.py --list                  prints the names of the cases

Prints "ok CASE" or "not ok CASE". The device has to answer a wrong message with the Terminate that
the RFCs name (RFC 5040 s4.8, RFC 5041 s7, RFC 5044 s8), with the header of the wrong segment. Only
the FIN may follow.
"""

import socket
import sys

from peer import check, play
from peer.messages import (DDP_TAGGED, DDP_UNTAGGED, IMMEDIATE_SE, MPA, RDMAP, RDMA_OPERATION,
                           RDMA_PROTECTION, READ, RESPONSE, SEND, SEND_INV, TERMINATE, WRITE,
                           atomic_of, atomic_response, immediate, read_of, tagged, untagged)
from peer.rping import RECEIVE, Peer, advertise, goes_on, good
from peer.stream import fpdu

# --- what is right ------------------------------------------------------------

def in_single_bytes(peer):
    peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in fpdu(untagged(SEND, advertise())):
        peer.sock.sendall(bytes((byte,)))
    peer.read_request()


def in_two_segments(peer):
    """A message has two segments, with reserved bits that the device has to ignore."""
    data = advertise()
    peer.send(untagged(SEND, data[:5], last=False),
              untagged(SEND, data[5:], offset=5, rdmap=RDMAP | 0x30))
    peer.read_request()


def terminate_from_us(peer):
    """The device ends the connection and does not answer a Terminate."""
    peer.send(untagged(TERMINATE, bytes((0x20, 2, 0, 0)), queue=2))
    check(peer.next() == b"", "an answer to a Terminate")


# --- MPA ------------------------------------------------------------------------

#= 5040-5.4-8, 5040-7-1, 5044-8-4
def bad_crc(peer):
    peer.sock.sendall(fpdu(untagged(SEND, advertise()), crc=b"\0\0\0\0"))
    peer.terminated(MPA, 2)


def bad_crc_of_write(peer):
    peer.sock.sendall(fpdu(tagged(WRITE, 0x12345600, 0, bytes(40)), crc=b"\1\2\3\4"))
    ulpdu = peer.next()
    check(len(ulpdu) >= 22 and ulpdu[1] == RDMAP | TERMINATE, f"no Terminate: {ulpdu.hex()}")


def length_too_long(peer):
    """The ULPDU is longer than allowed; all else of it is right."""
    peer.send(untagged(SEND, bytes(64769 - 18)))
    peer.terminated(MPA, 3)


#= 5044-8-4
def length_too_short(peer):
    peer.sock.sendall(fpdu(b"\x41\x43" + bytes(6)) + bytes(40))
    peer.terminated(MPA, 3)


def urgent_data(peer):
    """An urgent byte between FPDUs, and one within an FPDU."""
    peer.urgent(b"!")
    Peer(peer.address, peer.port).urgent(fpdu(untagged(SEND, advertise()))[:9])


# --- DDP, untagged --------------------------------------------------------------

def queue(peer):
    peer.refused(untagged(SEND, advertise(), queue=3), DDP_UNTAGGED, 1)


def no_buffer(peer):
    """A second Send, for which no receive is posted yet, waits for one. The answer to the first Send may
    come before; or rping's server hangs up, as its client never sends two at a time. Sends that wait in
    vain are tested in tests/verbs/t_late.c."""
    second = untagged(SEND, advertise(), number=2)
    peer.send(untagged(SEND, advertise()), second)
    ulpdu = peer.next()
    check(not ulpdu or ulpdu[1] in (RDMAP | READ, RDMAP | TERMINATE), f"an odd answer: {ulpdu.hex()}")


def number_two_first(peer):
    peer.refused(untagged(SEND, advertise(), number=2), DDP_UNTAGGED, 3)


def number_zero(peer):
    peer.refused(untagged(SEND, advertise(), number=0), DDP_UNTAGGED, 3)


def offset_not_zero(peer):
    peer.refused(untagged(SEND, advertise()[:8], offset=8), DDP_UNTAGGED, 4)


def offset_skips(peer):
    peer.send(untagged(SEND, bytes(4), last=False))
    peer.refused(untagged(SEND, bytes(4), offset=8), DDP_UNTAGGED, 4)


#= 5040-5.4-8, 5040-7.1-2
def too_long(peer):
    peer.refused(untagged(SEND, bytes(RECEIVE + 1)), DDP_UNTAGGED, 5)


def too_long_in_pieces(peer):
    peer.send(untagged(SEND, bytes(RECEIVE), last=False))
    peer.refused(untagged(SEND, bytes(1), offset=RECEIVE), DDP_UNTAGGED, 5)


def ddp_version(peer):
    peer.refused(untagged(SEND, advertise(), version=2), DDP_UNTAGGED, 6)


# --- DDP, tagged ------------------------------------------------------------------

#= 5040-7.1-2
def write_unknown_stag(peer):
    peer.refused(tagged(WRITE, 0x7FFFFF01, 0, bytes(8)), DDP_TAGGED, 0)


def write_stag_zero(peer):
    peer.refused(tagged(WRITE, 0, 0, bytes(8)), DDP_TAGGED, 0)


def write_wraps(peer):
    peer.refused(tagged(WRITE, 0x7FFFFF01, (1 << 64) - 4, bytes(8)), DDP_TAGGED, 3)


def tagged_version(peer):
    peer.refused(tagged(WRITE, 0x7FFFFF01, 0, bytes(8), version=0), DDP_TAGGED, 4)


# --- RDMAP --------------------------------------------------------------------------

#= 5040-7.1-2
def rdmap_version(peer):
    peer.refused(untagged(SEND, advertise(), rdmap=0x80), RDMA_OPERATION, 5)


#= 5040-7.1-2
def reserved_opcode(peer):
    peer.refused(untagged(0xF, advertise()), RDMA_OPERATION, 6)


# rping does not know the messages of RFC 7306, so that for it their opcodes are reserved.

def immediate_unknown(peer):
    peer.refused(immediate(), RDMA_OPERATION, 6)


def immediate_se_unknown(peer):
    peer.refused(immediate(opcode=IMMEDIATE_SE), RDMA_OPERATION, 6)


def atomic_unknown(peer):
    peer.refused(atomic_of(0x7FFFFF01, 0), RDMA_OPERATION, 6)


def atomic_response_unknown(peer):
    """Before the server has asked for anything, and while its Read waits for an answer."""
    peer.refused(atomic_response(1), RDMA_OPERATION, 6)
    second = Peer(peer.address, peer.port)
    second.send(untagged(SEND, advertise()))
    second.read_request()
    second.refused(atomic_response(1), RDMA_OPERATION, 6)


def extensions_unknown_behind_a_message(peer):
    """What came before is delivered: the server reads, and then refuses."""
    peer.send(untagged(SEND, advertise()))
    peer.read_request()
    peer.refused(immediate(number=2), RDMA_OPERATION, 6)


def send_with_immediate_unknown(peer):
    """Two ends of this driver agree to such Sends in the MPA frames, and this peer has not."""
    peer.refused(untagged(12, advertise(), stag=0x01020304), RDMA_OPERATION, 6)


def send_in_tagged_segment(peer):
    peer.refused(tagged(SEND, 0x7FFFFF01, 0, bytes(8)), RDMA_OPERATION, 6)


def send_on_read_queue(peer):
    peer.refused(untagged(SEND, advertise(), queue=1), RDMA_OPERATION, 6)


def response_unasked(peer):
    peer.refused(tagged(RESPONSE, 0x7FFFFF01, 0, bytes(8)), RDMA_OPERATION, 6)


#= 5040-7.1-2
def read_unknown_stag(peer):
    peer.refused(read_of(0x7FFFFF01), RDMA_PROTECTION, 0, read_request=True)


def read_number_two_first(peer):
    peer.refused(read_of(0x7FFFFF01, number=2), DDP_UNTAGGED, 3)


def read_short_header(peer):
    peer.send(untagged(READ, bytes(20), queue=1))
    ulpdu = peer.next()
    check(len(ulpdu) >= 22 and ulpdu[1] == RDMAP | TERMINATE, f"no Terminate: {ulpdu.hex()}")


def read_zero_of_nothing(peer):
    """A Read of no bytes needs no buffer: the device answers it, whatever its STag."""
    peer.send(read_of(0, size=0))
    check(peer.next() == tagged(RESPONSE, 0x100, 0x1000), "no empty Read Response")


def invalidate_unknown_stag(peer):
    peer.refused(untagged(SEND_INV, advertise(), stag=0x7FFFFF01), RDMA_PROTECTION, 0)


def response_other_stag(peer):
    peer.send(untagged(SEND, advertise()))
    sink, to, _, _, _ = peer.read_request()
    peer.refused(tagged(RESPONSE, sink ^ 0x100, to, bytes(64)), DDP_TAGGED, 0)


def response_other_offset(peer):
    peer.send(untagged(SEND, advertise()))
    sink, to, _, _, _ = peer.read_request()
    peer.refused(tagged(RESPONSE, sink, to + 8, bytes(56)), DDP_TAGGED, 1)


def response_too_long(peer):
    peer.send(untagged(SEND, advertise()))
    sink, to, _, _, _ = peer.read_request()
    peer.refused(tagged(RESPONSE, sink, to, bytes(65)), DDP_TAGGED, 1)


def response_too_short(peer):
    peer.send(untagged(SEND, advertise()))
    sink, to, _, _, _ = peer.read_request()
    peer.send(tagged(RESPONSE, sink, to, bytes(63)))
    ulpdu = peer.next()
    check(len(ulpdu) >= 22 and ulpdu[1] == RDMAP | TERMINATE, f"no Terminate: {ulpdu.hex()}")


# --- what belongs to others -----------------------------------------------------------

def other(peer):
    """Makes a second connection, which has a protection domain of its own. Returns it, and STag and
    address of the server's buffer for it."""
    second = Peer(peer.address, peer.port)
    second.send(untagged(SEND, advertise()))
    sink, to, _, _, _ = second.read_request()
    return second, sink, to


#= 5040-5.3-10b, 5040-7.2-5
def invalidate_of_another(peer):
    second, sink, to = other(peer)
    peer.refused(untagged(SEND_INV, advertise(), stag=sink), RDMA_PROTECTION, 9)
    goes_on(second, sink, to)


def write_to_another(peer):
    second, sink, to = other(peer)
    peer.refused(tagged(WRITE, sink, to, b"stray"), DDP_TAGGED, 2)
    goes_on(second, sink, to)


def read_of_another(peer):
    second, sink, to = other(peer)
    peer.refused(read_of(sink, to), RDMA_PROTECTION, 3, read_request=True)
    goes_on(second, sink, to)


#= 5040-6.1-5, 5040-8.1.2-6
def reads_beyond_ird(peer):
    """More Reads than were agreed on: behind the answers to the rest the connection ends, and no other.

    The server's buffer has to be larger than this end's window (rping -S 65000), so that the last
    request arrives before the first answers have been sent. A second connection has a queue of its
    own: it works while that of the first one is full.
    """
    size = 65000
    peer.sock.close()
    peer = Peer(peer.address, peer.port, window=4096)
    peer.send(untagged(SEND, advertise(size=size)))
    sink, to, _, _, _ = peer.read_request()
    peer.send(*(read_of(sink, to, size, number) for number in range(1, 201)))
    good(Peer(peer.address, peer.port))
    total = 0
    while (ulpdu := peer.next()) and ulpdu[1] == RDMAP | RESPONSE:
        total += len(ulpdu) - 14
    # The server's IRD is the most that a device has. So many are answered, and no more.
    check(total == 128 * size, f"{total / size} Reads at a time")
    check(ulpdu[1:2] == bytes((RDMAP | TERMINATE,)), f"no Terminate: {ulpdu[:30].hex()}")
    check((ulpdu[18], ulpdu[19]) == (DDP_UNTAGGED, 2), f"says {ulpdu[18:20].hex()}")
    check(peer.next() == b"", "something behind the Terminate")


# The case needs a server of its own.
reads_beyond_ird.listed = False


CASES = {f.__name__: f for f in list(globals().values())
         if callable(f) and getattr(f, "__code__", None) and f.__code__.co_varnames[:1] == ("peer",)
         and f.__code__.co_argcount == 1}


def main():
    if sys.argv[1] == "--list":
        print("\n".join(name for name, f in CASES.items() if getattr(f, "listed", True)))
        return
    address, port = sys.argv[1], int(sys.argv[2])
    for name in sys.argv[3:]:
        play(name, lambda: CASES[name](Peer(address, port)))


if __name__ == "__main__":
    main()
