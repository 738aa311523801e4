# SPDX-License-Identifier: GPL-2.0
"""A peer that an RDMA consumer connects to."""

import os
import socket
import struct
import subprocess
import time

from peer import SLOW, Failed, check, closed, is_open, receive, reset
from peer.messages import RDMAP, READ, RESPONSE, SEND, WRITE, read_of, tagged, untagged
from peer.mpa import (A, B, C, DEPTH, KNOWS, LARGE, M, R, REPLY, REQUEST, RTR_READ, RTR_WRITE, S,
                      enhanced, frame, receive_frame)
from peer.stream import MarkedStream, Stream

# Seconds after which the device repeats its RTR to a peer that sends nothing.
WAIT = int(os.environ.get("INITIATOR_WAIT", "1"))


def message(stream):
    """The next ULPDU that is no empty Write: those are RTRs, repeated as this peer was slow."""
    ulpdu = stream.next()
    while is_empty_write(ulpdu):
        ulpdu = stream.next()
    return ulpdu


def is_empty_write(ulpdu):
    return len(ulpdu) == 14 and ulpdu[1] == RDMAP | WRITE


class AheadStream(Stream):
    """A stream that can return a ULPDU again: `ahead`."""
    ahead = b""

    def next(self):
        got, self.ahead = self.ahead, b""
        return got or super().next()


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
        """The consumer has to end in time, and to fail. Returns how long it has run."""
        try:
            status = self.consumer.wait(seconds * SLOW)
        except subprocess.TimeoutExpired as e:
            self.consumer.kill()
            raise Failed("the consumer does not end") from e
        check(status != 0 or not fails, "the consumer believes in success")
        return time.monotonic() - self.began

    #= 5044-7.1.2-7
    def case_request(self):
        sock = self.accept()
        flags, revision, data = receive_frame(sock, REQUEST)
        check(revision == 2 and flags == C | S | LARGE, f"revision {revision} flags {flags:#x}")
        check(len(data) >= 4, "no enhanced data")
        sock.sendall(frame(REPLY, C | S | R, 2, enhanced(0, 0) + b"go away"))
        self.consumer_ends(10)

    def refusals(self):
        """How many connections of this host were refused."""
        with open("/proc/net/snmp", encoding="ascii") as table:
            names, values = [line.split() for line in table if line.startswith("Tcp:")]
        return int(values[names.index("AttemptFails")])

    def told(self, start=None, **env):
        """Starts a consumer that prints its events (naming.c), with `env` besides the environment. It
        connects when `start` has run."""
        self.consumer = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         text=True, env={**os.environ, **env})
        check(self.consumer.stdout.readline().startswith("qp "), "no queue pair")
        if start:
            start()
        self.began = time.monotonic()
        self.consumer.stdin.write("\n")
        self.consumer.stdin.flush()

    def case_tried_again(self):
        """Nobody listens: the device tries four times within a moment, then it tells the consumer."""
        self.listener.close()
        before = self.refusals()
        self.told()
        after = self.consumer_ends(10)
        tries = self.refusals() - before
        said = self.consumer.stdout.read()
        check("RDMA_CM_EVENT_REJECTED" in said or "RDMA_CM_EVENT_UNREACHABLE" in said, said)
        check(tries == 4, f"tried {tries} times")
        check(0.13 <= after < 10 * SLOW, f"told after {after:.2f} s")

    def rejected(self, reply):
        """The consumer gets the private data of the rejection, and the peer is not asked again."""
        self.told()
        sock = self.accept()
        receive_frame(sock, REQUEST)
        sock.sendall(reply)
        self.consumer_ends(10)
        said = self.consumer.stdout.read()
        check("RDMA_CM_EVENT_REJECTED: go away" in said, said)
        self.not_asked_again()

    def not_asked_again(self):
        self.listener.settimeout(0.5)
        try:
            self.listener.accept()
            raise Failed("asked again")
        except socket.timeout:
            pass

    def case_rejected(self):
        self.rejected(frame(REPLY, C | S | R, 2, enhanced(0, 0) + b"go away"))

    def without_large(self, first):
        """The peer ends the first attempt: the second one is like it, without the offer of large FPDUs."""
        sock = self.accept()
        asked = receive_frame(sock, REQUEST)
        check(asked[:2] == (C | S | LARGE, 2), f"revision {asked[1]}, flags {asked[0]:#x}")
        first(sock)
        sock = self.accept()
        again = receive_frame(sock, REQUEST)
        check(again == (C | S, 2, asked[2]), f"revision {again[1]}, flags {again[0]:#x}, {again[2]!r}")
        return sock

    def case_without_large_after_fin(self):
        """A peer that drops the offer of large FPDUs, and takes the Request without it."""
        sock = self.without_large(lambda sock: sock.close())
        sock.sendall(frame(REPLY, C | S, 2, enhanced(A | 8, RTR_WRITE | 8)))
        check(len(Stream(sock).next()) == 14, "the RTR, a Write of no bytes")
        sock.close()
        self.consumer_ends(20, fails=False)

    def fall_back(self, first):
        first(self.without_large(first))
        sock = self.accept()
        flags, revision, data = receive_frame(sock, REQUEST)
        check(revision == 1, f"the last attempt has revision {revision}")
        check(flags == C, f"the last attempt has flags {flags:#x}")
        sock.sendall(frame(REPLY, C | R, 1, b"no"))
        self.consumer_ends(10)

    def case_fall_back_after_reset(self):
        self.fall_back(reset)

    #= 5044-7.1.2-6, 5044-7.1.2-9, 5044-8-2
    def case_bad_replies(self):
        sock = self.accept()
        receive_frame(sock, REQUEST)
        sock.sendall(frame(REQUEST, C | S, 2, enhanced(1, 1)))
        closed(sock)
        self.consumer_ends(10)

    def case_hold(self):
        """The peer does not answer until the job ends the connection."""
        sock = self.accept()
        receive_frame(sock, REQUEST)
        print("held", flush=True)
        closed(sock, 60)
        self.consumer_ends(60)

    def agree(self, sock, ird, ord_):
        """A Reply that accepts, with the connection model of the Request."""
        data = receive_frame(sock, REQUEST)[2]
        flags_ird, flags_ord = (word & ~DEPTH for word in struct.unpack("!HH", data[:4]))
        sock.sendall(frame(REPLY, C | S, 2, enhanced(flags_ird | ird, flags_ord | ord_)))

    #= 6581-9.1-5
    def case_too_deep(self):
        """An ORD that the device cannot serve: Terminate, layer 2, type 0, code 6."""
        sock = self.accept()
        self.agree(sock, 1, DEPTH - 1)
        self.terminated(sock, 6)

    def no_reads(self):
        """A consumer that wants no Reads connects: the Request says so."""
        self.told(READS="0")
        sock = self.accept()
        ird, ord_ = struct.unpack("!HH", receive_frame(sock, REQUEST)[2][:4])
        check(not (ird | ord_) & DEPTH, f"IRD {ird & DEPTH}, ORD {ord_ & DEPTH}, not 0")
        return sock

    #= 5040-6.1-5, 6581-9.1-5
    def case_reads_excluded(self):
        """A Reply does not raise an IRD of 0: Terminate, layer 2, type 0, code 6."""
        sock = self.no_reads()
        sock.sendall(frame(REPLY, C | S, 2, enhanced(A | 1, RTR_WRITE | 1)))
        self.terminated(sock, 6)

    def case_reads_excluded_but_rtr(self):
        """With an ORD of 0 the RTR may still be a Read, of no bytes."""
        sock = self.no_reads()
        sock.sendall(frame(REPLY, C | S, 2, enhanced(A | 1, RTR_READ)))
        stream = Stream(sock)
        sink, to, size = stream.read_request()[:3]
        check(size == 0, f"reads {size} bytes")
        stream.send(tagged(RESPONSE, sink, to))
        said = self.consumer.stdout.read()
        check("RDMA_CM_EVENT_ESTABLISHED" in said, said)

    #= 6581-9.2-8
    def case_no_rtr_in_common(self):
        """Peer-to-peer, but no ready-to-receive message: Terminate, layer 2, type 0, code 7."""
        sock = self.accept()
        receive_frame(sock, REQUEST)
        sock.sendall(frame(REPLY, C | S, 2, enhanced(A | 4, 4)))
        self.terminated(sock, 7)

    #= 6581-5-1
    def case_rtr_first(self):
        """The first FPDU is the RTR that was agreed on, whatever the consumer sends first."""
        for ird, ord_, opcode in ((A | B, 0, 3), (A, RTR_WRITE, 0), (A, RTR_READ, 1)):
            sock = self.accept()
            receive_frame(sock, REQUEST)
            sock.sendall(frame(REPLY, C | S, 2, enhanced(ird | 4, ord_ | 4)))
            length, _, rdmap = struct.unpack("!HBB", receive(sock, 4))
            check(rdmap == 0x40 | opcode, f"RDMAP control {rdmap:#x}, not opcode {opcode}")
            # Headers, and no payload: tagged, untagged, untagged with what to read.
            check(length == {0: 14, 3: 18, 1: 46}[opcode], f"{length} bytes")
            if opcode == 1:
                size = receive(sock, 46 - 2)[18 + 12 - 2:][:4]
                check(size == bytes(4), f"reads {size!r} bytes")
            sock.close()
            self.consumer.kill()
            self.consumer.wait()
            self.consumer = None

    def rounds(self, sock, stream=None):
        """Plays the server of rping for one round. The client then disconnects."""
        stream = stream or Stream(sock)
        address, stag, size = struct.unpack("!QII", message(stream)[18:34])
        stream.send(read_of(stag, address, size))
        total = 0
        while total < size:
            total += len(stream.next()) - 14
        stream.send(untagged(SEND, bytes(16)))
        address, stag, size = struct.unpack("!QII", message(stream)[18:34])
        stream.send(tagged(WRITE, stag, address, bytes(size)),
                    untagged(SEND, bytes(16), number=2))
        # Of a FIN, Stream returns no bytes; a reset it reports as a failure.
        got = message(stream)
        check(got == b"", f"not the end, but {got[:20].hex()}")

    def orderly(self, first):
        """When the consumer disconnects, a FIN follows all data."""
        sock = self.accept()
        stream = first(sock)
        try:
            self.rounds(sock, stream)
        except Failed as e:
            raise Failed(str(e)[:100]) from e
        sock.close()
        self.consumer_ends(10, fails=False)
        check(self.consumer.returncode == 0, "the consumer fails")

    def agree_and_skip_rtr(self, sock):
        receive_frame(sock, REQUEST)
        sock.sendall(frame(REPLY, C | S, 2, enhanced(A | 8, RTR_WRITE | 8)))
        check(len(Stream(sock).next()) == 14, "the RTR, a Write of no bytes")

    #= 5041-6.2.1-3
    def case_orderly_end(self):
        self.orderly(self.agree_and_skip_rtr)

    def case_client_server_reply(self):
        """A Reply with flag A clear, though it was set in the Request: client and server, no RTR."""
        def first(sock):
            ird = struct.unpack("!H", receive_frame(sock, REQUEST)[2][:2])[0]
            check(ird & A, "peer-to-peer was not asked for")
            # The other flags do not count then.
            sock.sendall(frame(REPLY, C | S, 2, enhanced(B | 8, RTR_WRITE | 8)))
            return self.without_rtr(sock)
        self.orderly(first)

    def without_rtr(self, sock):
        """The first FPDU is the consumer's, no RTR."""
        stream = AheadStream(sock)
        head = stream.ahead = stream.next()
        check(head[1] == RDMAP | SEND, f"not what the consumer sends: {head.hex()}")
        return stream

    def case_only_client_server(self):
        """With peer_to_peer=0 the Request does not ask for the peer-to-peer model."""
        def first(sock):
            data = receive_frame(sock, REQUEST)[2]
            ird, ord_ = struct.unpack("!HH", data[:4])
            check(not ird & (A | B) and not ord_ & (RTR_WRITE | RTR_READ), f"flags {data[:4].hex()}")
            sock.sendall(frame(REPLY, C | S, 2, enhanced(8, 8)))
            return self.without_rtr(sock)
        self.orderly(first)

    def case_repeated_rtr(self):
        """The peer sends nothing: the device repeats the RTR once, as an empty Write."""
        sock = self.accept()
        receive_frame(sock, REQUEST)
        sock.sendall(frame(REPLY, C | S, 2, enhanced(A | 8, RTR_READ | 8)))
        stream = Stream(sock)
        check(stream.next()[1] == RDMAP | READ, "the RTR, a Read")
        sent = stream.next()
        check(sent[1] == RDMAP | SEND, f"not what the consumer sends: {sent.hex()}")
        check(is_empty_write(stream.next()), "the RTR, repeated")
        is_open(sock, 3)
        sock.close()
        self.consumer_ends(20, fails=False)

    def case_unrepeated_rtr(self):
        """The peer has answered the RTR: the device does not repeat it."""
        sock = self.accept()
        receive_frame(sock, REQUEST)
        sock.sendall(frame(REPLY, C | S, 2, enhanced(A | 8, RTR_READ | 8)))
        stream = Stream(sock)
        request = stream.read_request()
        stream.send(tagged(RESPONSE, *request[:2]))
        sent = stream.next()
        check(sent[1] == RDMAP | SEND, f"not what the consumer sends: {sent.hex()}")
        is_open(sock, WAIT + 2 * SLOW)
        sock.close()
        self.consumer_ends(20, fails=False)

    #= 5044-7.1.1-7
    def case_marked(self):
        """The Reply asks for markers: the device puts them in all that it sends."""
        streams = []

        def first(sock):
            receive_frame(sock, REQUEST)
            sock.sendall(frame(REPLY, C | S | M, 2, enhanced(A | 8, RTR_WRITE | 8)))
            streams.append(MarkedStream(sock))
            check(len(streams[0].next()) == 14, "the RTR, a Write of no bytes")
            return streams[0]
        self.orderly(first)
        self.are_marked(streams[0])

    def case_marked_large(self):
        """The same with FPDUs that are longer than a TCP segment."""
        longest = self.longest_of_reply(KNOWS)
        check(longest > 2000, f"the longest ULPDU has {longest} bytes")

    def case_reflected(self):
        """A peer that reflects all bits of the Request has not agreed to large FPDUs."""
        longest = self.longest_of_reply(0)
        check(longest < 1000, f"the longest ULPDU has {longest} bytes")

    def longest_of_reply(self, knows):
        """The length of the longest ULPDU after a Reply with the bit for large FPDUs and `knows`."""
        streams = []
        self.listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000)

        def first(sock):
            flags, _, _ = receive_frame(sock, REQUEST)
            check(flags & LARGE, f"large FPDUs are not offered: flags {flags:#x}")
            sock.sendall(frame(REPLY, C | S | M | LARGE | knows, 2, enhanced(A | 8, RTR_WRITE | 8)))
            streams.append(MarkedStream(sock))
            check(len(streams[0].next()) == 14, "the RTR, a Write of no bytes")
            return streams[0]
        self.orderly(first)
        self.are_marked(streams[0])
        return streams[0].longest

    @staticmethod
    def are_marked(stream):
        print(f"{stream.between} markers between FPDUs, {stream.within} within")
        check(stream.within > 30, "too few")

    #= 5041-6.2.1-3
    def case_end_after_fin(self):
        """The peer sends its FIN first; the device answers with a FIN, not a reset."""
        sock = self.accept()
        self.agree_and_skip_rtr(sock)
        stream = Stream(sock)
        try:
            stream.next()
            sock.shutdown(socket.SHUT_WR)
            got = stream.next()
        except Failed as e:
            raise Failed(str(e)[:100]) from e
        check(got == b"", f"not the end, but {got[:20].hex()}")
        self.consumer_ends(20, fails=False)

    #= 5044-7.1.1-14, 6581-10-3
    def case_only_revision_1(self):
        """With mpa_revision=1 the Request has nothing of RFC 6581, and the Reply needs nothing of it."""
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
        sock.sendall(frame(REPLY, C | S, 2, enhanced(A | 8, RTR_WRITE | 8)))
        stream = Stream(sock)
        try:
            check(len(stream.next()) == 14, "the RTR, a Write of no bytes")
            address, stag, size = struct.unpack("!QII", message(stream)[18:34])
            for number in range(1, 9):
                stream.send(read_of(stag, address, size, number))
            time.sleep(1)
            self.consumer.kill()
            self.consumer.wait()
            time.sleep(0.5)
            total = 0
            while ulpdu := message(stream):
                check(ulpdu[1] == RDMAP | RESPONSE, f"not a response: {ulpdu[:20]!r}")
                total += len(ulpdu) - 14
            check(total >= size, f"only {total} bytes came")
        except Failed as e:
            raise Failed(str(e)[:100]) from e

    def terminated(self, sock, code):
        """A Terminate of layer 2, type 0 comes, and the consumer fails."""
        got = receive(sock, 1000)
        check(len(got) >= 20, f"no Terminate: {got!r}")
        length, ddp, rdmap = struct.unpack("!HBB", got[:4])
        check(ddp & 0xc3 == 0x41, f"DDP control {ddp:#x}")
        check(rdmap == 0x47, f"RDMAP control {rdmap:#x}")
        # Untagged header: 2 control bytes, 4 reserved, QN, MSN, MO; then the Terminate control.
        qn = struct.unpack("!I", got[8:12])[0]
        check(qn == 2, f"queue {qn}")
        check(got[20] == 0x20 and got[21] == code, f"Terminate {got[20]:#x} {got[21]}")
        self.consumer_ends(10)

    def case_leaves_after_reply(self):
        """The peer accepts, then closes: the consumer is told."""
        sock = self.accept()
        self.agree(sock, 8, 8)
        check(len(receive(sock, 20)) == 20, "not one FPDU comes")
        sock.close()
        # rping does not take this for a failure.
        self.consumer_ends(20, fails=False)
