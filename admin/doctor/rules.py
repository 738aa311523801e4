# SPDX-License-Identifier: GPL-2.0
"""Firewall rules, whoever wrote them, and what they do to a packet.

A rule has conditions, each a function of a packet that says True, False or None (nobody knows), and a verdict.
"""

ACCEPT, DROP, RETURN = "accept", "drop", "return"


class Packet:
    """The first packet of a connection, as it passes a hook of this host."""

    def __init__(self, hook, dport, saddr=None, daddr=None, netdev=None, family="ip"):
        self.hook, self.dport, self.saddr, self.daddr = hook, dport, saddr, daddr
        self.netdev, self.family = netdev, family


class Rule:
    def __init__(self, text, conditions, verdict, target=None):
        self.text, self.conditions, self.verdict, self.target = text, conditions, verdict, target

    def matches(self, packet):
        answers = [condition(packet) for condition in self.conditions]
        if False in answers:
            return False
        return None if None in answers else True


class Chain:
    """`hook` is None for a chain that others jump to."""

    def __init__(self, key, hook=None, prio=0, policy=ACCEPT):
        self.key, self.hook, self.prio, self.policy = key, hook, prio, policy
        self.rules = []


class Verdict:
    """What becomes of a packet in a base chain: `chain` and `rule` (None: the policy) decide, `sure` or perhaps."""

    def __init__(self, dropped, chain, rule=None, sure=True):
        self.dropped, self.chain, self.rule, self.sure = dropped, chain, rule, sure


def walk(chains, chain, packet, sure=True, depth=0):
    """The verdict of a chain, or None where it comes to its end. What perhaps drops is kept, and the walk goes on."""
    perhaps, escaped = None, False
    for rule in chain.rules if depth < 16 else ():
        match = rule.matches(packet)
        if match is False or rule.verdict is None:
            continue
        certain = sure and match is True
        found = None
        if rule.verdict in ("jump", "goto"):
            target = chains.get(chain.key[:-1] + (rule.target,))
            found = walk(chains, target, packet, certain, depth + 1) if target else None
            if rule.verdict == "goto" and found is None and certain:
                return perhaps
        elif rule.verdict == RETURN:
            if certain or match is True:
                return perhaps
        else:
            found = Verdict(rule.verdict == DROP, chain, rule, certain)
        if found is None:
            continue
        if found.sure:
            # An accept ends the walk, but a rule before it may drop the packet first; and a rule before one that
            # drops it may accept it.
            found.sure = not (escaped and found.dropped)
            return perhaps if perhaps and not found.dropped else found
        if found.dropped:
            perhaps = perhaps or found
        else:
            escaped = True
    return perhaps


def judge(chains, packet):
    """The verdicts of all base chains that drop the packet, or perhaps do, in their order."""
    base = sorted((c for c in chains.values() if c.hook == packet.hook), key=lambda c: c.prio)
    dropping = []
    for chain in base:
        family = chain.key[0]
        if family not in ("inet", packet.family):
            continue
        found = walk(chains, chain, packet)
        if found is None or not found.sure:
            if chain.policy == DROP:
                found = Verdict(True, chain, sure=not any(
                    rule.matches(packet) is None and rule.verdict in (ACCEPT, "jump", "goto") for rule in chain.rules))
        if found and found.dropped:
            dropping.append(found)
    return dropping
