#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What rsiw-doctor makes of links of type rsiw_rc: their GIDs, their TCP port here and at a peer, and whom they serve."""

import ipaddress
import json
import unittest
from unittest import mock

from doctor_fake import Case
from doctor import link, mpa
from doctor.system import Result

RC0 = "/sys/class/infiniband/rc0"
LISTENERS = "ss -Hltnp sport = :4791"
DROPS = {"nftables": [
    {"chain": {"family": "inet", "table": "t", "name": "c", "hook": "input", "prio": 0, "policy": "accept"}},
    {"rule": {"family": "inet", "table": "t", "chain": "c", "handle": 2, "expr": [
        {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 4791}},
        {"drop": None}]}}]}


class RcCase(Case):
    """A host with a link of each type on eth0."""

    def setUp(self):
        super().setUp()
        self.system.files |= {
            RC0: "", RC0 + "/settings": "", RC0 + "/settings/rc_port": "4791", RC0 + "/node_type": "1: CA",
            "/sys/class/infiniband/rsiw0/node_type": "4: RNIC",
            "/sys/class/infiniband_verbs/uverbs1/ibdev": "rc0", "/dev/infiniband/uverbs1": ""}
        self.gids(("fe80::5054:ff:fe00:1", "eth0"), ("::ffff:10.7.0.1", "eth0"))
        self.system.commands["rdma -j link show"].insert(
            0, {"ifname": "rc0", "port": 1, "state": "ACTIVE", "netdev": "eth0"})
        self.system.commands[LISTENERS] = ""

    def gids(self, *entries):
        """The table, with a free entry at its end."""
        self.system.files = {name: text for name, text in self.system.files.items() if "/gid" not in name}
        for index, (gid, netdev) in enumerate((*entries, ("::", None))):
            self.system.files[f"{RC0}/ports/1/gids/{index}"] = ipaddress.IPv6Address(gid).exploded
            if netdev:
                self.system.files[f"{RC0}/ports/1/gid_attrs/ndevs/{index}"] = netdev

    def addresses(self, netdev, *addresses):
        self.system.commands[f"ip -j addr show dev {netdev}"] = [
            {"ifname": netdev, "flags": ["BROADCAST", "UP", "LOWER_UP"], "mtu": 1500, "addr_info": [
                {"local": one, "prefixlen": 24 if "." in one else 64, "scope": "global"} for one in addresses]}]

    def only_rc(self):
        del self.system.commands["rdma -j link show"][1]

    def says(self, pattern, *arguments):
        """The whole command says so, and nothing is wrong."""
        said = self.examine(*arguments)
        self.assertRegex(said, "(?m)^" + pattern)
        self.assertEqual(self.status, 0, said)
        return said


