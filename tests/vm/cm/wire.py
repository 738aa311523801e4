# SPDX-License-Identifier: GPL-2.0
"""MPA connection setup spoken by hand over plain TCP (RFC 5044 s7, RFC 6581).

    wire.py responder CASE ADDRESS PORT     against a listening RDMA consumer
    wire.py initiator CASE ADDRESS PORT COMMAND...
                                            COMMAND is a consumer that connects

Exit status 0 if the device behaved; what went wrong is printed otherwise.
"""

import os
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "wire"))
import fpdu  # noqa: E402
from mpa import C, M, R, REPLY, REQUEST, S, enhanced, frame  # noqa: E402

A, B = 0x8000, 0x4000           # with the IRD
WRITE, READ = 0x8000, 0x4000    # with the ORD
DEPTH = 0x3fff
SLOW = float(os.environ.get("RSIW_SLOW", "1"))


class Failed(Exception):
    pass


def check(what, message):
    if not what:
        raise Failed(message)


def receive(sock, count, seconds=15):
    """Exactly so many bytes, or fewer if the connection ends."""
    sock.settimeout(seconds * SLOW)
    got = b""
    try:
        while len(got) < count:
            more = sock.recv(count - len(got))
            if not more:
                break
            got += more
    except ConnectionResetError:
        pass
    except socket.timeout as e:
        raise Failed(f"nothing came in {seconds} s, after {got!r}") from e
    return got


def receive_frame(sock, key, seconds=15):
    head = receive(sock, 20, seconds)
    check(len(head) == 20, f"no frame, but {head!r}")
    check(head[:16] == key, f"not the key: {head[:16]!r}")
    flags, revision, length = struct.unpack("!BBH", head[16:])
    data = receive(sock, length, seconds)
    check(len(data) == length, "the private data are cut off")
    return flags, revision, data


def closed(sock, seconds=15):
    """The device closes without another byte."""
    got = receive(sock, 1, seconds)
    check(got == b"", f"not closed, but {got!r}")


def is_open(sock, seconds=1.0):
    sock.settimeout(seconds)
    try:
        got = sock.recv(1)
    except socket.timeout:
        return
    raise Failed(f"not left open: {got!r}")


# --- the device is the responder ---------------------------------------------

