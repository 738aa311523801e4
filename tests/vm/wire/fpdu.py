# SPDX-License-Identifier: GPL-2.0
"""A peer of rping's server that makes its MPA, DDP and RDMAP messages itself, right and wrong ones.

    fpdu.py ADDRESS PORT CASE...    runs each case on a connection of its own
    fpdu.py --list                  prints the names of the cases

Prints "ok CASE" or "not ok CASE". The device has to answer a wrong message with the Terminate that
the RFCs name (RFC 5040 s4.8, RFC 5041 s7, RFC 5044 s8), with the header of the wrong segment. Only
the FIN may follow.
"""

import io
import os
import socket
import struct
import sys

import mpa

SLOW = float(os.environ.get("RSIW_SLOW", "1"))
WRITE, READ, RESPONSE, SEND, SEND_INV, TERMINATE = 0, 1, 2, 3, 4, 7
# Of RFC 7306, and the codes of atomics. A device takes these messages if the program knows them.
IMMEDIATE, IMMEDIATE_SE, ATOMIC, ATOMIC_RESPONSE = 8, 9, 10, 11
FETCH_ADD, CMP_SWAP = 0, 2
TAGGED, LAST, VERSION = 0x80, 0x40, 1
RDMAP = 0x40
# What rping's server posts: one receive of 16 bytes.
RECEIVE = 16
# Terminates: layer and type in one octet, then the code.
RDMA_PROTECTION, RDMA_OPERATION, DDP_TAGGED, DDP_UNTAGGED, MPA = 0x01, 0x02, 0x11, 0x12, 0x20


class Failed(Exception):
    pass


def check(what, message):
    if not what:
        raise Failed(message)


def _table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


TABLE = list(_table())


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return struct.pack("<I", crc ^ 0xFFFFFFFF)


def tagged(opcode, stag, offset, data=b"", last=True, version=VERSION, rdmap=RDMAP):
    control = TAGGED | (LAST if last else 0) | version
    return struct.pack("!BBIQ", control, rdmap | opcode, stag, offset) + data


def untagged(opcode, data=b"", queue=0, number=1, offset=0, last=True, version=VERSION,
             rdmap=RDMAP, stag=0):
    control = (LAST if last else 0) | version
    return struct.pack("!BBIIII", control, rdmap | opcode, stag, queue, number, offset) + data


def read_of(stag, offset=0, size=16, number=1, sink=(0x100, 0x1000)):
    """A Read Request for octets of the other end, to a sink (STag, offset) of this end."""
    return untagged(READ, struct.pack("!IQIIQ", *sink, size, stag, offset), queue=1,
                    number=number)


def immediate(data=b"eight...", number=1, opcode=IMMEDIATE, **more):
    return untagged(opcode, data, number=number, **more)


def atomic_of(stag, offset, number=1, code=FETCH_ADD, ident=0x1D, data=1, mask=0, compare=0,
              compare_mask=(1 << 64) - 1):
    """An Atomic Request for a value of the other end."""
    header = struct.pack("!IIIQQQQQ", code, ident, stag, offset, data, mask, compare, compare_mask)
    return untagged(ATOMIC, header, queue=1, number=number)


def atomic_response(ident, value=0, number=1, **more):
    return untagged(ATOMIC_RESPONSE, struct.pack("!IQ", ident, value), queue=3, number=number,
                    **more)


def fpdu(ulpdu, length=None, crc=None):
    body = struct.pack("!H", len(ulpdu) if length is None else length) + ulpdu
    body += bytes(-len(body) % 4)
    return body + (crc32c(body) if crc is None else crc)


def advertise(address=0x1000, stag=0x100, size=64):
    """The first message of rping's client: it says where its buffer is."""
    return struct.pack("!QII", address, stag, size)


