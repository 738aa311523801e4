# SPDX-License-Identifier: GPL-2.0
"""Terminates are counted by their error: each one in its optional counter, and in no other.

    counted.py DEVICE ADDRESS PORT LARGE    against rping's server there, and one with a large buffer at
                                            port LARGE
    counted.py --list                       prints the names of the tests

Prints "ok NAME" or "not ok NAME" for each error.
"""

import json
import os
import subprocess
import sys
import time

from peer import FAILURES, SLOW, check
from peer.messages import TERMINATE, untagged
from peer.rping import Peer

import terminates

# A case of terminates.py with the Terminate that it makes the device send.
SENT = {"stag": "write_unknown_stag", "bounds": "response_other_offset", "stream": "write_to_another",
        "wrap": "write_wraps", "invalidate": "invalidate_of_another", "version": "rdmap_version",
        "opcode": "reserved_opcode", "qn": "queue", "no_buffer": "reads_beyond_ird", "msn": "number_zero", "mo": "offset_skips",
        "too_long": "too_long", "crc": "bad_crc", "framing": "length_too_short",
        "other": "read_short_header"}
# Terminates that the device gets: layer and Error Type, Error Code (RFC 5040 s4.8, RFC 5041 s7.2, RFC 5044 s8,
# RFC 6581 s8).
RECEIVED = {"stag": ((0x01, 0), (0x11, 0)), "bounds": ((0x01, 1), (0x11, 1)), "access": ((0x01, 2),),
            "stream": ((0x01, 3), (0x11, 2)), "wrap": ((0x01, 4), (0x11, 3)),
            "invalidate": ((0x01, 9), (0x02, 9)), "version": ((0x02, 5), (0x11, 4), (0x12, 6)),
            "opcode": ((0x02, 6),), "qn": ((0x12, 1),), "no_buffer": ((0x12, 2),), "msn": ((0x12, 3),),
            "mo": ((0x12, 4),), "too_long": ((0x12, 5),), "crc": ((0x20, 2),), "framing": ((0x20, 3),),
            "terms": ((0x20, 6), (0x20, 7)),
            "other": ((0x00, 0), (0x01, 0xFF), (0x02, 7), (0x02, 8), (0x02, 0xFF), (0x10, 0), (0x20, 1),
                      (0x20, 4), (0x20, 5), (0x35, 0), (0xFF, 0xFF))}
NAMES = [f"{way}_terminates_{error}" for way in ("tx", "rx") for error in RECEIVED]


def rdma(*words):
    return subprocess.run(["rdma", "-j", "statistic", *words], capture_output=True, text=True,
                          check=True).stdout


class Counters:
    def __init__(self, device):
        self.link = f"{device}/1"

    def show_all(self):
        """The optional counters are those that this program knows; until they are asked for, they are
        not shown, and in sysfs they never are."""
        check(not self.now(), f"shown: {self.now()}")
        rdma("set", "link", self.link, "optional-counters", ",".join(NAMES))
        check(sorted(self.now()) == sorted(NAMES), f"shown: {sorted(self.now())}")
        files = os.listdir(f"/sys/class/infiniband/{self.link.replace('/', '/ports/')}/hw_counters")
        check("tx_terminates" in files and not set(NAMES) & set(files), f"in sysfs: {files}")
        said = subprocess.run(["rdma", "statistic", "mode", "supported", "link", self.link],
                              capture_output=True, text=True, check=True).stdout
        check(sorted(NAMES) == sorted(said.split("optional-counters")[1].replace(",", " ").split()), said)

    def hide_all(self):
        rdma("unset", "link", self.link, "optional-counters")
        check(not self.now(), f"shown: {self.now()}")

    def now(self):
        """The Terminates by error."""
        shown = json.loads(rdma("show", "link", self.link))[0]
        sums = [f"{way}_terminates{layer}" for way in ("tx", "rx") for layer in ("", "_rdmap", "_ddp", "_mpa")]
        return {name: n for name, n in shown.items() if "_terminates" in name and name not in sums}

    def grew_alone(self, name, by, before):
        """That counter has grown, and no other. The device may count a moment later."""
        for _ in range(50):
            now = self.now()
            if now[name] >= before[name] + by:
                break
            time.sleep(0.1 * SLOW)
        grew = {n: now[n] - before[n] for n in NAMES if now[n] != before[n]}
        check(grew == {name: by}, f"grew: {grew}, not {name} by {by}")


def sent(counters, where, error):
    before = counters.now()
    address, *ports = where
    terminates.CASES[SENT[error]](Peer(address, ports[error == "no_buffer"]))
    counters.grew_alone(f"tx_terminates_{error}", 1, before)


def received(counters, where, error):
    before = counters.now()
    for code in RECEIVED[error]:
        peer = Peer(*where[:2])
        peer.send(untagged(TERMINATE, bytes((*code, 0, 0)), queue=2))
        check(peer.next() == b"", "an answer to a Terminate")
    counters.grew_alone(f"rx_terminates_{error}", len(RECEIVED[error]), before)


def main():
    device, address, *ports = sys.argv[1:] + [""]
    counters, where = Counters(device), (address, *map(int, filter(None, ports)))
    cases = [("are shown when asked for", counters.show_all)]
    for way, errors, play in (("sent", SENT, sent), ("received", RECEIVED, received)):
        cases += [(f"{way}: {error}", lambda play=play, error=error: play(counters, where, error))
                  for error in errors]
    cases.append(("are hidden again", counters.hide_all))
    if device == "--list":
        print("\n".join(name for name, _ in cases))
        return 0
    failed = False
    for name, case in cases:
        try:
            case()
            print("ok Terminates by error", name, flush=True)
        # What the tool prints may be no JSON.
        except (*FAILURES, ValueError, subprocess.SubprocessError) as e:
            print(f"# {e!r}"[:300])
            print("not ok Terminates by error", name, flush=True)
            failed = True
    return 3 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