class Responder:
    def __init__(self, address, port):
        self.to = (address, port)

    def connect(self):
        return socket.create_connection(self.to, timeout=10)

    def ask(self, request):
        sock = self.connect()
        sock.sendall(request)
        return sock

    def case_revision_1(self):
        sock = self.ask(frame(REQUEST, C, 1, b"hello"))
        flags, revision, data = receive_frame(sock, REPLY)
        check(revision == 1, f"answered with revision {revision}")
        check(flags == C, f"flags {flags:#x}")
        check(data == b"", f"private data {data!r}")
        # Nothing may come before our first FPDU.
        is_open(sock)

    def case_revision_2(self):
        """IRD and ORD are answered; client-server model."""
        sock = self.ask(frame(REQUEST, C | S, 2, enhanced(4, 7)))
        flags, revision, data = receive_frame(sock, REPLY)
        check(revision == 2 and flags == C | S, f"revision {revision} flags {flags:#x}")
        ird, ord_ = struct.unpack("!HH", data[:4])
        check(not ird & A, "a peer-to-peer reply to a client-server request")
        check(not (ird & B or ord_ & (WRITE | READ)), "RTR flags without peer-to-peer")
        check(ird & DEPTH >= 7, f"IRD {ird & DEPTH} for our ORD of 7")
        check(ord_ & DEPTH <= 4, f"ORD {ord_ & DEPTH} for our IRD of 4")

    def case_peer_to_peer(self):
        for ird, ord_ in ((A | B, 0), (A, WRITE), (A, READ), (A | B, WRITE | READ)):
            sock = self.ask(frame(REQUEST, C | S, 2, enhanced(ird | 4, ord_ | 4)))
            flags, revision, data = receive_frame(sock, REPLY)
            check(revision == 2 and flags & S, f"revision {revision} flags {flags:#x}")
            got_ird, got_ord = struct.unpack("!HH", data[:4])
            check(got_ird & A, "not peer-to-peer")
            rtr = (got_ird & B) | (got_ord & (WRITE | READ)) << 16
            check(rtr, "no RTR")
            wanted = (ird & B) | (ord_ & (WRITE | READ)) << 16
            check(rtr & wanted, f"none of the RTRs asked for: {rtr:#x}, not {wanted:#x}")
            sock.close()

    def case_depths_not_negotiated(self):
        sock = self.ask(frame(REQUEST, C | S, 2, enhanced(DEPTH, DEPTH)))
        _, _, data = receive_frame(sock, REPLY)
        check(data[:4] == enhanced(DEPTH, DEPTH), f"answered {data[:4]!r}")

    def case_rtr_forms(self):
        """Each ready-to-receive message that was agreed on lets the connection begin, and is no
        message of the consumer."""
        forms = {
            # Bits of IRD and ORD; the message; the number of the Send that follows.
            "Send": (A | B, 0, fpdu.untagged(fpdu.SEND), 2),
            "Write": (A, WRITE, fpdu.tagged(fpdu.WRITE, 0, 0), 1),
            "Read": (A, READ, fpdu.read_of(0, size=0), 1),
        }
        for name, (ird, ord_, rtr, number) in forms.items():
            # Agreed on alone, and as one of three.
            for ird_bits, ord_bits in ((ird, ord_), (A | B, WRITE | READ)):
                sock = self.ask(frame(REQUEST, C | S, 2, enhanced(ird_bits | 4, ord_bits | 4)))
                _, _, data = receive_frame(sock, REPLY)
                got = struct.unpack("!HH", data[:4])
                check([word & ~DEPTH for word in got] == [ird_bits, ord_bits],
                      f"{name}: the Reply's flags: {data[:4].hex()}")
                stream = fpdu.Stream(sock)
                try:
                    stream.send(rtr)
                    if name == "Read":
                        check(stream.next() == fpdu.tagged(fpdu.RESPONSE, 0x100, 0x1000),
                              "no empty Read Response")
                    fpdu.a_round(stream, number)
                except fpdu.Failed as e:
                    raise Failed(f"{name}: {e}") from e
                sock.close()

    def case_marked(self):
        """With markers asked for, there are some in all that comes."""
        sock = self.ask(frame(REQUEST, C | M, 1))
        receive_frame(sock, REPLY)
        stream = fpdu.MarkedStream(sock)
        # Several times, for FPDUs to begin at other places between the markers.
        sizes = (20000, 100, 1001, 40, 500, 443, 2000, 3, 60)
        for i, size in enumerate(sizes):
            try:
                fpdu.a_round(stream, 2 * i + 1, size, read=i + 1)
            except fpdu.Failed as e:
                raise Failed(f"{size} octets: {str(e)[:200]}") from e
        print(f"{stream.between} markers between FPDUs, {stream.within} within")
        check(stream.within > sum(sizes) // 512, "too few")

    def case_backlog(self):
        """The consumer, which the job has stopped, has a backlog of 3 (rping).

        So many requests wait for it and what exceeds them is refused. Peers that make no request
        occupy slots, 128 in all; then TCP holds the backlog and one, and no others connect.
        """
        whole = frame(REQUEST, C, 1)
        waiting = [self.ask(whole) for _ in range(3)]
        for _ in range(5):
            flags, _, _ = receive_frame(self.ask(whole), REPLY)
            check(flags & R, "a request beyond the backlog is not refused")
        silent = [self.connect() for _ in range(128 - len(waiting))]
        queued = [self.ask(whole) for _ in range(4)]
        outside = socket.socket(socket.AF_INET6 if ":" in self.to[0] else socket.AF_INET)
        outside.settimeout(1.5)
        try:
            outside.connect(self.to)
            raise Failed("TCP's queue has no end")
        except socket.timeout:
            outside.close()
        for sock in waiting + queued:
            is_open(sock, 0.05)
        # Free slots are for those who wait for one.
        for sock in silent:
            sock.close()
        for sock in queued:
            flags, _, _ = receive_frame(sock, REPLY)
            check(flags & R, "a request beyond the backlog is not refused")
        for sock in waiting:
            is_open(sock, 0.05)

    def case_no_rtr_comes(self):
        """A peer that promised an RTR and sends none is not waited for."""
        sock = self.ask(frame(REQUEST, C | S, 2, enhanced(A | B | 4, WRITE | 4)))
        receive_frame(sock, REPLY)
        closed(sock, 25)

    def case_crc_off(self):
        """CRCs are used if either end wants them, and our default is to want."""
        sock = self.ask(frame(REQUEST, 0, 1))
        flags, _, _ = receive_frame(sock, REPLY)
        check(flags & C, "CRCs are off")

    def case_markers(self):
        """We may ask for markers; the device never does."""
        sock = self.ask(frame(REQUEST, C | M, 1))
        flags, _, _ = receive_frame(sock, REPLY)
        check(not flags & M, "asks for markers")

    def case_byte_by_byte(self):
        sock = self.connect()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in frame(REQUEST, C | S, 2, enhanced(4, 4) + b"slowly"):
            sock.sendall(bytes([byte]))
            time.sleep(0.02)
        receive_frame(sock, REPLY)

    def case_longest_private_data(self):
        for request in (frame(REQUEST, C, 1, bytes(512)),
                        frame(REQUEST, C | S, 2, enhanced(4, 4) + bytes(508))):
            sock = self.ask(request)
            receive_frame(sock, REPLY)
            sock.close()

    def case_bad_frames(self):
        bad = {
            "no key": b"GET / HTTP/1.1\r\n\r\n",
            "a wrong last octet of the key": frame(REQUEST[:15] + b"x"),
            "a Reply": frame(REPLY),
            "revision 0": frame(REQUEST, C, 0),
            "revision 3": frame(REQUEST, C, 3),
            "too much private data": frame(REQUEST, C, 1, bytes(513)),
            "a huge length": frame(REQUEST, C, 1, b"", 0xffff),
            "no room for enhanced data": frame(REQUEST, C | S, 2, b"abc"),
        }
        for name, request in bad.items():
            try:
                closed(self.ask(request))
            except Failed as e:
                raise Failed(f"{name}: {e}") from e

    def case_silence(self):
        """A peer that connects and says nothing, or half of it, is let go."""
        socks = [self.connect() for _ in range(4)]
        for sock in socks[2:]:
            sock.sendall(REQUEST)
        began = time.monotonic()
        for sock in socks:
            closed(sock, 20)
        check(time.monotonic() - began > 3, "too soon")

    def case_gone_at_once(self):
        """Peers that leave in every stage, by FIN and by reset, and a good one after that."""
        reset = struct.pack("ii", 1, 0)
        whole = frame(REQUEST, C | S, 2, enhanced(4, 4))
        for _ in range(20):
            for part in (0, 1, 19, 20, len(whole)):
                for linger in (False, True):
                    sock = self.connect()
                    if linger:
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                    sock.sendall(whole[:part])
                    sock.close()
        self.case_revision_2()

    def case_many_half_open(self):
        """More silent peers than the backlog holds do not shut out others for long."""
        socks = []
        for _ in range(400):
            sock = socket.socket(socket.AF_INET6 if ":" in self.to[0] else socket.AF_INET)
            sock.setblocking(False)
            try:
                sock.connect(self.to)
            except BlockingIOError:
                pass
            socks.append(sock)
        time.sleep(1)
        for sock in socks:
            sock.close()
        end = time.monotonic() + 30 * SLOW
        while True:
            try:
                return self.case_revision_2()
            except (Failed, OSError):
                if time.monotonic() > end:
                    raise

    def case_unanswered(self):
        """The consumer sleeps (the job stopped it): the peer is let go in the end."""
        socks = [self.ask(frame(REQUEST, C, 1, b"anybody?")) for _ in range(3)]
        for sock in socks:
            closed(sock, 90)

    def case_hold(self):
        """Peers in every stage, for as long as the job likes: until the device lets all of them go."""
        whole = frame(REQUEST, C | S, 2, enhanced(4, 4))
        socks = [self.ask(whole[:part]) for part in (0, 1, 20, len(whole)) for _ in range(3)]
        receive_frame(socks[-1], REPLY)
        print("held", flush=True)
        for sock in socks:
            got = receive(sock, 1000, 60)
            check(len(got) in (0, 24), f"odd last words: {got!r}")

    def case_early_fpdu(self):
        """Something behind the Request is no part of it, nor the end of the world."""
        sock = self.ask(frame(REQUEST, C, 1) + bytes(100))
        receive_frame(sock, REPLY)
        # A zero FPDU has a wrong CRC: a Terminate, then the end.
        got = receive(sock, 1000)
        check(len(got) == 0 or len(got) >= 20, f"an odd end: {got!r}")


# --- the device is the initiator -----------------------------------------------

class Initiator:
    def __init__(self, address, port, command):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listener = socket.create_server((address, port), family=family, backlog=8)
        self.command = command
        self.consumer = None

    def accept(self, seconds=15):
        if self.consumer is None:
            self.began = time.monotonic()
            self.consumer = subprocess.Popen(self.command, stdin=subprocess.DEVNULL)
        self.listener.settimeout(seconds * SLOW)
        try:
            return self.listener.accept()[0]
        except socket.timeout as e:
            raise Failed("the device does not connect") from e

    def consumer_ends(self, seconds, fails=True):
        """The consumer has to end, in time, and to fail."""
        try:
            status = self.consumer.wait(seconds * SLOW)
        except subprocess.TimeoutExpired as e:
            self.consumer.kill()
            raise Failed("the consumer does not end") from e
        check(status != 0 or not fails, "the consumer believes in success")
        return time.monotonic() - self.began

    def case_request(self):
        sock = self.accept()
        flags, revision, data = receive_frame(sock, REQUEST)
        check(revision == 2 and flags == C | S, f"revision {revision} flags {flags:#x}")
        check(len(data) >= 4, "no enhanced data")
        sock.sendall(frame(REPLY, C | S | R, 2, enhanced(0, 0) + b"go away"))
        self.consumer_ends(10)

    def case_not_listening(self):
        self.listener.close()
        self.began = time.monotonic()
        self.consumer = subprocess.Popen(self.command, stdin=subprocess.DEVNULL)
        check(self.consumer_ends(10) < 8 * SLOW, "a refusal takes too long")

    def fall_back(self, first):
        sock = self.accept()
        _, revision, _ = receive_frame(sock, REQUEST)
        check(revision == 2, f"revision {revision}")
        first(sock)
        sock = self.accept()
        flags, revision, data = receive_frame(sock, REQUEST)
        check(revision == 1, f"the second attempt has revision {revision}")
        check(flags == C, f"the second attempt has flags {flags:#x}")
        sock.sendall(frame(REPLY, C | R, 1, b"no"))
        self.consumer_ends(10)

    def case_fall_back_after_fin(self):
        self.fall_back(lambda sock: sock.close())

    def case_fall_back_after_reset(self):
        def reset(sock):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        self.fall_back(reset)

    def case_fall_back_after_old_reply(self):
        self.fall_back(lambda sock: sock.sendall(frame(REPLY, C, 1)))

    def case_fall_back_fails(self):
        """Closed both times: one error for the consumer."""
        for revision in (2, 1):
            sock = self.accept()
            got = receive_frame(sock, REQUEST)[1]
            check(got == revision, f"revision {got}, not {revision}")
            sock.close()
        self.consumer_ends(10)

    def case_bad_replies(self):
        sock = self.accept()
        receive_frame(sock, REQUEST)
        sock.sendall(frame(REQUEST, C | S, 2, enhanced(1, 1)))
        closed(sock)
        self.consumer_ends(10)

    def case_hold(self):
        """A peer that does not answer, while the job does something about it."""
        sock = self.accept()
        receive_frame(sock, REQUEST)
        print("held", flush=True)
        closed(sock, 60)
        self.consumer_ends(60)

    def case_silence(self):
        """A peer that does not answer: an error after a while, not never."""
        sock = self.accept()
        receive_frame(sock, REQUEST)
        closed(sock, 45)
        self.consumer_ends(10)

    def agree(self, sock, ird, ord_):
        """A Reply that accepts, with the connection model of the Request."""
        data = receive_frame(sock, REQUEST)[2]
        flags_ird, flags_ord = (word & ~DEPTH for word in struct.unpack("!HH", data[:4]))
        sock.sendall(frame(REPLY, C | S, 2, enhanced(flags_ird | ird, flags_ord | ord_)))

    def case_too_deep(self):
        """An ORD that the device cannot serve: Terminate, layer 2, type 0, code 6."""
        sock = self.accept()
        self.agree(sock, 1, DEPTH - 1)
        self.terminated(sock, 6)

    def case_no_rtr_in_common(self):
        """Peer-to-peer, but no ready-to-receive message: Terminate, layer 2, type 0, code 7."""
        sock = self.accept()
        receive_frame(sock, REQUEST)
        sock.sendall(frame(REPLY, C | S, 2, enhanced(A | 4, 4)))
        self.terminated(sock, 7)

    def case_rtr_first(self):
        """Whatever the consumer has to send, the first FPDU is the RTR that was agreed on."""
        for ird, ord_, opcode in ((A | B, 0, 3), (A, WRITE, 0), (A, READ, 1)):
            sock = self.accept()
            receive_frame(sock, REQUEST)
            sock.sendall(frame(REPLY, C | S, 2, enhanced(ird | 4, ord_ | 4)))
            length, _, rdmap = struct.unpack("!HBB", receive(sock, 4))
            check(rdmap == 0x40 | opcode, f"RDMAP control {rdmap:#x}, not opcode {opcode}")
            # Headers, and no payload: tagged, untagged, untagged with what to read.
            check(length == {0: 14, 3: 18, 1: 46}[opcode], f"{length} octets")
            if opcode == 1:
                size = receive(sock, 46 - 2)[18 + 12 - 2:][:4]
                check(size == bytes(4), f"reads {size!r} octets")
            sock.close()
            self.consumer.kill()
            self.consumer.wait()
            self.consumer = None

    def rounds(self, sock, stream=None):
        """A whole round of rping with its client, as its server: the client then disconnects."""
        stream = stream or fpdu.Stream(sock)
        address, stag, size = struct.unpack("!QII", stream.next()[18:34])
        stream.send(fpdu.read_of(stag, address, size))
        total = 0
        while total < size:
            total += len(stream.next()) - 14
        stream.send(fpdu.untagged(fpdu.SEND, bytes(16)))
        address, stag, size = struct.unpack("!QII", stream.next()[18:34])
        stream.send(fpdu.tagged(fpdu.WRITE, stag, address, bytes(size)),
                    fpdu.untagged(fpdu.SEND, bytes(16), number=2))
        # Stream tells a FIN, which is nothing, from a reset, which is a failure.
        got = stream.next()
        check(got == b"", f"not the end, but {got[:20].hex()}")

    def orderly(self, first):
        """The consumer's disconnect is a FIN behind all it sent."""
        sock = self.accept()
        stream = first(sock)
        try:
            self.rounds(sock, stream)
        except fpdu.Failed as e:
            raise Failed(str(e)[:100]) from e
        sock.close()
        self.consumer_ends(10, fails=False)
        check(self.consumer.returncode == 0, "the consumer fails")

    def agree_and_skip_rtr(self, sock):
        receive_frame(sock, REQUEST)
        sock.sendall(frame(REPLY, C | S, 2, enhanced(A | 8, WRITE | 8)))
        check(len(fpdu.Stream(sock).next()) == 14, "the RTR, a Write of no octets")

    def case_orderly_end(self):
        self.orderly(self.agree_and_skip_rtr)

    def case_marked(self):
        """With markers asked for in the Reply, there are some in all that comes."""
        streams = []

        def first(sock):
            receive_frame(sock, REQUEST)
            sock.sendall(frame(REPLY, C | S | M, 2, enhanced(A | 8, WRITE | 8)))
            streams.append(fpdu.MarkedStream(sock))
            check(len(streams[0].next()) == 14, "the RTR, a Write of no octets")
            return streams[0]
        self.orderly(first)
        stream = streams[0]
        print(f"{stream.between} markers between FPDUs, {stream.within} within")
        check(stream.within > 30, "too few")

    def case_end_after_fin(self):
        """Our FIN comes first, and the device answers with a FIN, not a reset."""
        sock = self.accept()
        self.agree_and_skip_rtr(sock)
        stream = fpdu.Stream(sock)
        try:
            stream.next()
            sock.shutdown(socket.SHUT_WR)
            got = stream.next()
        except fpdu.Failed as e:
            raise Failed(str(e)[:100]) from e
        check(got == b"", f"not the end, but {got[:20].hex()}")
        self.consumer_ends(20, fails=False)

    def case_only_revision_1(self):
        """With the module's parameter: nothing of RFC 6581 is asked for, and nothing needed."""
        def first(sock):
            flags, revision, data = receive_frame(sock, REQUEST)
            check((flags, revision) == (C, 1), f"revision {revision}, flags {flags:#x}")
            check(not data, f"private data that nobody gave: {data!r}")
            sock.sendall(frame(REPLY, C, 1))
        self.orderly(first)

    def case_train_remains(self):
        """The consumer dies while the peer reads slowly: the stream ends between FPDUs, by a FIN."""
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock = self.accept()
        receive_frame(sock, REQUEST)
        sock.sendall(frame(REPLY, C | S, 2, enhanced(A | 8, WRITE | 8)))
        stream = fpdu.Stream(sock)
        try:
            check(len(stream.next()) == 14, "the RTR, a Write of no octets")
            address, stag, size = struct.unpack("!QII", stream.next()[18:34])
            for number in range(1, 9):
                stream.send(fpdu.read_of(stag, address, size, number))
            time.sleep(1)
            self.consumer.kill()
            self.consumer.wait()
            time.sleep(0.5)
            total = 0
            while ulpdu := stream.next():
                check(ulpdu[1] == fpdu.RDMAP | fpdu.RESPONSE, f"not a response: {ulpdu[:20]!r}")
                total += len(ulpdu) - 14
            check(total >= size, f"only {total} octets came")
        except fpdu.Failed as e:
            raise Failed(str(e)[:100]) from e

    def terminated(self, sock, code):
        """A Terminate of layer 2, type 0 comes, and the consumer fails."""
        got = receive(sock, 1000)
        check(len(got) >= 20, f"no Terminate: {got!r}")
        length, ddp, rdmap = struct.unpack("!HBB", got[:4])
        check(ddp & 0xc3 == 0x41, f"DDP control {ddp:#x}")
        check(rdmap == 0x47, f"RDMAP control {rdmap:#x}")
        # Untagged header: 2 control octets, 4 reserved, QN, MSN, MO; then the Terminate control.
        qn = struct.unpack("!I", got[8:12])[0]
        check(qn == 2, f"queue {qn}")
        check(got[20] == 0x20 and got[21] == code, f"Terminate {got[20]:#x} {got[21]}")
        self.consumer_ends(10)

    def case_leaves_after_reply(self):
        """Accepted, then closed: the consumer hears of it."""
        sock = self.accept()
        self.agree(sock, 8, 8)
        check(len(receive(sock, 20)) == 20, "not one FPDU comes")
        sock.close()
        # rping does not take this for a failure.
        self.consumer_ends(20, fails=False)


def main():
    role, case, address, port = sys.argv[1:5]
    if role == "responder":
        tester = Responder(address, int(port))
    else:
        tester = Initiator(address, int(port), sys.argv[5:])
    try:
        getattr(tester, "case_" + case)()
    except (Failed, fpdu.Failed) as e:
        print(f"{case}: {e}"[:300])
        return 1
    finally:
        if getattr(tester, "consumer", None) is not None and tester.consumer.poll() is None:
            tester.consumer.kill()
    return 0


sys.exit(main())
