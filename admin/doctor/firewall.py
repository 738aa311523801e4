# SPDX-License-Identifier: GPL-2.0
"""The firewall of this host: which rule of nftables or iptables drops connections to a port."""

import ipaddress
import shlex

from . import rules
from .report import command
from .rules import ACCEPT, DROP, RETURN, Chain, Packet, Rule

VERDICTS = {"accept": ACCEPT, "drop": DROP, "reject": DROP, "return": RETURN, "jump": "jump", "goto": "goto"}


def unknown(_packet):
    return None


def compare(value, right, op, sets):
    """Whether a value (a number or a text) is what an expression of nftables says: True, False, None."""
    if value is None:
        return None
    answer = within(value, right, sets)
    if answer is None:
        return None
    if op in ("==", "in"):
        return answer
    if op == "!=":
        return not answer
    return {"<": value < right, ">": value > right, "<=": value <= right, ">=": value >= right}.get(op) \
        if isinstance(right, type(value)) else None


def within(value, right, sets):
    if isinstance(right, dict):
        if "range" in right:
            return between(value, *right["range"])
        if "prefix" in right:
            return inside(value, f"{right['prefix']['addr']}/{right['prefix']['len']}")
        if "set" in right:
            return within(value, right["set"], sets)
        if "elem" in right:
            return within(value, right["elem"].get("val"), sets)
        return None
    if isinstance(right, list):
        answers = [within(value, one, sets) for one in right]
        return True if True in answers else None if None in answers else False
    if isinstance(right, str) and right.startswith("@"):
        return within(value, sets[right[1:]], sets) if right[1:] in sets else None
    if isinstance(right, str) and right == "*":
        return True
    if isinstance(value, str) and isinstance(right, str) and right.endswith("*"):
        return value.startswith(right[:-1])
    return value == right


def between(value, low, high):
    if isinstance(value, int) and isinstance(low, int) and isinstance(high, int):
        return low <= value <= high
    try:
        return ipaddress.ip_address(low) <= ipaddress.ip_address(value) <= ipaddress.ip_address(high)
    except (ValueError, TypeError):
        return None


def inside(value, prefix):
    try:
        return ipaddress.ip_address(value) in ipaddress.ip_network(prefix, strict=False)
    except ValueError:
        return None


def value_of(left, packet):
    """What the packet has in the place that the left side of a match names, or None."""
    payload, meta, ct = (left.get(key, {}) if isinstance(left, dict) else {} for key in ("payload", "meta", "ct"))
    protocol, field = payload.get("protocol"), payload.get("field")
    if protocol in ("tcp", "th") and field == "dport":
        return packet.dport
    if protocol == "udp" or protocol in ("ip", "ip6") and protocol != packet.family:
        return "another protocol"
    if protocol in ("ip", "ip6") and field in ("saddr", "daddr"):
        return getattr(packet, field)
    if (protocol, field) in (("ip", "protocol"), ("ip6", "nexthdr")):
        return "tcp"
    key = meta.get("key")
    if key == "l4proto":
        return "tcp"
    if key in ("nfproto", "protocol"):
        return ("ipv4" if packet.family == "ip" else "ipv6") if key == "nfproto" else packet.family
    if key in ("iifname", "iif", "oifname", "oif"):
        return packet.netdev if key.startswith("i") == (packet.hook == "input") else ""
    if ct.get("key") == "state":
        return "new"
    return None


def condition(match, sets):
    left, op, right = match.get("left"), match.get("op"), match.get("right")
    return lambda packet: compare(value_of(left, packet), right, op, sets)


def nft_rules(entry, sets, text):
    """A rule of `nft -j`; one with a verdict map becomes one for each element."""
    conditions = []
    for expr in entry.get("expr", []):
        kind, what = next(iter(expr.items()))
        if kind == "match":
            conditions.append(condition(what, sets))
        elif kind in VERDICTS:
            target = what.get("target") if isinstance(what, dict) else None
            yield Rule(text, conditions, VERDICTS[kind], target)
            return
        elif kind == "vmap":
            yield from map_rules(what, conditions, sets, text)
            return
        elif kind in ("limit", "xt", "queue", "quota", "fib", "connlimit", "synproxy"):
            conditions.append(unknown)


