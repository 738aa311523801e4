# SPDX-License-Identifier: GPL-2.0
"""Lines of a kernel log that mean that something is broken."""

import re

SPLAT = re.compile("|".join((
    r"\bBUG:", r"\bWARNING:", r"\bOops\b", r"\bKASAN:", r"\bUBSAN:", r"\bKFENCE:",
    r"kernel BUG at", r"general protection fault", r"unable to handle",
    r"possible circular locking", r"possible recursive locking",
    r"inconsistent lock state", r"suspicious RCU usage", r"lock held when returning",
    r"lock held at task exit", r"bad unlock balance", r"possible irq lock inversion",
    r"INFO: task .* blocked", r"rcu.*(stall|detected)", r"soft lockup", r"hard LOCKUP",
    r"scheduling while atomic", r"sleeping function called", r"refcount_t:",
    r"list_(add|del) corruption", r"ODEBUG:", r"kmemleak: \d+ new", r"page allocation failure",
    r"DEBUG_LOCKS_WARN_ON", r"rust_kernel: panicked", r"Kernel panic", r"Call Trace:",
    r"slab.*(corrupt|Objects remaining)", r"bad page state",
    r"module verification failed.*required", r"attempt to access beyond end",
    r"restrack: .*BUG", r"restrack: .*resources in use",
    r"unregister_netdevice: waiting for",
    # Lost messages may have been reports. The agent and its channel write the second of these.
    r"\d+ printk messages dropped", r"kernel log: .*lost",
)), re.I)

# Lines about any out-of-tree module, and lines that only name a check or a setting of one.
HARMLESS = re.compile("|".join((
    r"ommand line:", r"RCU CPU stall warnings timeout",
    r"loading out-of-tree module taints kernel",
    r"module verification failed: signature and/or required key missing",
)))


# Reports of lockdep about the kernel's own code: (text of the first line, texts that soon follow...).
KNOWN = (
    # nvmet executes a command that arrived before ESTABLISHED in the CM's event handler, and there takes
    # nvmet_config_sem. Elsewhere it holds nvmet_config_sem while it destroys its listening id, whose
    # handler_mutex is of the same lock class.
    ("possible circular locking", "id_priv->handler_mutex", "nvmet_config_sem"),
)
REPORT = 90     # the most lines of a lockdep report


def known_at(lines, nth):
    soon = "\n".join(lines[nth:nth + 9])
    return any(first in lines[nth] and all(part in soon for part in rest)
               for first, *rest in KNOWN)


def without_known(lines):
    """The lines without known reports, and whether there was one (which has switched lockdep off)."""
    kept, skip = [], 0
    for nth, line in enumerate(lines):
        if not skip and known_at(lines, nth):
            skip = REPORT
        if skip:
            skip -= 1
            if "</TASK>" in line:
                skip = 0
            continue
        kept.append(line)
    return kept, len(kept) != len(lines)


def splats(lines):
    """The lines that make a job fail."""
    return [line for line in lines if SPLAT.search(line) and not HARMLESS.search(line)]
