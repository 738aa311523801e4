# SPDX-License-Identifier: GPL-2.0
"""MPA connection setup spoken by hand over plain TCP (RFC 5044 s7, RFC 6581).

    wire.py responder CASE,... ADDRESS PORT     against a listening RDMA consumer
    wire.py initiator CASE,... ADDRESS PORT COMMAND...
                                                COMMAND is a consumer that connects; its word
                                                PORT is the port, for each case the next one

Says "ok CASE", or what went wrong and "not ok CASE"; then exit status 3.
"""

import sys

from peer import play

from initiator import Initiator
from responder import Responder


def run(tester, case):
    try:
        getattr(tester, "case_" + case)()
    finally:
        if getattr(tester, "consumer", None) is not None and tester.consumer.poll() is None:
            tester.consumer.kill()


def main():
    role, cases, address, port = sys.argv[1:5]
    family = "IPv6" if ":" in address else "IPv4"
    well = True
    for number, case in enumerate(cases.split(",")):
        if role == "responder":
            tester = Responder(address, int(port))
        else:
            at = int(port) + number
            command = [str(at) if word == "PORT" else word for word in sys.argv[5:]]
            tester = Initiator(address, at, command)
        well &= play(f"{family}: {case}", run, tester, case)
    return 0 if well else 3


sys.exit(main())