class Links(RcCase):
    def test_both_types_are_well(self):
        said = self.says("ok +link +rc0 on eth0 is active")
        self.assertRegex(said, r"(?m)^ok +link +rsiw0 on eth0 is active")
        self.assertRegex(said, r"(?m)^ok +gid +rc0: 10.7.0.1 is GID index 1 \(ibv_rc_pingpong -g 1\)$")
        self.assertRegex(said, r"(?m)^ok +rc_port +TCP port 4791 is free")
        self.assertRegex(said, r"(?m)^ok +nodes .*uverbs1 \(rc0\)")
        self.assertNotRegex(said, r"(?m)^(warn|FAIL|skip)|^ok +type|GID index [02]")
        # What both links have to say is said once.
        self.assertEqual(said.count("eth0 has 10.7.0.1"), 1)

    def test_chosen_by_name(self):
        said = self.says("ok +link +rc0 on eth0", "rc0")
        self.assertNotIn("rsiw0", said)
        self.assertNotRegex(self.says("ok +link +rsiw0", "rsiw0"), "rc0")

    def test_json(self):
        found = json.loads(self.examine("--json"))["findings"]
        self.assertIn({"level": "ok", "topic": "gid", "mend": [],
                       "text": "rc0: 10.7.0.1 is GID index 1 (ibv_rc_pingpong -g 1)"}, found)

    def test_port_mapper_does_not_concern_it(self):
        self.system.files[RC0 + "/settings/port_mapper"] = "1"
        self.says("ok +link +rc0", "rc0")

    def test_tls(self):
        self.system.files[RC0 + "/settings/tls"] = "3"
        self.finds(2, "FAIL tls +rc0 has tls=3, and tlshd does not run", "ktls-utils")

    def test_not_active(self):
        self.system.commands["rdma -j link show"][0]["state"] = "DOWN"
        # Its GIDs come when it is.
        self.gids(("fe80::1", "eth0"))
        self.finds(2, "FAIL link +rc0 is DOWN", "sudo rdma link delete rc0 && sudo rdma link add rc0 type rsiw_rc netdev eth0")

    def test_one_type_only(self):
        self.only_rc()
        said = self.says("ok +type +rc0: of type rsiw_rc, for programs that connect queue pairs themselves")
        self.assertIn("sudo rdma link add rsiw1 type rsiw netdev eth0\n", said)
        self.setUp()
        del self.system.commands["rdma -j link show"][0]
        said = self.says("ok +type +rsiw0: of type rsiw, for programs that use the RDMA CM")
        self.assertIn("sudo rdma link add rc1 type rsiw_rc netdev eth0\n", said)
        # On a VLAN there can be none of type rsiw_rc.
        self.system.commands["ip -j -d link show dev eth0"] = [{"link": "eth1", "linkinfo": {"info_kind": "vlan"}}]
        self.assertIn("sudo rdma link add rc1 type rsiw_rc netdev eth1\n", self.examine())

    def test_file(self):
        file = "/etc/rsiw/links.d/rc0.conf"
        self.system.files[file] = "netdev=eth0\ntype=rsiw_rc"
        self.says("ok +links.d .*rc0.conf: rc0 is there")
        self.system.files["/etc/rsiw/links.d/rsiw0.conf"] = "netdev=eth0"
        self.assertRegex(self.examine(), "rsiw0.conf: rsiw0 is there")
        self.system.files[file] = "netdev=eth1\ntype=rsiw_rc\nname=c"
        self.finds(2, "FAIL links.d .*: c is missing", "sudo rdma link add c type rsiw_rc netdev eth1")
        self.only_rc()
        self.system.files[file] = "netdev=eth0\nname=rc0"
        del self.system.files["/etc/rsiw/links.d/rsiw0.conf"]
        self.finds(1, "warn links.d .*rc0 is not of type rsiw", "link delete rc0 && sudo rdma link add rc0 type rsiw netdev")

    def test_service_is_that_of_the_type(self):
        self.system.files |= {"/run/systemd/system": "", link.SERVICE: "", "/etc/rsiw/links.d/a.conf": "netdev=eth0\nname=rsiw0",
                              "/etc/rsiw/links.d/b.conf": "netdev=eth0\ntype=rsiw_rc\nname=x"}
        self.assertEqual(link.unit_of(self.system, "y", "eth0", True), "b")
        self.assertEqual(link.unit_of(self.system, "y", "eth0", False), "a")


