#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What rsiw-doctor makes of the network: routes, packets, and who answers at a port. Servers of these tests are real."""

import contextlib
import socket
import struct
import threading
import unittest
from unittest import mock

from doctor_fake import Case
from doctor import mpa, path
from doctor.system import Result


class Path(Case):
    def peer(self, full=Result(0), small=Result(0), **others):
        for mtu, result in ((1500, full), (128, small), *((int(k[1:]), v) for k, v in others.items())):
            self.system.commands[f"ping -n -4 -M do -c 2 -i 0.3 -W 1 -w 3 -s {mtu - 28} 10.7.0.2"] = result

    def test_split(self):
        self.assertEqual(path.split_peer("10.7.0.2:20049"), ("10.7.0.2", 20049))
        self.assertEqual(path.split_peer("host"), ("host", None))
        self.assertEqual(path.split_peer("fd07::2"), ("fd07::2", None))
        self.assertEqual(path.split_peer("[fd07::2]:99"), ("fd07::2", 99))
        self.assertEqual(path.split_peer("[fd07::2]"), ("fd07::2", None))

    def test_route(self):
        self.peer()
        self.assertIn("10.7.0.2 is reached by eth0 (rsiw0), from 10.7.0.1", self.examine("--peer", "10.7.0.2"))
        self.assertEqual(self.status, 0)

    def test_route_elsewhere(self):
        self.system.commands["ip -j route get 10.7.0.2"][0]["dev"] = "eth1"
        self.finds(2, "FAIL route .*leaves by eth1", "sudo ip route replace 10.7.0.2/32 dev eth0", "--peer", "10.7.0.2")

    def test_route_without_a_device(self):
        self.system.commands["ip -j route get 10.9.0.2"] = [{"dev": "eth1", "prefsrc": "10.9.0.1", "cache": []}]
        self.finds(2, "FAIL route .*no rsiw device", "sudo rdma link add rsiw_eth1 type rsiw netdev eth1",
                   "--peer", "10.9.0.2")

    def test_no_route(self):
        self.system.commands["ip -j route get 10.9.0.2"] = Result(2, "", "RTNETLINK answers: Network is unreachable")
        self.finds(2, "(?m)FAIL route .*no route to 10.9.0.2: Network is unreachable$", "ip route add",
                   "--peer", "10.9.0.2")

    def test_name_is_unknown(self):
        self.finds(2, "FAIL peer .*'nowhere'", "getent ahosts", "--peer", "nowhere")

    def test_name(self):
        self.system.commands["getent ahosts there"] = "10.7.0.2  STREAM there\n10.7.0.2 DGRAM\n"
        self.assertEqual(path.resolve(self.system, self.report, "there"), "10.7.0.2")

    def test_own_address(self):
        self.system.commands["ip -j route get 10.7.0.1"] = [{"dev": "lo", "prefsrc": "10.7.0.1", "cache": ["local"]}]
        self.assertIn("an address of this host, on eth0", self.examine("--peer", "10.7.0.1"))
        self.assertEqual(self.status, 0)

    def test_loopback(self):
        self.finds(2, "FAIL route .*127.0.0.1 is this host by lo, which has no rsiw device",
                   "sudo rdma link add rsiw_lo type rsiw netdev lo", "--peer", "127.0.0.1")
        self.system.files["/sys/class/infiniband/rsiw_lo/settings"] = ""
        self.system.commands["rdma -j link show"].append(
            {"ifname": "rsiw_lo", "port": 1, "state": "ACTIVE", "netdev": "lo"})
        self.system.files["/sys/class/infiniband_verbs/uverbs1/ibdev"] = "rsiw_lo"
        self.system.files["/dev/infiniband/uverbs1"] = ""
        self.system.commands["ip -j addr show dev lo"] = [
            {"ifname": "lo", "flags": ["LOOPBACK", "UP", "LOWER_UP"], "mtu": 65536, "addr_info": [
                {"family": "inet", "local": "127.0.0.1", "prefixlen": 8, "scope": "host"}]}]
        said = self.examine("--peer", "127.0.0.1")
        self.assertIn("127.0.0.1 is this host by lo (rsiw_lo)", said)
        self.assertIn("lo has 127.0.0.1", said)
        self.assertEqual(self.status, 0, said)

    def in_vrf(self):
        self.system.commands["ip -j -d link show dev eth0"] = [
            {"ifname": "eth0", "master": "red", "linkinfo": {"info_slave_kind": "vrf"}}]
        self.system.commands["ip -j route get 10.7.0.2"] = [{"dev": "eth1", "prefsrc": "10.8.0.1", "cache": []}]

    def test_vrf(self):
        self.in_vrf()
        self.system.commands["ip -j route get 10.7.0.2 vrf red"] = [
            {"dev": "eth0", "prefsrc": "10.7.0.1", "cache": []}]
        for size in (1472, 100):
            self.system.commands[f"ping -n -4 -M do -c 2 -i 0.3 -W 1 -w 3 -I red -s {size} 10.7.0.2"] = Result(0)
        said = self.examine("--peer", "10.7.0.2")
        self.assertIn("10.7.0.2 is reached by eth0 (rsiw0) in the VRF red, from 10.7.0.1", said)
        self.assertIn("eth0 is in the VRF red", said)
        self.assertIn("packets of 1500 bytes, the MTU of eth0, arrive", said)
        self.assertEqual(self.status, 0, said)

    def test_no_route_in_the_vrf(self):
        self.in_vrf()
        self.finds(2, "FAIL route .*leaves by eth1", "sudo ip route replace 10.7.0.2/32 dev eth0", "--peer", "10.7.0.2")

    def test_own_address_in_a_vrf(self):
        self.in_vrf()
        self.system.commands["ip -j route get 10.7.0.1"] = Result(2, "", "RTNETLINK answers: Network is unreachable")
        self.system.commands["ip -j route get 10.7.0.1 vrf red"] = [
            {"dev": "red", "prefsrc": "10.7.0.1", "cache": ["local"]}]
        self.assertIn("an address of this host, on eth0", self.examine("--peer", "10.7.0.1"))
        self.assertEqual(self.status, 0)

    def test_ipv6(self):
        self.system.commands["ip -j addr show dev eth0"][0]["addr_info"].append(
            {"family": "inet6", "local": "fd07::1", "prefixlen": 64, "scope": "global"})
        self.system.commands["ip -j route get fd07::2"] = [{"dst": "fd07::2", "dev": "eth0", "prefsrc": "fd07::1"}]
        for size in (1452, 80):
            self.system.commands[f"ping -n -6 -M do -c 2 -i 0.3 -W 1 -w 3 -s {size} fd07::2"] = Result(0)
        said = self.examine("--peer", "[fd07::2]")
        self.assertIn("packets of 1500 bytes, the MTU of eth0, arrive", said)
        self.assertEqual(self.status, 0)
        self.system.commands["ip -j route get fd07::2"][0]["dev"] = "eth1"
        self.finds(2, "FAIL route", "sudo ip route replace fd07::2/128 dev eth0", "--peer", "fd07::2")

    def test_black_hole(self):
        self.peer(full=Result(1), m1400=Result(0), m1280=Result(0))
        self.finds(2, "FAIL mtu .*those of 1400 arrive", "sudo ip link set eth0 mtu 1400", "--peer", "10.7.0.2")

    def test_black_hole_below_ipv6(self):
        self.peer(full=Result(1), m1000=Result(0))
        self.finds(2, "FAIL mtu .*those of 1000 arrive", "sudo sysctl -w net.ipv4.tcp_mtu_probing=1", "--peer",
                   "10.7.0.2")

    def test_path_mtu_is_told(self):
        self.peer(full=Result(1, "From 10.7.0.9 icmp_seq=1 Frag needed and DF set (mtu = 1400)"))
        self.assertIn("the path's MTU is 1400", self.examine("--peer", "10.7.0.2"))
        self.assertEqual(self.status, 0)

    def test_no_pings(self):
        self.peer(full=Result(1), small=Result(1))
        self.assertRegex(self.examine("--peer", "10.7.0.2"), "(?m)^skip mtu +10.7.0.2 answers no pings")
        self.assertEqual(self.status, 0)

    def test_port_mapper_chooses_another_port(self):
        self.peer()
        self.system.files["/sys/class/infiniband/rsiw0/settings/port_mapper"] = "1"
        self.system.running.add("iwpmd")
        self.assertRegex(self.examine("--peer", "10.7.0.2:9"), "(?m)^skip port +rsiw0 has port_mapper=1")

    def port(self, how, got, **exchange):
        """The whole command, and a peer whose port is so."""
        self.peer()
        with mock.patch.object(mpa, "connect", lambda *_, **__: (how, got)), \
                mock.patch.object(mpa, "probe", lambda *_, **__: mpa.Exchange(**exchange)):
            return self.examine("--quiet", "--peer", "10.7.0.2:9")

    def test_port(self):
        for how, got, pattern in ((mpa.REFUSED, "", "nobody listens on port 9 of 10.7.0.2.*\n.*rping -s -a 10.7.0.2 -p 9"),
                                  (mpa.SILENT, "", "does not answer.*\n +sudo rsiw-doctor --port 9 "),
                                  (mpa.UNREACHABLE, "No route to host", "port 9 of 10.7.0.2: No route to host")):
            self.assertRegex(self.port(how, got), "^FAIL port .*" + pattern)
            self.assertEqual(self.status, 2)

    def test_who_answers(self):
        for exchange, pattern in (({"kind": mpa.OTHER, "raw": b"SSH"}, "TCP program that knows no iWARP.*b'SSH'"),
                                  ({"kind": mpa.CLOSED}, "closes at an MPA Request"),
                                  ({"kind": mpa.MUTE}, "does not answer an MPA Request in 5 s")):
            self.assertRegex(self.port(mpa.OPEN, None, **exchange), "^FAIL port .*" + pattern)
        self.assertEqual(self.port(mpa.OPEN, None, kind=mpa.IWARP, reply=self.reply(mpa.CRC)), "")
        self.assertEqual(self.port(mpa.OPEN, None, kind=mpa.IWARP, reply=self.reply(mpa.REJECTED)), "")
        self.assertEqual(self.status, 0)

    def test_a_peer_with_tls_is_not_asked(self):
        self.system.files["/sys/class/infiniband/rsiw0/settings/tls"] = "2"
        # The peer closes a connection that begins without TLS.
        with mock.patch.object(mpa, "probe", lambda *_, **__: self.fail("an MPA Request in the clear")):
            got = mock.Mock()
            self.peer()
            with mock.patch.object(mpa, "connect", lambda *_, **__: (mpa.OPEN, got)):
                self.assertRegex(self.examine("--peer", "10.7.0.2:9"), "(?m)^ok +port +port 9 of 10.7.0.2 is open")
            got.close.assert_called_once()

    def test_listener(self):
        ids, sockets = "rdma resource show cm_id", "ss -Hltnp sport = :7"
        self.system.commands[sockets] = "LISTEN 0 128 10.7.0.1:7 0.0.0.0:*"
        self.system.commands[ids] = ("link rsiw0/1 cm-idn 0 state LISTEN ps TCP pid 9 comm rping "
                                     "src-addr 10.7.0.1:7 dst-addr 0.0.0.0:0 \n")
        self.assertIn("by RDMA, rping (rsiw0) listens on port 7", self.examine("--port", "7"))
        self.assertEqual(self.status, 0)
        # One that listens at all addresses.
        self.system.commands[ids] = self.system.commands[ids].replace("rsiw0/1", "rsiw0/-")
        self.assertIn("by RDMA, rping (rsiw0) listens on port 7", self.examine("--port", "7"))
        self.system.commands[ids] = self.system.commands[ids].replace(":7 ", ":77 ")
        self.assertRegex(self.examine("--port", "7"), "(?m)^ok +port +the kernel listens on port 7")
        self.system.root = False
        self.assertRegex(self.examine("--port", "7"), "(?m)^skip port +only root can tell")
        self.system.root = True
        self.system.commands[sockets] += ' users:(("nc",pid=9,fd=3))'
        self.finds(2, "FAIL port +a TCP program listens", "ss -ltnp", "--port", "7")
        self.system.commands[sockets] = ""
        self.finds(2, "FAIL port +nobody listens", "rping -s -p 7", "--port", "7")
        del self.system.commands[sockets]
        self.assertRegex(self.examine("--port", "7"), "(?m)^skip port")

    def reply(self, flags, revision=2):
        return mpa.Reply(mpa.REPLY + struct.pack("!BBHHH", flags | mpa.ENHANCED, revision, 4, 0x8010, 0x4008))

    def test_reply_of_the_peer(self):
        path.report_reply(self.system, self.report, "10.7.0.2", 7, self.links()[0], self.reply(mpa.CRC))
        self.assertEqual(self.report.status, 0)
        self.assertIn("MPA revision 2, CRCs on, IRD 16, ORD 8", self.report.text())

    def test_crc_of_the_peer(self):
        self.system.files["/sys/class/infiniband/rsiw0/settings/crc"] = "0"
        path.report_reply(self.system, self.report, "10.7.0.2", 7, self.links()[0], self.reply(mpa.CRC))
        self.assertRegex(self.report.text(True), "warn crc +rsiw0 has crc=0, but the peer asks for CRCs")

    def test_old_peer_with_markers(self):
        path.report_reply(self.system, self.report, "10.7.0.2", 7, self.links()[0], self.reply(mpa.MARKERS, 1))
        self.assertRegex(self.report.text(True), "(?s)warn port .*markers.*warn mpa .*revision 1 only")


