#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Which firewall rule rsiw-doctor finds, for rules as nft and iptables-save print them."""

import unittest

from doctor_fake import Case
from doctor import firewall, rules
from doctor.rules import Packet

DPORT = {"payload": {"protocol": "tcp", "field": "dport"}}


def match(left, right, op="=="):
    return {"match": {"op": op, "left": left, "right": right}}


def ruleset(*expressions, policy="accept", sets=(), chains=None):
    """A ruleset of a base chain "input" with these rules, and other chains by name."""
    entries = [{"metainfo": {"version": "1.1.3"}}, {"table": {"family": "inet", "name": "t", "handle": 1}},
               {"chain": {"family": "inet", "table": "t", "name": "input", "handle": 1, "type": "filter",
                          "hook": "input", "prio": 0, "policy": policy}}]
    entries += [{"set": {"family": "inet", "table": "t", "name": name, "elem": elem}} for name, elem in sets]
    entries += [{"chain": {"family": "inet", "table": "t", "name": name}} for name in chains or {}]
    handle = 2
    for name, exprs in [("input", expressions), *(chains or {}).items()]:
        for expr in exprs:
            entries.append({"rule": {"family": "inet", "table": "t", "chain": name, "handle": handle, "expr": expr}})
            handle += 1
    return {"nftables": entries}


class Nft(unittest.TestCase):
    def verdicts(self, *expressions, packet=None, **others):
        packet = packet or Packet("input", 7174, saddr="10.7.0.2", netdev="eth0")
        chains = firewall.parse_nft(ruleset(*expressions, **others))
        return [(v.chain.key[2], v.rule.text if v.rule else "policy", v.sure) for v in rules.judge(chains, packet)]

    def test_drop(self):
        self.assertEqual(self.verdicts([match(DPORT, 7174), {"drop": None}]), [("input", "handle 2", True)])
        self.assertEqual(self.verdicts([match(DPORT, 7175), {"drop": None}]), [])
        self.assertEqual(self.verdicts([{"counter": {"packets": 0}}, {"reject": {"type": "tcp reset"}}]),
                         [("input", "handle 2", True)])

    def test_order(self):
        drop, accept = [match(DPORT, 7174), {"drop": None}], [match(DPORT, 7174), {"accept": None}]
        self.assertEqual(self.verdicts(accept, drop), [])
        self.assertEqual(self.verdicts(drop, accept), [("input", "handle 2", True)])

    def test_ports(self):
        for right, hit in (({"set": [7000, {"range": [7170, 7180]}]}, True), ({"range": [1, 7173]}, False),
                           ("@ports", True), ("@nothing", None)):
            found = self.verdicts([match(DPORT, right), {"drop": None}], sets=[("ports", [7174])])
            self.assertEqual(found, [] if hit is False else [("input", "handle 2", hit is True)], right)
        self.assertEqual(self.verdicts([match(DPORT, 7174, "!="), {"drop": None}]), [])
        self.assertEqual(self.verdicts([match(DPORT, 7000, "!="), {"drop": None}]), [("input", "handle 2", True)])
        self.assertEqual(self.verdicts([match(DPORT, 7000, ">"), {"drop": None}]), [("input", "handle 2", True)])
        self.assertEqual(self.verdicts([match(DPORT, 8000, ">"), {"drop": None}]), [])

    def test_addresses(self):
        saddr = {"payload": {"protocol": "ip", "field": "saddr"}}
        net = {"prefix": {"addr": "10.7.0.0", "len": 24}}
        self.assertEqual(self.verdicts([match(saddr, net), {"drop": None}]), [("input", "handle 2", True)])
        self.assertEqual(self.verdicts([match(saddr, net, "!="), {"drop": None}]), [])
        self.assertEqual(self.verdicts([match(saddr, {"range": ["10.7.0.1", "10.7.0.9"]}), {"drop": None}]),
                         [("input", "handle 2", True)])
        # Nobody knows the peer.
        self.assertEqual(self.verdicts([match(saddr, net), {"drop": None}], packet=Packet("input", 7174)),
                         [("input", "handle 2", False)])
        ip6 = {"payload": {"protocol": "ip6", "field": "saddr"}}
        self.assertEqual(self.verdicts([match(ip6, "fd07::2"), {"drop": None}]), [])

    def test_other_packets(self):
        for left, right in (({"payload": {"protocol": "udp", "field": "dport"}}, 7174),
                            ({"meta": {"key": "l4proto"}}, "udp"), ({"meta": {"key": "iifname"}}, "lo"),
                            ({"meta": {"key": "nfproto"}}, "ipv6"), ({"ct": {"key": "state"}}, "invalid")):
            self.assertEqual(self.verdicts([match(left, right), {"drop": None}]), [], left)
        self.assertEqual(self.verdicts([match({"meta": {"key": "iifname"}}, "eth*"), {"drop": None}]),
                         [("input", "handle 2", True)])

    def test_usual_policy(self):
        usual = ([match({"ct": {"key": "state"}}, ["established", "related"], "in"), {"accept": None}],
                 [match({"meta": {"key": "iifname"}}, "lo"), {"accept": None}],
                 [match(DPORT, 22), {"accept": None}])
        self.assertEqual(self.verdicts(*usual, policy="drop"), [("input", "policy", True)])
        self.assertEqual(self.verdicts(*usual, [match(DPORT, 7174), {"accept": None}], policy="drop"), [])

    def test_jumps(self):
        drop = {"sub": [[match(DPORT, 7174), {"drop": None}]]}
        self.assertEqual(self.verdicts([{"jump": {"target": "sub"}}], chains=drop), [("sub", "handle 3", True)])
        back = {"sub": [[{"return": None}], [{"drop": None}]]}
        self.assertEqual(self.verdicts([{"jump": {"target": "sub"}}], [{"accept": None}], chains=back), [])
        away = {"sub": []}
        self.assertEqual(self.verdicts([{"goto": {"target": "sub"}}], [{"drop": None}], chains=away), [])
        around = {"sub": [[{"jump": {"target": "sub"}}]]}
        self.assertEqual(self.verdicts([{"jump": {"target": "sub"}}], chains=around), [])

    def test_verdict_map(self):
        vmap = {"vmap": {"key": DPORT, "data": {"set": [[22, {"accept": None}], [7174, {"drop": None}]]}}}
        self.assertEqual(self.verdicts([vmap]), [("input", "handle 2", True)])
        vmap["vmap"]["data"]["set"].pop()
        self.assertEqual(self.verdicts([vmap]), [])
        state = {"vmap": {"key": {"ct": {"key": "state"}}, "data": "@states"}}
        self.assertEqual(self.verdicts([state], sets=[("states", [["new", {"jump": {"target": "sub"}}]])],
                                       chains={"sub": [[{"drop": None}]]}), [("sub", "handle 3", True)])

    def test_what_nobody_knows(self):
        mark = match({"meta": {"key": "mark"}}, 7)
        self.assertEqual(self.verdicts([mark, {"drop": None}]), [("input", "handle 2", False)])
        self.assertEqual(self.verdicts([mark, {"accept": None}], [{"drop": None}]), [("input", "handle 3", False)])
        self.assertEqual(self.verdicts([mark, {"accept": None}], policy="drop"), [("input", "policy", False)])
        self.assertEqual(self.verdicts([mark, {"drop": None}], [{"accept": None}]), [("input", "handle 2", False)])
        self.assertEqual(self.verdicts([{"limit": {"rate": 1}}, {"accept": None}], policy="drop"),
                         [("input", "policy", False)])


