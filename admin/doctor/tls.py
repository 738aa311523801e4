# SPDX-License-Identifier: GPL-2.0
"""TLS: whether a process makes the handshakes of a link that uses it, and whether there are keys."""

import re

from . import link as links

CONFIGURATION = "/etc/tlshd.conf"
KEYS = "/etc/rsiw/keys"


def check(system, report, link):
    policy = links.setting(system, link.name, "tls")
    if policy in (None, "0"):
        names = links.setting(system, link.name, "tls_names")
        if names and names.strip():
            report.fail("tls", f"{link.name} has tls_names, and tls=0: nobody can connect to it",
                        f"echo 1 | sudo tee {links.setting_file(link.name, 'tls')}")
        return
    if not system.processes("tlshd"):
        start = "sudo systemctl enable --now tlshd" if system.has("tlshd") else "sudo apt install ktls-utils"
        report.fail("tls", f"{link.name} has tls={policy}, and tlshd does not run: no handshake is made", start)
        return
    if links.setting(system, link.name, "tls_psk") == "1":
        check_keys(system, report, link)
    else:
        report.ok("tls", f"{link.name} has tls={policy}, and tlshd runs; it alone knows its certificates")


def check_keys(system, report, link):
    configuration = system.read(CONFIGURATION)
    named = configuration and re.search(r"(?m)^\s*keyrings\s*=(.*;)?\s*\.rsiw\s*(;|$)", configuration)
    if configuration is not None and not named:
        report.fail("tls", f"{link.name} has tls_psk=1, and {CONFIGURATION} does not name the keyring .rsiw",
                    f"sudo editor {CONFIGURATION}   # in [authenticate]: keyrings=.rsiw",
                    "sudo systemctl restart tlshd")
        return
    found = re.search(r"(?m)\skeyring\s+\.rsiw: (\d+|empty)", system.read("/proc/keys") or "")
    if not found:
        report.skip("tls", f"{link.name} has tls_psk=1; only root can look into the keyring .rsiw",
                    "sudo rsiw-key list")
    elif found.group(1) == "empty":
        report.fail("tls", f"{link.name} has tls_psk=1, and the keyring .rsiw has no key",
                    "sudo rsiw-key load" if system.exists(KEYS) else f"sudo editor {KEYS}   # as in rsiw-key(8)")
    else:
        report.ok("tls", f"{link.name} has tls_psk=1, tlshd runs, and there are keys: {found.group(1)}")