class Gids(RcCase):
    def test_an_address_without_a_gid(self):
        self.addresses("eth0", "10.7.0.1", "fd07::1")
        self.finds(1, "warn gid +rc0 has no GID for fd07::1: ", "sudo rdma link delete rc0 && sudo rdma link add rc0 type rsiw_rc")
        self.gids(("fe80::1", "eth0"), ("::ffff:10.7.0.1", "eth0"), ("fd07::1", "eth0"))
        self.says(r"ok +gid +rc0: fd07::1 is GID index 2 ")
        # Another network device has it.
        self.gids(("fe80::1", "eth0"), ("::ffff:10.7.0.1", "eth0"), ("fd07::1", "eth0.5"))
        self.finds(1, "warn gid +rc0 has no GID for fd07::1: ", "type rsiw_rc")

    def test_no_gid_but_the_link_local_one(self):
        self.gids(("fe80::1", "eth0"))
        self.finds(2, "FAIL gid +rc0 has no GID but that of the link-local address.* 10.7.0.1",
                   "sudo rdma link delete rc0 && sudo rdma link add rc0 type rsiw_rc netdev eth0")

    def test_ipv4_link_local_addresses_are_addresses(self):
        self.addresses("eth0", "169.254.7.1")
        self.gids(("fe80::1", "eth0"), ("::ffff:169.254.7.1", "eth0"))
        self.says(r"ok +gid +rc0: 169.254.7.1 is GID index 1 ")

    def test_no_address_is_said_once(self):
        self.addresses("eth0")
        self.gids(("fe80::1", "eth0"))
        self.finds(2, "FAIL address", "sudo ip addr add")

    def test_addresses_of_a_vlan_on_top(self):
        self.only_rc()
        self.addresses("eth0")
        self.addresses("eth0.5", "10.9.0.1")
        self.gids(("fe80::1", "eth0"), ("::ffff:10.9.0.1", "eth0.5"))
        said = self.says("ok +address +eth0 has no address, and those on top of it have: eth0.5$")
        self.assertRegex(said, r"(?m)^ok +gid +rc0: 10.9.0.1 of eth0.5 is GID index 1 ")
        self.system.commands["ip -j route get 10.9.0.2"] = [{"dev": "eth0.5", "prefsrc": "10.9.0.1", "cache": []}]
        with mock.patch.object(mpa, "connect", lambda *_, **__: (mpa.OPEN, mock.Mock())):
            self.says(r"ok +route +10.9.0.2 is reached by eth0.5 \(rc0\)", "--peer", "10.9.0.2")


class Port(RcCase):
    def test_a_program_has_the_port(self):
        for at in ("0.0.0.0", "*", "[::]", "10.7.0.1", "0.0.0.0%eth0"):
            self.system.commands[LISTENERS] = f'LISTEN 0 5 {at}:4791 0.0.0.0:* users:(("nc",pid=9,fd=3))'
            self.finds(2, "FAIL rc_port +nc listens on TCP port 4791.*Address already in use", "settings/rc_port")
        for at in ("127.0.0.1", "10.8.0.1", "0.0.0.0%eth1"):
            self.system.commands[LISTENERS] = f'LISTEN 0 5 {at}:4791 0.0.0.0:* users:(("nc",pid=9,fd=3))'
            self.says("ok +rc_port +TCP port 4791 is free")

    def test_a_server_of_the_rdma_cm_has_the_port(self):
        self.system.commands[LISTENERS] = "LISTEN 0 5 10.7.0.1:4791 0.0.0.0:*"
        self.says("ok +rc_port +the kernel listens on TCP port 4791")
        self.system.commands["rdma resource show cm_id"] = (
            "link rsiw0/1 cm-idn 0 state LISTEN ps TCP pid 9 comm rping src-addr 10.7.0.1:4791 dst-addr 0.0.0.0:0 \n")
        self.finds(2, "FAIL rc_port +rping listens on TCP port 4791", "settings/rc_port")
        self.system.commands["rdma resource show cm_id"] = (
            "link rsiw1/1 cm-idn 0 state LISTEN ps TCP pid 9 comm rping src-addr 10.8.0.1:4791 dst-addr 0.0.0.0:0 \n")
        self.says("ok +rc_port +the kernel listens on TCP port 4791")

    def test_only_root_knows_who_listens(self):
        self.system.commands[LISTENERS] = "LISTEN 0 5 10.7.0.1:4791 0.0.0.0:*"
        self.system.root = False
        self.says("skip +rc_port +only root can tell")
        self.system.commands[LISTENERS] = Result(127, "", "there is no command ss")
        self.says("skip +rc_port .*there is no command ss")

    def test_another_port(self):
        self.system.files[RC0 + "/settings/rc_port"] = "5000"
        self.system.commands["ss -Hltnp sport = :5000"] = 'LISTEN 0 5 *:5000 *:* users:(("nc",pid=9,fd=3))'
        self.finds(2, "FAIL rc_port +nc listens on TCP port 5000", f"sudo tee {RC0}/settings/rc_port")

    def test_a_rule_drops_what_peers_send(self):
        self.system.files["/sys/module/nf_tables"] = ""
        self.system.commands["nft -j list ruleset"] = DROPS
        self.finds(2, "FAIL firewall +a rule drops .* TCP port 4791 from peers",
                   "sudo nft insert rule inet t c ip saddr FROM tcp dport 4791 accept")

    def test_a_server_of_a_program(self):
        self.only_rc()
        self.system.commands["ss -Hltnp sport = :7"] = 'LISTEN 0 5 *:7 *:* users:(("ucx",pid=9,fd=3))'
        self.says("skip +port +who listens on port 7: with links of type rsiw_rc programs do so by TCP", "--port", "7")