class Stream:
    """A connection that is set up: FPDUs go both ways."""

    # What read_ahead() has received.
    unread = io.BytesIO()

    def __init__(self, sock):
        self.sock = sock

    def read_ahead(self, seconds=10):
        """Receives all up to the FIN, as fast as it comes: next() computes CRCs, which takes a slow machine seconds."""
        self.sock.settimeout(seconds * SLOW)
        parts = []
        try:
            while more := self.sock.recv(65536):
                parts.append(more)
        except OSError as e:
            raise Failed(f"no FIN, after {sum(map(len, parts))} octets: {e!r}") from e
        self.unread = io.BytesIO(b"".join(parts))

    def receive(self, count, seconds=10):
        self.sock.settimeout(seconds * SLOW)
        got = self.unread.read(count)
        while len(got) < count:
            try:
                more = self.sock.recv(count - len(got))
            except ConnectionResetError as e:
                raise Failed(f"reset, after {got!r}") from e
            except socket.timeout as e:
                raise Failed(f"nothing came, after {got!r}") from e
            if not more:
                break
            got += more
        return got

    def accepted(self):
        """Receives a Reply, which has to accept; returns its private data."""
        reply = self.receive(20)
        check(reply[:16] == mpa.REPLY and not reply[16] & mpa.R, f"not accepted: {reply!r}")
        return self.receive(struct.unpack("!H", reply[18:])[0])

    def send(self, *ulpdus):
        self.sock.sendall(b"".join(fpdu(u) for u in ulpdus))

    def heard(self, seconds=10):
        """Receives some octets: an empty string is a FIN, None a reset."""
        self.sock.settimeout(seconds * SLOW)
        try:
            return self.sock.recv(1000)
        except ConnectionResetError:
            return None
        except socket.timeout as e:
            raise Failed("it is not closed") from e

    def urgent(self, data):
        """Sends data with an urgent last octet. MPA has no such thing: the device has to reset."""
        self.sock.send(data, socket.MSG_OOB)
        got = self.heard()
        check(got is None, f"not reset, but {got and got.hex() or 'a FIN'}")

    def next(self):
        """Receives an FPDU and returns its ULPDU, or nothing at the FIN."""
        head = self.receive(2)
        if not head:
            return b""
        length = struct.unpack("!H", head)[0]
        rest = self.receive((length + 2 + 3) // 4 * 4 + 4 - 2)
        body = head + rest
        check(crc32c(body[:-4]) == body[-4:], "a wrong CRC")
        check(not any(body[2 + length:-4]), "padding that is not zero")
        return body[2:2 + length]

    def read_request(self, first=1):
        """Receives the server's Read Request for the advertised buffer; returns its fields."""
        ulpdu = self.next()
        check(len(ulpdu) == 46, f"no Read Request: {ulpdu.hex()}")
        control, rdmap, _, queue, number, offset = struct.unpack("!BBIIII", ulpdu[:18])
        check((control, rdmap, queue, number, offset) ==
              (LAST | VERSION, RDMAP | READ, 1, first, 0), f"not Read Request {first}: {ulpdu.hex()}")
        return struct.unpack("!IQIIQ", ulpdu[18:])


class MarkedStream(Stream):
    """A stream with markers (RFC 5044 s4.3): there is one before the first FPDU, and one at every
    512th octet from there."""

    def __init__(self, sock):
        super().__init__(sock)
        self.at = 0             # octets received
        self.start = None       # where in these the FPDU begins, with its length field
        self.covered = b""      # the octets that the CRC covers
        self.between = self.within = 0
        self.longest = 0        # length of the longest ULPDU

    def octets(self, count):
        """Receives octets of the FPDU, and checks the markers among them."""
        got = b""
        while len(got) < count:
            if self.at % 512 == 0:
                marker = self.receive(4)
                if not marker:
                    break
                # A marker between two FPDUs belongs to the second one, and has the offset 0.
                back = 0 if self.start is None else self.at - self.start
                check(marker == struct.pack("!HH", 0, back),
                      f"marker {marker.hex()} at {self.at}, {back} octets into the FPDU")
                self.between += self.start is None
                self.within += self.start is not None
                self.covered += marker
                self.at += 4
            if self.start is None:
                self.start = self.at
            more = self.receive(min(count - len(got), 512 - self.at % 512))
            if not more:
                break
            got += more
            self.covered += more
            self.at += len(more)
        return got

    def next(self):
        self.start, self.covered = None, b""
        head = self.octets(2)
        if not head:
            return b""
        length = struct.unpack("!H", head)[0]
        self.longest = max(self.longest, length)
        ulpdu = self.octets((length + 2 + 3) // 4 * 4 - 2)
        crc = self.octets(4)
        check(crc32c(self.covered[:-4]) == crc, "a wrong CRC")
        check(not any(ulpdu[length:]), "padding that is not zero")
        return ulpdu[:length]


class Peer(Stream):
    """A connection to rping's server."""

    def __init__(self, address, port, window=None):
        self.address, self.port = address, port
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        if window:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        sock.settimeout(10 * SLOW)
        sock.connect((address, port))
        super().__init__(sock)
        self.sock.sendall(mpa.frame(mpa.REQUEST))
        self.accepted()

    def terminated(self, kind, code, offender=None, read_request=False):
        """Receives a Terminate of that kind, and then the FIN."""
        ulpdu = self.next()
        check(len(ulpdu) >= 21, f"no Terminate: {ulpdu.hex()}")
        control, rdmap, _, queue, number, offset = struct.unpack("!BBIIII", ulpdu[:18])
        check((control, rdmap) == (LAST | VERSION, RDMAP | TERMINATE), f"not a Terminate: {ulpdu.hex()}")
        check((queue, number, offset) == (2, 1, 0), f"queue {queue}, MSN {number}, MO {offset}")
        term = ulpdu[18:]
        check((term[0], term[1]) == (kind, code),
              f"says {term[0]:#04x} {term[1]:#04x}, not {kind:#04x} {code:#04x}")
        check(not term[2] & 0x1F and not term[3], "reserved bits are set")
        rest = term[4:]
        if offender is None:
            check(not term[2] and not rest, f"has a header: {term.hex()}")
        else:
            size = 14 if offender[0] & TAGGED else 18
            check(term[2] == (0xE0 if read_request else 0xC0), f"header bits {term[2]:#04x}")
            check(struct.unpack("!H", rest[:2])[0] == len(offender), "the segment's length")
            header = offender[:size + 28] if read_request else offender[:size]
            check(rest[2:] == header, f"the header of something else: {rest[2:].hex()}")
        check(self.next() == b"", "something behind the Terminate")

    def refused(self, ulpdu, kind, code, **more):
        self.send(ulpdu)
        self.terminated(kind, code, ulpdu, **more)


# --- what is right ------------------------------------------------------------

def good(peer):
    """A whole round of rping: Send, Read, Send, Send, Write, Send."""
    a_round(peer, 1)


def a_round(peer, first, size=64, read=1):
    """A round, given the numbers of its first Send and of the server's Read."""
    peer.send(untagged(SEND, advertise(size=size), number=first))
    sink, to, length, source, address = peer.read_request(read)
    check((length, source, address) == (size, 0x100, 0x1000), "reads something else")
    goes_on(peer, sink, to, first + 1, size)


def goes_on(peer, sink, to, number=2, size=64):
    """The rest of a round, beginning with the answer to the server's Read."""
    # A C string that is as long as the buffer.
    data = bytes(1 + i % 251 for i in range(size - 1)) + b"\0"
    # The answer has three segments, the last of which is empty.
    peer.send(tagged(RESPONSE, sink, to, data[:30], last=False),
              tagged(RESPONSE, sink, to + 30, data[30:], last=False),
              tagged(RESPONSE, sink, to + size))
    check(peer.next()[:2] == bytes((LAST | VERSION, RDMAP | SEND)), "no Send")
    peer.send(untagged(SEND, advertise(0x2000, 0x200, size), number=number))
    written = b""
    while len(written) < size:
        # The segments of a Write come in order, and the last one has the flag L.
        ulpdu = peer.next()
        part = ulpdu[14:]
        last = len(written) + len(part) == size
        check(part and ulpdu == tagged(WRITE, 0x200, 0x2000 + len(written), part, last=last),
              f"not the Write's next segment: {ulpdu.hex()}")
        written += part
    check(written == data, f"not what was read: {written.hex()}")
    check(peer.next()[:2] == bytes((LAST | VERSION, RDMAP | SEND)), "no Send")


def in_single_octets(peer):
    peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for octet in fpdu(untagged(SEND, advertise())):
        peer.sock.sendall(bytes((octet,)))
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


def length_too_short(peer):
    peer.sock.sendall(fpdu(b"\x41\x43" + bytes(6)) + bytes(40))
    peer.terminated(MPA, 3)


def urgent_data(peer):
    """An urgent octet between FPDUs, and one within an FPDU."""
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


def too_long(peer):
    peer.refused(untagged(SEND, bytes(RECEIVE + 1)), DDP_UNTAGGED, 5)


def too_long_in_pieces(peer):
    peer.send(untagged(SEND, bytes(RECEIVE), last=False))
    peer.refused(untagged(SEND, bytes(1), offset=RECEIVE), DDP_UNTAGGED, 5)


def ddp_version(peer):
    peer.refused(untagged(SEND, advertise(), version=2), DDP_UNTAGGED, 6)


# --- DDP, tagged ------------------------------------------------------------------

def write_unknown_stag(peer):
    peer.refused(tagged(WRITE, 0x7FFFFF01, 0, bytes(8)), DDP_TAGGED, 0)


def write_stag_zero(peer):
    peer.refused(tagged(WRITE, 0, 0, bytes(8)), DDP_TAGGED, 0)


def write_wraps(peer):
    peer.refused(tagged(WRITE, 0x7FFFFF01, (1 << 64) - 4, bytes(8)), DDP_TAGGED, 3)


def tagged_version(peer):
    peer.refused(tagged(WRITE, 0x7FFFFF01, 0, bytes(8), version=0), DDP_TAGGED, 4)


# --- RDMAP --------------------------------------------------------------------------

def rdmap_version(peer):
    peer.refused(untagged(SEND, advertise(), rdmap=0x80), RDMA_OPERATION, 5)


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


def read_unknown_stag(peer):
    peer.refused(read_of(0x7FFFFF01), RDMA_PROTECTION, 0, read_request=True)


def read_number_two_first(peer):
    peer.refused(read_of(0x7FFFFF01, number=2), DDP_UNTAGGED, 3)


def read_short_header(peer):
    peer.send(untagged(READ, bytes(20), queue=1))
    ulpdu = peer.next()
    check(len(ulpdu) >= 22 and ulpdu[1] == RDMAP | TERMINATE, f"no Terminate: {ulpdu.hex()}")


def read_zero_of_nothing(peer):
    """A Read of no octets needs no buffer: the device answers it, whatever its STag."""
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


def reads_beyond_ird(peer):
    """More Reads than were agreed on: their queue overflows and the connection ends; others go on.

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
    # The queue may have room for some more Reads than were agreed on, but not for all of them.
    check(total < 100 * size, f"{total // size} Reads at a time")
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
        return 0
    address, port = sys.argv[1], int(sys.argv[2])
    for name in sys.argv[3:]:
        try:
            CASES[name](Peer(address, port))
            print("ok", name, flush=True)
        # OSError: a time limit of the socket; the others: an FPDU that is too short to be parsed.
        except (Failed, OSError, IndexError, struct.error) as e:
            print(f"# {e!r}"[:300])
            print("not ok", name, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
