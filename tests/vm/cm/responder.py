# SPDX-License-Identifier: GPL-2.0
"""A peer that connects to a listening RDMA consumer."""

import os
import random
import socket
import struct
import threading
import time

from peer import SLOW, Clock, Failed, check, closed, is_open, receive, reset, wait_until
from peer.messages import RESPONSE, SEND, TERMINATE, WRITE, read_of, tagged, untagged
from peer.mpa import (A, B, C, DEPTH, KNOWS, LARGE, M, R, REPLY, REQUEST, RTR_READ, RTR_WRITE, S,
                      enhanced, frame, receive_frame)
from peer.rping import a_round
from peer.stream import MarkedStream, Stream, fpdu


FIN_WAIT2, LISTEN = 5, 10       # include/net/tcp_states.h


class Responder:
    def __init__(self, address, port):
        self.to = (address, port)

    def connect(self):
        return socket.create_connection(self.to, timeout=10)

    def ask(self, request):
        sock = self.connect()
        sock.sendall(request)
        return sock

    def sockets(self):
        """State and length of the receive queue, of each IPv4 socket at the listener's port."""
        with open("/proc/net/tcp", encoding="ascii") as table:
            rows = [line.split() for line in table][1:]
        return [(int(row[3], 16), int(row[4].split(":")[1], 16)) for row in rows
                if int(row[1].split(":")[1], 16) == self.to[1]]

    def not_accepted(self):
        """How many connections wait in the listener's TCP queue."""
        lengths = [queue for state, queue in self.sockets() if state == LISTEN]
        check(lengths, "nobody listens")
        return sum(lengths)

    #= 5044-7.1.2-8
    def case_revision_1(self):
        sock = self.ask(frame(REQUEST, C, 1, b"hello"))
        flags, revision, data = receive_frame(sock, REPLY)
        check(revision == 1, f"answered with revision {revision}")
        check(flags == C, f"flags {flags:#x}")
        check(data == b"", f"private data {data!r}")
        # Nothing may come before our first FPDU.
        is_open(sock)

    def case_revision_2(self):
        """The Reply has IRD and ORD, and the client-server model."""
        sock = self.ask(frame(REQUEST, C | S, 2, enhanced(4, 7)))
        flags, revision, data = receive_frame(sock, REPLY)
        check(revision == 2 and flags == C | S, f"revision {revision} flags {flags:#x}")
        ird, ord_ = struct.unpack("!HH", data[:4])
        check(not ird & A, "a peer-to-peer reply to a client-server request")
        check(not (ird & B or ord_ & (RTR_WRITE | RTR_READ)), "RTR flags without peer-to-peer")
        check(ird & DEPTH >= 7, f"IRD {ird & DEPTH} for our ORD of 7")
        check(ord_ & DEPTH <= 4, f"ORD {ord_ & DEPTH} for our IRD of 4")

    def case_peer_to_peer(self):
        for ird, ord_ in ((A | B, 0), (A, RTR_WRITE), (A, RTR_READ), (A | B, RTR_WRITE | RTR_READ)):
            sock = self.ask(frame(REQUEST, C | S, 2, enhanced(ird | 4, ord_ | 4)))
            flags, revision, data = receive_frame(sock, REPLY)
            check(revision == 2 and flags & S, f"revision {revision} flags {flags:#x}")
            got_ird, got_ord = struct.unpack("!HH", data[:4])
            check(got_ird & A, "not peer-to-peer")
            rtr = (got_ird & B) | (got_ord & (RTR_WRITE | RTR_READ)) << 16
            check(rtr, "no RTR")
            wanted = (ird & B) | (ord_ & (RTR_WRITE | RTR_READ)) << 16
            check(rtr & wanted, f"none of the RTRs asked for: {rtr:#x}, not {wanted:#x}")
            sock.close()

    def case_depths_not_negotiated(self):
        sock = self.ask(frame(REQUEST, C | S, 2, enhanced(DEPTH, DEPTH)))
        _, _, data = receive_frame(sock, REPLY)
        check(data[:4] == enhanced(DEPTH, DEPTH), f"answered {data[:4]!r}")

    #= 6581-9.2-3
    def case_rtr_forms(self):
        """Each form of RTR that was agreed on lets the connection begin, and does not reach the
        consumer."""
        forms = {
            # Bits of IRD and ORD; the message; the number of the Send that follows.
            "Send": (A | B, 0, untagged(SEND), 2),
            "Write": (A, RTR_WRITE, tagged(WRITE, 0, 0), 1),
            "Read": (A, RTR_READ, read_of(0, size=0), 1),
        }
        for name, (ird, ord_, rtr, number) in forms.items():
            # The Request offers this form alone, all three, or none: then the Reply's forms count.
            every = (A | B, RTR_WRITE | RTR_READ)
            for asked, said in (((ird, ord_), [ird, ord_]), (every, [*every]), ((A, 0), [*every])):
                sock = self.ask(frame(REQUEST, C | S, 2, enhanced(asked[0] | 4, asked[1] | 4)))
                _, _, data = receive_frame(sock, REPLY)
                got = struct.unpack("!HH", data[:4])
                check([word & ~DEPTH for word in got] == said,
                      f"{name}: the Reply's flags: {data[:4].hex()}")
                stream = Stream(sock)
                try:
                    stream.send(rtr)
                    if name == "Read":
                        check(stream.next() == tagged(RESPONSE, 0x100, 0x1000),
                              "no empty Read Response")
                    a_round(stream, number)
                except Failed as e:
                    raise Failed(f"{name}: {e}") from e
                sock.close()

    #= 5044-4.3-1, 5044-4.3-2, 5044-4.3-3, 5044-4.3-5, 5044-4.3-7, 5044-4.3-9, 5044-7.1.1-6
    def case_marked(self):
        """The Request asks for markers: the device puts them in all that it sends."""
        sock = self.ask(frame(REQUEST, C | M, 1))
        receive_frame(sock, REPLY)
        self.rounds_with_markers(sock)

    def case_marked_large(self):
        """The same with FPDUs that are longer than a TCP segment, to which both ends agree."""
        sock = socket.socket(socket.AF_INET6 if ":" in self.to[0] else socket.AF_INET)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000)
        sock.connect(self.to)
        sock.sendall(frame(REQUEST, C | M | LARGE, 1))
        flags, _, _ = receive_frame(sock, REPLY)
        check(flags & LARGE and flags & KNOWS, f"large FPDUs are not agreed to: flags {flags:#x}")
        stream = self.rounds_with_markers(sock)
        check(stream.longest > 2000, f"the longest ULPDU has {stream.longest} bytes")

    @staticmethod
    def rounds_with_markers(sock):
        stream = MarkedStream(sock)
        # Several rounds, so that FPDUs begin at different places between the markers.
        sizes = (20000, 100, 1001, 40, 500, 443, 2000, 3, 60)
        for i, size in enumerate(sizes):
            try:
                a_round(stream, 2 * i + 1, size, read=i + 1)
            except Failed as e:
                raise Failed(f"{size} bytes: {str(e)[:200]}") from e
        print(f"{stream.between} markers between FPDUs, {stream.within} within")
        check(stream.within > sum(sizes) // 512, "too few")
        return stream

    def case_backlog(self):
        """The consumer, which the job has stopped, has a backlog of 3 (rping).

        Three requests wait for it, and the others for the device to report them, which it does in the
        end: then there is no room for them. Peers that send no Request occupy slots, of which there are
        128; when all are taken, the oldest of these peers gives way.
        """
        whole = frame(REQUEST, C, 1)
        waiting = [self.ask(whole) for _ in range(3)]
        beyond = [self.ask(whole) for _ in range(5)]
        is_open(beyond[-1], 0.5)
        silent = []
        for _ in range(128 - len(waiting) - len(beyond)):
            silent.append(self.connect())
            # One by one: TCP's queue is short, and some connections would be accepted only later.
            wait_until(lambda: self.not_accepted() == 0, "a connection gets no slot")
        beyond += [self.ask(whole) for _ in range(4)]
        # Each of these requests needs a slot.
        closed(silent[0], 15)
        # (Others may have had their 10 s meanwhile.)
        for sock in silent[-1:] + waiting:
            is_open(sock, 0.05)
        for sock in beyond:
            flags, _, _ = receive_frame(sock, REPLY, 25)
            check(flags & R, "a request beyond the backlog is not refused")
        for sock in silent:
            sock.close()

    def case_silent_peers(self):
        """Peers that connect, send nothing and stay do not keep others out."""
        silent, stop = [], threading.Event()

        def fill():
            while not stop.is_set():
                sock = socket.socket(socket.AF_INET6 if ":" in self.to[0] else socket.AF_INET)
                sock.setblocking(False)
                sock.connect_ex(self.to)
                silent.append(sock)
                # First more than there are slots, then faster than the device gives them up, after 10 s.
                if len(silent) > 200:
                    time.sleep(0.05)

        thread = threading.Thread(target=fill)
        thread.start()
        took = []
        try:
            wait_until(lambda: len(silent) > 200, "no silent peers")
            time.sleep(2)
            for _ in range(10):
                began = time.monotonic()
                sock = self.ask(frame(REQUEST, C | S, 2, enhanced(4, 4)))
                receive_frame(sock, REPLY)
                took.append(time.monotonic() - began)
                sock.close()
                time.sleep(0.2)
        finally:
            stop.set()
            thread.join()
            for sock in silent:
                sock.close()
        print(f"beside {len(silent)} silent ones: {max(took):.2f} s at the most")
        # Two may have had to wait for the machine.
        check(sorted(took)[-3] < 2 * SLOW, "honest peers have to wait")

    def case_fin_behind_data(self):
        """A peer sends bytes after its Request and then a FIN: the device lets it go, although the
        consumer, which the job has stopped, has not answered."""
        sock = self.ask(frame(REQUEST, C, 1) + bytes(100))
        sock.shutdown(socket.SHUT_WR)
        closed(sock, 5)
        # The same if the FIN comes a while later.
        sock = self.ask(frame(REQUEST, C, 1) + bytes(100))
        is_open(sock, 0.5)
        sock.shutdown(socket.SHUT_WR)
        closed(sock, 5)

    def case_in_order(self):
        """Requests reach the consumer (requests.c) in the order in which they arrived."""
        for _ in range(5):
            socks = [self.connect() for _ in range(60)]
            wait_until(lambda: self.not_accepted() == 0, "connections are not accepted")
            random.shuffle(socks)
            for sock in socks:
                sock.sendall(frame(REQUEST, C, 1))
            got = []
            for sock in socks:
                flags, _, data = receive_frame(sock, REPLY)
                check(flags & R and len(data) == 4, "not a rejection of requests.c")
                got.append(int.from_bytes(data, "big"))
                sock.close()
            check(got == list(range(got[0], got[0] + len(got))), f"not in order: {got}")

    def case_keeps_up(self):
        """Each connection is made in less than half a second, until the job ends the case."""
        took, clock = [], Clock()
        while not os.path.exists("/tmp/enough"):
            began = clock.now()
            sock = self.ask(frame(REQUEST, C | S, 2, enhanced(4, 4)))
            receive_frame(sock, REPLY)
            took.append(clock.now() - began)
            sock.close()
            if len(took) == 5:
                print("# begun", flush=True)
            time.sleep(0.05)
        print(f"# {len(took)} connections, {max(took) * 1000:.0f} ms at the most")
        check(len(took) > 20 and max(took) < 0.5 * SLOW, "somebody has to wait")

    def case_refused(self):
        """Of refused peers that do not close, the device keeps no more than there are slots: 256, as the
        consumer (requests.c) has that backlog. It rejects each request."""
        whole = frame(REQUEST, C, 1)
        refused = [self.ask(whole) for _ in range(400)]
        for sock in refused:
            end = receive(sock, 1)
            check(end in (b"", REPLY[:1]), f"neither refused nor reset: {end!r}")
        kept = sum(state == FIN_WAIT2 for state, _ in self.sockets())
        print(f"{kept} are kept")
        check(0 < kept <= 256, "too many, or none")

    #= 5044-1.2-2, 5044-4.4-3
    def case_crc_off(self):
        """CRCs are used if either end asks for them, and the device does by default."""
        sock = self.ask(frame(REQUEST, 0, 1))
        flags, _, _ = receive_frame(sock, REPLY)
        check(flags & C, "CRCs are off")

    def case_markers(self):
        """The peer asks for markers; the device never does."""
        sock = self.ask(frame(REQUEST, C | M, 1))
        flags, _, _ = receive_frame(sock, REPLY)
        check(not flags & M, "asks for markers")

    #= 5044-7.1-1, 5044-7.1.2-2
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

    #= 5044-7.1.2-3, 5044-7.1.2-9, 5044-8-1, 5044-8-2
    def case_bad_frames(self):
        bad = {
            "no key": b"GET / HTTP/1.1\r\n\r\n",
            "a wrong last byte of the key": frame(REQUEST[:15] + b"x"),
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

    def case_gone_at_once(self):
        """Peers leave in every stage, by FIN and by reset; then a good one connects."""
        whole = frame(REQUEST, C | S, 2, enhanced(4, 4))
        for _ in range(20):
            for part in (0, 1, 19, 20, len(whole)):
                for leave in (reset, socket.socket.close):
                    sock = self.connect()
                    sock.sendall(whole[:part])
                    leave(sock)
        self.case_revision_2()

    def case_many_half_open(self):
        """More silent peers than the backlog holds do not keep others out for long."""
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
        """The consumer, which the job has stopped, never answers: the device closes in the end."""
        socks = [self.ask(frame(REQUEST, C, 1, b"anybody?")) for _ in range(3)]
        for sock in socks:
            closed(sock, 90)

    def case_hold(self):
        """Peers wait in every stage until the job has the device close their connections."""
        whole = frame(REQUEST, C | S, 2, enhanced(4, 4))
        socks = [self.ask(whole[:part]) for part in (0, 1, 20, len(whole)) for _ in range(3)]
        receive_frame(socks[-1], REPLY)
        print("held", flush=True)
        for sock in socks:
            got = receive(sock, 1000, 60)
            check(len(got) in (0, 24), f"odd last words: {got!r}")

    def case_terminated_in_message(self):
        """A Terminate in the middle of a Write, and the FIN with it: the device answers with a FIN."""
        sock = self.ask(frame(REQUEST, C, 1))
        receive_frame(sock, REPLY)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        sock.sendall(fpdu(tagged(WRITE, 0, 0, last=False)) +
                     fpdu(untagged(TERMINATE, bytes((0x20, 2, 0, 0)), queue=2)))
        # The FIN goes out with the corked data.
        sock.shutdown(socket.SHUT_WR)
        sock.settimeout(10 * SLOW)
        try:
            got = sock.recv(1)
        except ConnectionResetError as e:
            raise Failed("reset") from e
        check(got == b"", f"not a FIN, but {got!r}")

    #= 5040-7-2, 5041-3-12, 5044-7.1-1, 5044-8-4
    def case_early_fpdu(self):
        """Bytes after the Request are no part of it: the device takes them for an FPDU."""
        sock = self.ask(frame(REQUEST, C, 1) + bytes(100))
        receive_frame(sock, REPLY)
        # A zero FPDU has a wrong CRC: a Terminate, then the end.
        got = receive(sock, 1000)
        check(len(got) == 0 or len(got) >= 20, f"an odd end: {got!r}")