IPTABLES = """*filter
:INPUT DROP [0:0]
:OUTPUT ACCEPT [0:0]
:mine - [0:0]
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A INPUT -i lo -j ACCEPT
-A INPUT -p tcp -m multiport --dports 22,7000:7100 -j ACCEPT
-A INPUT -s 10.7.0.0/24 -p tcp -m tcp --dport 7174 -j mine
-A INPUT ! -s 10.0.0.0/8 -p tcp -m tcp --dport 7180 -j ACCEPT
-A OUTPUT -d 10.7.0.9/32 -j REJECT --reject-with icmp-port-unreachable
-A mine -j LOG
-A mine -j ACCEPT
COMMIT
"""


class Iptables(unittest.TestCase):
    def dropped(self, hook, port, **where):
        found = rules.judge(firewall.parse_iptables(IPTABLES, "ip"), Packet(hook, port, netdev="eth0", **where))
        return [(v.rule.text if v.rule else "policy", v.sure) for v in found]

    def test_rules(self):
        self.assertEqual(self.dropped("input", 7050, saddr="10.7.0.2"), [])
        self.assertEqual(self.dropped("input", 7174, saddr="10.7.0.2"), [])
        self.assertEqual(self.dropped("input", 7174, saddr="10.8.0.2"), [("policy", True)])
        self.assertEqual(self.dropped("input", 7180, saddr="10.8.0.2"), [("policy", True)])
        self.assertEqual(self.dropped("input", 7180, saddr="192.0.2.1"), [])
        self.assertEqual(self.dropped("output", 7174, daddr="10.7.0.2"), [])
        self.assertEqual(self.dropped("output", 7174, daddr="10.7.0.9"),
                         [("-A OUTPUT -d 10.7.0.9/32 -j REJECT --reject-with icmp-port-unreachable", True)])