def map_rules(vmap, conditions, sets, text):
    data = vmap.get("data")
    if isinstance(data, str):
        data = {"set": sets.get(data[1:], [])}
    for pair in data.get("set", []) if isinstance(data, dict) else []:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], dict):
            continue
        kind, what = next(iter(pair[1].items()))
        key = condition({"left": vmap.get("key"), "op": "==", "right": pair[0]}, sets)
        yield Rule(text, conditions + [key], VERDICTS.get(kind), what.get("target") if what else None)


def parse_nft(ruleset):
    """The chains of `nft -j list ruleset`, by (family, table, name)."""
    chains, sets = {}, {}
    entries = [next(iter(e.items())) for e in ruleset.get("nftables", []) if e]
    for kind, entry in entries:
        if kind == "chain":
            key = (entry["family"], entry["table"], entry["name"])
            chains[key] = Chain(key, entry.get("hook"), entry.get("prio", 0), entry.get("policy", ACCEPT))
        elif kind in ("set", "map"):
            sets.setdefault((entry["family"], entry["table"]), {})[entry["name"]] = entry.get("elem", [])
    for kind, entry in entries:
        if kind == "rule":
            key = (entry["family"], entry["table"], entry["chain"])
            text = f"handle {entry['handle']}"
            chains[key].rules.extend(nft_rules(entry, sets.get(key[:2], {}), text))
    return chains


def parse_iptables(text, family):
    """The chains of iptables-save."""
    chains, table = {}, "filter"
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
        elif line.startswith(":"):
            name, policy = line[1:].split()[:2]
            hook = name.lower() if name in ("INPUT", "OUTPUT") and table in ("filter", "mangle") else None
            chains[(family, table, name)] = Chain((family, table, name), hook, 0 if table == "filter" else -150,
                                                  DROP if policy == "DROP" else ACCEPT)
        elif line.startswith("-A "):
            words = shlex.split(line)
            chain = chains.get((family, table, words[1]))
            if chain:
                chain.rules.append(iptables_rule(line, words[2:], family))
    return chains


def iptables_rule(text, words, family):
    conditions, verdict, target, negate = [], None, None, False
    words = list(words)
    while words:
        word = words.pop(0)
        if word == "!":
            negate = True
            continue
        value = words.pop(0) if words and not words[0].startswith("-") and words[0] != "!" else ""
        if word in ("-j", "-g"):
            verdict, target = VERDICTS.get(value.lower()), None
            if value.isupper() is False or verdict is None:
                verdict, target = ("goto" if word == "-g" else "jump"), value
        elif word == "-m":
            continue
        else:
            conditions.append(iptables_condition(word, value, family, negate))
        negate = False
    return Rule(text, conditions, verdict, target)


def iptables_condition(word, value, family, negate):
    left = {"-p": {"meta": {"key": "l4proto"}}, "--dport": {"payload": {"protocol": "tcp", "field": "dport"}},
            "-s": {"payload": {"protocol": family, "field": "saddr"}},
            "-d": {"payload": {"protocol": family, "field": "daddr"}}, "-i": {"meta": {"key": "iifname"}},
            "-o": {"meta": {"key": "oifname"}}, "--ctstate": {"ct": {"key": "state"}},
            "--state": {"ct": {"key": "state"}}}
    left["--dports"] = left["--dport"]
    if word == "--reject-with":
        return lambda packet: True
    if word not in left:
        return unknown
    if word in ("--dport", "--dports"):
        right = [{"range": [int(n or 65535 * i) for i, n in enumerate(part.split(":"))]} if ":" in part
                 else int(part) for part in value.split(",") if part.replace(":", "").isdigit()]
    elif word in ("-s", "-d"):
        addr, _, length = value.partition("/")
        right = {"prefix": {"addr": addr, "len": length or (32 if family == "ip" else 128)}}
    elif word in ("-i", "-o"):
        right = value[:-1] + "*" if value.endswith("+") else value
    else:
        right = value.lower().split(",")
    return condition({"left": left[word], "op": "!=" if negate else "==", "right": right}, {})


def text_of(system, verdict):
    """The rule as its command writes it."""
    rule = verdict.rule
    if not rule or not rule.text.startswith("handle "):
        return rule.text if rule else f"policy {verdict.chain.policy}"
    for line in system.run("nft", "-a", "list", "chain", *verdict.chain.key).out.splitlines():
        if line.endswith("# " + rule.text):
            return line.partition(" # handle")[0].strip()
    return rule.text