class Server:
    """A TCP server that answers each connection with what `answer` makes of a Request, and closes if that is None."""

    def __init__(self, answer):
        self.answer, self.requests = answer, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                conn, _ = self.socket.accept()
                with conn:
                    got = conn.recv(600)
                    self.requests.append(got)
                    for piece in self.answer(got) or ():
                        conn.sendall(piece)
                    if self.answer(got) == []:
                        conn.recv(1)


def frame(flags, revision, data=b""):
    return mpa.REPLY + struct.pack("!BBH", flags, revision, len(data)) + data


class Mpa(unittest.TestCase):
    def probe(self, answer):
        self.server = Server(answer)
        how, sock = mpa.connect("127.0.0.1", self.server.port)
        self.assertEqual(how, mpa.OPEN)
        found = mpa.probe("127.0.0.1", self.server.port, sock, 0.5)
        self.server.socket.close()
        return found

    def test_request(self):
        self.assertEqual(mpa.request(2), b"MPA ID Req Frame\x10\x02\x00\x0f\x00\x01\x00\x01rsiw-doctor")
        self.assertEqual(mpa.request(1, crc=True), b"MPA ID Req Frame\x40\x01\x00\x0brsiw-doctor")

    def test_responder(self):
        data = struct.pack("!HH", 16, 8) + b"hello"
        found = self.probe(lambda _: [frame(mpa.CRC | mpa.ENHANCED, 2, data)])
        self.assertEqual((found.kind, found.reply.revision, found.reply.crc, found.reply.ird, found.reply.ord),
                         (mpa.IWARP, 2, True, 16, 8))

    def test_reply_in_pieces(self):
        data = frame(mpa.ENHANCED, 2, struct.pack("!HH", 1, 1) + b"x" * 100)
        found = self.probe(lambda _: [data[:7], data[7:19], data[19:30], data[30:]])
        self.assertEqual((found.kind, found.reply.crc), (mpa.IWARP, False))

    def test_fpdus_behind_the_reply_do_not_count(self):
        self.assertEqual(self.probe(lambda _: [frame(0, 2) + b"more"]).kind, mpa.IWARP)

    def test_old_responder(self):
        found = self.probe(lambda got: [frame(mpa.CRC, 1)] if got[17] == 1 else None)
        self.assertEqual((found.kind, found.reply.revision), (mpa.IWARP, 1))
        self.assertEqual(len(self.server.requests), 2)

    def test_rejects(self):
        self.assertTrue(self.probe(lambda _: [frame(mpa.REJECTED, 2)]).reply.rejected)

    def test_other_programs(self):
        self.assertEqual(self.probe(lambda _: [b"SSH-2.0-x\r\n"]).raw, b"SSH-2.0-x\r\n"[:20])
        self.assertEqual(self.probe(lambda got: [got]).kind, mpa.OTHER)
        self.assertEqual(self.probe(lambda _: None).kind, mpa.CLOSED)
        self.assertEqual(self.probe(lambda _: []).kind, mpa.MUTE)

    def test_broken_replies(self):
        self.assertEqual(self.probe(lambda _: [mpa.REPLY]).kind, mpa.OTHER)
        long = mpa.REPLY + struct.pack("!BBH", 0, 2, 513) + b"x" * 513
        self.assertEqual(self.probe(lambda _: [long]).kind, mpa.OTHER)

    def test_nobody_listens(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        self.assertEqual(mpa.connect("127.0.0.1", port)[0], mpa.REFUSED)

if __name__ == "__main__":
    unittest.main()