class Check(Case):
    def check(self, *packets):
        firewall.check(self.system, self.report, list(packets))
        return self.report.text()

    def rules(self):
        self.system.files["/sys/module/nf_tables"] = ""
        self.system.commands["nft -j list ruleset"] = ruleset([match(DPORT, 7174), {"drop": None}])
        self.system.commands["nft -a list chain inet t input"] = (
            "table inet t { # handle 1\n\tchain input { # handle 1\n\t\ttcp dport 7174 drop # handle 2\n\t}\n}\n")

    def test_server(self):
        self.rules()
        said = self.check(*firewall.packets_for(7174, None, "eth0", True))
        # One rule for both families is one finding.
        self.assertEqual(said.count("FAIL"), 1)
        self.assertRegex(said, r"a rule drops \(inet t input: tcp dport 7174 drop\) connections to TCP port 7174")
        self.assertIn("sudo nft insert rule inet t input ip saddr FROM tcp dport 7174 accept   # FROM: the peers", said)

    def test_server_for_a_peer(self):
        self.rules()
        self.assertIn("sudo nft insert rule inet t input ip saddr 10.7.0.2 tcp dport 7174 accept\n",
                      self.check(*firewall.packets_for(7174, "10.7.0.2", "eth0", True)))

    def test_server_for_a_peer_by_name(self):
        self.rules()
        self.system.commands["getent ahosts there"] = "10.7.0.2  STREAM there\n"
        self.assertIn("sudo nft insert rule inet t input ip saddr 10.7.0.2 tcp dport 7174 accept\n",
                      self.examine("--port", "7174", "--peer", "there"))

    def test_client(self):
        self.rules()
        self.assertIn("no rule of this host drops port 7174",
                      self.check(*firewall.packets_for(7174, "10.7.0.2", "eth0", False)))

    def test_firewalld(self):
        self.rules()
        self.system.commands["firewall-cmd --state"] = "running"
        rule = """'rule family="ipv4" source address="%s" port port="7174" protocol="tcp" accept'"""
        command = f"sudo firewall-cmd --add-rich-rule={rule} && sudo firewall-cmd --permanent --add-rich-rule={rule}"
        self.assertIn(command % ("10.7.0.2", "10.7.0.2") + "\n", self.check(Packet("input", 7174, saddr="10.7.0.2")))
        self.report.findings.clear()
        self.assertIn(command % ("FROM", "FROM") + "   # FROM: ", self.check(Packet("input", 7174)))
        self.report.findings.clear()
        self.assertIn('family="ipv6" source address="fe80::2" port',
                      self.check(Packet("input", 7174, saddr="fe80::2%eth0", family="ip6")))

    def test_ufw(self):
        self.rules()
        for entry in self.system.commands["nft -j list ruleset"]["nftables"]:
            if "rule" in entry:
                entry["rule"]["chain"] = "ufw-user-input"
            elif "chain" in entry:
                entry["chain"]["name"] = "ufw-user-input"
        self.assertIn("sudo ufw allow from 10.7.0.2 to any port 7174 proto tcp\n",
                      self.check(Packet("input", 7174, saddr="10.7.0.2")))
        self.report.findings.clear()
        self.assertIn("allow from FROM to any port 7174 proto tcp   # FROM: ", self.check(Packet("input", 7174)))

    def test_ordinary_user(self):
        self.system.root = False
        self.assertRegex(self.check(Packet("input", 7174)), "^skip firewall +only root can read the rules")
        self.assertEqual(self.report.status, 0)

    def test_no_rules(self):
        self.assertIn("this host has no rules", self.check(Packet("input", 7174)))

    def test_iptables_by_nftables(self):
        self.rules()
        listed = ruleset([{"xt": {"type": "match", "name": "conntrack"}}, {"accept": None}], policy="drop")
        for entry in listed["nftables"]:
            for what in entry.values():
                what.update({"family": "ip", "table": "filter"} if "family" in what else {})
        self.system.commands["nft -j list ruleset"] = listed
        packet = Packet("input", 7050, saddr="10.7.0.2", netdev="eth0")
        # nft does not know what the rule's condition is; iptables does, and accepts the port elsewhere.
        self.assertRegex(self.check(packet), "^warn firewall +a rule may drop .ip filter input: policy drop")
        self.report.findings.clear()
        self.system.programs.add("iptables-nft-save")
        self.system.commands["iptables-nft-save"] = IPTABLES
        self.assertRegex(self.check(packet), "^ok +firewall")
        self.report.findings.clear()
        self.assertIn("sudo iptables-nft -t filter -I INPUT -s 10.7.0.2 -p tcp --dport 99 -j ACCEPT\n",
                      self.check(Packet("input", 99, saddr="10.7.0.2", netdev="eth0")))

    def test_legacy_iptables(self):
        self.system.files["/sys/module/iptable_filter"] = ""
        self.system.programs.add("iptables-legacy-save")
        self.system.commands["iptables-legacy-save"] = IPTABLES
        said = self.check(Packet("input", 7174, saddr="10.8.0.2", netdev="eth0"))
        self.assertIn("(ip filter INPUT: policy drop)", said)
        self.assertIn("sudo iptables-legacy -t filter -I INPUT -s 10.8.0.2 -p tcp --dport 7174 -j ACCEPT\n", said)
        self.report.findings.clear()
        self.assertIn("-I INPUT -s FROM -p tcp --dport 7174 -j ACCEPT   # FROM: ", self.check(Packet("input", 7174, netdev="eth0")))
        self.report.findings.clear()
        self.assertIn("-I OUTPUT -d 10.7.0.9 -p tcp --dport 7174 -j ACCEPT\n",
                      self.check(Packet("output", 7174, daddr="10.7.0.9", netdev="eth0")))


if __name__ == "__main__":
    unittest.main()