class Peer(RcCase):
    def peer(self, how, got=""):
        return mock.patch.object(mpa, "connect", lambda address, port, **_: (
            (how, got) if (address, port) == ("10.7.0.2", 4791) else self.fail((address, port))))

    def test_port_of_the_peer(self):
        got = mock.Mock()
        with self.peer(mpa.OPEN, got):
            self.says("ok +rc_port +TCP port 4791 of 10.7.0.2 is open", "--peer", "10.7.0.2")
        got.close.assert_called_once()
        with self.peer(mpa.REFUSED):
            self.says("skip +rc_port +no queue pair of 10.7.0.2 waits at TCP port 4791, or there is no link of type",
                      "--peer", "10.7.0.2")
        with self.peer(mpa.SILENT):
            self.finds(2, "FAIL rc_port +10.7.0.2 does not answer at TCP port 4791.*firewall",
                       "sudo rsiw-doctor --peer 10.7.0.1   # on 10.7.0.2", "--peer", "10.7.0.2")
        with self.peer(mpa.UNREACHABLE, "No route to host"):
            self.finds(2, "FAIL rc_port +TCP port 4791 of 10.7.0.2: No route to host", "rsiw-doctor", "--peer", "10.7.0.2")

    def test_a_rule_of_either_way(self):
        self.system.files["/sys/module/nf_tables"] = ""
        self.system.commands["nft -j list ruleset"] = DROPS
        for hook, mend in (("input", "ip saddr 10.7.0.2"), ("output", "ip daddr 10.7.0.2")):
            DROPS["nftables"][0]["chain"]["hook"] = hook
            with self.peer(mpa.REFUSED):
                self.finds(2, "FAIL firewall +a rule drops .* TCP port 4791", mend, "--peer", "10.7.0.2")
        DROPS["nftables"][0]["chain"]["hook"] = "input"

    def test_a_port_is_that_of_a_program(self):
        # With a link for the RDMA CM it is that one's, and only the port is looked at.
        with mock.patch.object(mpa, "connect", lambda address, port, **_: (mpa.REFUSED, "") if port == 9 else self.fail(port)):
            self.finds(2, "FAIL port +nobody listens on port 9", "rping", "--peer", "10.7.0.2:9")
        self.only_rc()
        with self.peer(mpa.REFUSED):
            said = self.says("skip +port +rc0 is of type rsiw_rc: at port 9 programs speak TCP", "--peer", "10.7.0.2:9")
        self.assertRegex(said, "(?m)^skip +rc_port +no queue pair of 10.7.0.2")

    def test_no_link_of_the_type(self):
        del self.system.commands["rdma -j link show"][0]
        with self.peer(mpa.OPEN):
            self.assertNotIn("4791", self.says("ok +route", "--peer", "10.7.0.2"))

    def test_no_device_where_the_route_leaves(self):
        self.system.commands["ip -j route get 10.9.0.2"] = [{"dev": "eth1", "prefsrc": "10.9.0.1", "cache": []}]
        self.finds(2, "FAIL route", "sudo rdma link add rsiw_eth1 type rsiw_rc netdev eth1", "--peer", "10.9.0.2", "rc0")


if __name__ == "__main__":
    unittest.main()