def mend_of(system, verdict, packet, iptables):
    """A command that lets the packet pass, from or to the peer only. FROM is for the reader to replace."""
    port, key, comes = packet.dport, verdict.chain.key, packet.hook == "input"
    peer = ((packet.saddr if comes else packet.daddr) or "FROM").partition("%")[0]
    note = "   # FROM: the peers that you trust" if peer == "FROM" else ""
    if comes and system.run("firewall-cmd", "--state").status == 0:
        rule = (f'rule family="{"ipv4" if packet.family == "ip" else "ipv6"}" source address="{peer}" '
                f'port port="{port}" protocol="tcp" accept')
        return command("sudo firewall-cmd --add-rich-rule={} && sudo firewall-cmd --permanent --add-rich-rule={}",
                       rule, rule) + note
    if comes and key[2].startswith("ufw"):
        return command("sudo ufw allow from {} to any port {} proto tcp", peer, port) + note
    if iptables:
        program = iptables if packet.family == "ip" else iptables.replace("iptables", "ip6tables")
        return command("sudo {} -t {} -I {} {} {} -p tcp --dport {} -j ACCEPT", program, *key[1:],
                       "-s" if comes else "-d", peer, port) + note
    return command("sudo nft insert rule {} {} {} {} {} {} tcp dport {} accept", *key, packet.family,
                   "saddr" if comes else "daddr", peer, port) + note


def translated(ruleset):
    """The families whose rules have conditions that nft does not know, as iptables writes them."""
    rules_ = [entry["rule"] for entry in ruleset.get("nftables", []) if "rule" in entry]
    return {rule["family"] for rule in rules_ if any("xt" in expr for expr in rule.get("expr", []))}


def read(system, report):
    """All rules of this host: (chains, the command of iptables that changes them, or None for nft)."""
    judged = []
    # To list the rules would load the module.
    if system.has("nft") and system.exists("/sys/module/nf_tables"):
        found = system.run("nft", "-j", "list", "ruleset")
        if found.status != 0:
            report.skip("firewall", f"nft: {found.err}", "sudo nft list ruleset")
            return None
        ruleset = found.json() or {}
        chains = parse_nft(ruleset)
        for family in translated(ruleset):
            command = "iptables-nft" if family == "ip" else "ip6tables-nft"
            if system.has(f"{command}-save"):
                saved = parse_iptables(system.run(f"{command}-save").out, family)
                tables = {key[:2] for key in saved}
                chains = {key: chain for key, chain in chains.items() if key[:2] not in tables}
                judged.append((saved, "iptables-nft"))
        judged.append((chains, None))
    for family, command, module in (("ip", "iptables-legacy", "iptable_filter"),
                                    ("ip6", "ip6tables-legacy", "ip6table_filter")):
        if system.exists(f"/sys/module/{module}") and system.has(f"{command}-save"):
            judged.append((parse_iptables(system.run(f"{command}-save").out, family), "iptables-legacy"))
    return judged


def check(system, report, packets):
    """Whether this host's rules let the packets pass."""
    if not packets:
        return
    if not system.is_root():
        report.skip("firewall", "only root can read the rules", "sudo rsiw-doctor   # with the same options")
        return
    judged = read(system, report)
    if judged is None:
        return
    told = set()
    for packet in packets:
        for chains, iptables in judged:
            for verdict in rules.judge(chains, packet):
                # A rule of both families drops two packets, and is one finding.
                which = (verdict.chain.key, verdict.rule)
                if which not in told:
                    report_drop(system, report, verdict, packet, iptables)
                told.add(which)
    if not told:
        ports = ", ".join(sorted({str(p.dport) for p in packets}))
        report.ok("firewall", f"no rule of this host drops port {ports}" if judged else "this host has no rules")


def report_drop(system, report, verdict, packet, iptables):
    way = "from peers" if packet.hook == "input" else f"to {packet.daddr}"
    what = f"({' '.join(verdict.chain.key)}: {text_of(system, verdict)}) connections to TCP port {packet.dport} {way}"
    mend = mend_of(system, verdict, packet, iptables)
    if verdict.sure:
        report.fail("firewall", f"a rule drops {what}", mend)
    else:
        report.warn("firewall", f"a rule may drop {what}", mend)


def packets_for(port, peer, netdev, server):
    """What to ask the rules: a server's packets come in, a client's go out."""
    family = "ip6" if peer and ":" in peer else "ip"
    if server:
        families = [family] if peer else ["ip", "ip6"]
        return [Packet("input", port, saddr=peer, netdev=netdev, family=f) for f in families]
    return [Packet("output", port, daddr=peer, netdev=netdev, family=family)]
