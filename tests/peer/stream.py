# SPDX-License-Identifier: GPL-2.0
"""A connection that is set up: FPDUs, their CRCs, and markers (RFC 5044 s4)."""

import io
import socket
import struct

from peer import SLOW, Failed, check, mpa
from peer.messages import LAST, RDMAP, READ, TAGGED, TERMINATE, VERSION


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


def fpdu(ulpdu, length=None, crc=None):
    body = struct.pack("!H", len(ulpdu) if length is None else length) + ulpdu
    body += bytes(-len(body) % 4)
    return body + (crc32c(body) if crc is None else crc)


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
            raise Failed(f"no FIN, after {sum(map(len, parts))} bytes: {e!r}") from e
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
        """Receives some bytes: an empty string is a FIN, None a reset."""
        self.sock.settimeout(seconds * SLOW)
        try:
            return self.sock.recv(1000)
        except ConnectionResetError:
            return None
        except socket.timeout as e:
            raise Failed("it is not closed") from e

    def urgent(self, data):
        """Sends data with an urgent last byte. MPA has no such thing: the device has to reset."""
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


class MarkedStream(Stream):
    """A stream with markers (RFC 5044 s4.3): there is one before the first FPDU, and one at every
    512th byte from there."""

    def __init__(self, sock):
        super().__init__(sock)
        self.at = 0             # bytes received
        self.start = None       # where in these the FPDU begins, with its length field
        self.covered = b""      # the bytes that the CRC covers
        self.between = self.within = 0
        self.longest = 0        # length of the longest ULPDU

    def of_fpdu(self, count):
        """Receives bytes of the FPDU, and checks the markers among them."""
        got = b""
        while len(got) < count:
            if self.at % 512 == 0:
                marker = self.receive(4)
                if not marker:
                    break
                # A marker between two FPDUs belongs to the second one, and has the offset 0.
                back = 0 if self.start is None else self.at - self.start
                check(marker == struct.pack("!HH", 0, back),
                      f"marker {marker.hex()} at {self.at}, {back} bytes into the FPDU")
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
        head = self.of_fpdu(2)
        if not head:
            return b""
        length = struct.unpack("!H", head)[0]
        self.longest = max(self.longest, length)
        ulpdu = self.of_fpdu((length + 2 + 3) // 4 * 4 - 2)
        crc = self.of_fpdu(4)
        check(crc32c(self.covered[:-4]) == crc, "a wrong CRC")
        check(not any(ulpdu[length:]), "padding that is not zero")
        return ulpdu[:length]
