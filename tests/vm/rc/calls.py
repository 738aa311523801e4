# SPDX-License-Identifier: GPL-2.0
"""A TCP peer that calls queue pairs by name by hand, rightly and wrongly. calls.py DEVICE GID-INDEX ADDRESS INDEX INDEX

The queue pairs (prog/rcwait.c) are on this host, at ADDRESS; the caller has an address of its own below that.
The other indices are those of fe80::99 on eth0 and on vlan7, where the caller has fe80::1. With "low" behind them
the device takes calls only from ports below 1024 (rc_low_ports).
Says "ok CASE", or what went wrong and "not ok CASE"; then exit status 3.
"""

import resource
import signal
import socket
import sys
import time

from peer import Failed, check, closed, play, reset
from peer.messages import RESPONSE, SEND, WRITE, tagged, untagged
from peer.mpa import enhanced
from peer.stream import fpdu

from caller import (ADDRESS, LOCAL, LOCAL_OURS, OTHER, OURS, PORT, QPN, SHORT, Waiting, accepted,
                    admitted, call, dial, dial_local, receives, rejected, taken)


def completes(waiting):
    said = waiting.line()
    check(said.startswith("sent 0"), f"rcwait says {said!r}")


def case_a_call_that_is_expected():
    with Waiting() as waiting:
        receives(waiting, accepted(dial(call(waiting.qpn))))


def refuse(private_data, **how):
    """Refused, and the right call is admitted afterwards."""
    with Waiting() as waiting:
        rejected(dial(private_data(waiting.qpn), **how))
        check(waiting.states() == ["3"], "the queue pair has left RTS")
        receives(waiting, accepted(dial(call(waiting.qpn), port=next(low_ports) if LOW else 0)))


def case_another_number_of_the_caller():
    refuse(lambda qpn: call(qpn, from_qpn=QPN + 1))


def case_another_address():
    refuse(lambda qpn: call(qpn, from_=OTHER), from_=OTHER)


def case_an_address_that_is_not_its_own():
    refuse(call, from_=OTHER)


def case_another_interface_with_the_same_addresses():
    there = {"to": LOCAL, "from_": LOCAL_OURS}
    with Waiting(1, LOCAL_OURS, INDICES["eth0"]) as here, Waiting(1, LOCAL_OURS, INDICES["vlan7"]) as vlan:
        rejected(dial_local(call(vlan.qpn, **there), "eth0"))
        rejected(dial_local(call(here.qpn, **there), "vlan7"))
        receives(vlan, accepted(dial_local(call(vlan.qpn, **there), "vlan7")))
        receives(here, accepted(dial_local(call(here.qpn, **there), "eth0")))


def case_another_called_address():
    refuse(lambda qpn: call(qpn, to=OTHER))


def case_the_wrong_direction():
    refuse(lambda qpn: call(qpn, to=OURS, from_=ADDRESS))


def case_no_call():
    for data in (b"", b"x", bytes(48), call(5)[:-1], call(5) + b"\0", call(5, magic=b"rsrc"),
                 call(5, version=1), call(5, rest=b"\0\1\0")):
        refuse(lambda qpn, data=data: data)


def case_without_an_rtr():
    refuse(call, depths=enhanced(4, 4))


def case_a_frame_that_is_none():
    with Waiting() as waiting:
        sock = socket.create_connection((ADDRESS, PORT), timeout=30, source_address=(OURS, 0))
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n\r\n")
        closed(sock)
        receives(waiting, accepted(dial(call(waiting.qpn))))


def case_only_one_connection():
    with Waiting() as waiting:
        stream = accepted(dial(call(waiting.qpn)))
        # Nobody expects it any more: it waits, in vain.
        sock = dial(call(waiting.qpn))
        receives(waiting, stream)
        rejected(sock)


def case_a_caller_that_is_gone_after_its_reply():
    """By a reset and by a FIN: the queue pair expects it again, and what it has to send is sent once."""
    with Waiting() as waiting:
        waiting.says("send")
        for leave in (reset, socket.socket.close):
            sock = dial(call(waiting.qpn))
            admitted(sock)
            leave(sock)
            check(waiting.states() == ["3"], "the queue pair has left RTS")
        stream = accepted(dial(call(waiting.qpn)))
        data = stream.next()
        check(data[:2] == b"\x41\x43" and data[-16:] == bytes(16) and len(data) == 34, f"no Send: {data.hex()}")
        completes(waiting)
        receives(waiting, stream)
        waiting.says("send")
        completes(waiting)
        check(stream.next()[10:14] == b"\0\0\0\2", "not the second Send")


def case_a_caller_that_is_gone_within_its_first_fpdu():
    """It had its Reply, so the connection was the only one."""
    with Waiting() as waiting:
        sock = dial(call(waiting.qpn))
        admitted(sock)
        sock.sendall(fpdu(tagged(WRITE, 0, 0))[:10])
        taken(sock)
        reset(sock)
        rejected(dial(call(waiting.qpn)))


# A Read that tells how often Sends are tried again (rust/iwarp/conn/rnr.rs).
TELLS = 0x72735243 << 32


def answer_read(stream, number, tells=None):
    """Answers a Read of no bytes, as a peer does that looks at no offset of it."""
    stag, offset, size, _, source = stream.read_request(number)
    check(size == 0, f"a Read of {size} bytes")
    check(tells is None or source == TELLS + tells, f"the Read's offset is {source:#x}")
    stream.send(tagged(RESPONSE, stag, offset))


def case_a_peer_that_knows_nothing_of_retries_is_told():
    """It has no receive, and says nothing: so the Send waits, whatever the number is."""
    with Waiting(rnr=(3, SHORT)) as waiting:
        stream = accepted(dial(call(waiting.qpn)))
        waiting.says("send")
        answer_read(stream, 1, tells=3)
        check(len(stream.next()) == 34, "no Send")
        time.sleep(2)
        check(waiting.states() == ["3"], "the queue pair has left RTS")
        answer_read(stream, 2)
        completes(waiting)


def case_a_peer_that_knows_nothing_of_retries_sends():
    """It has told no number, so its Send waits."""
    with Waiting(rnr=(3, SHORT)) as waiting:
        stream = accepted(dial(call(waiting.qpn)))
        receives(waiting, stream)
        stream.send(untagged(SEND, b"again", number=2))
        time.sleep(2)
        check(waiting.states() == ["3"], "the queue pair has left RTS")
        waiting.process.send_signal(signal.SIGUSR1)
        said = waiting.line()
        check(said == "received 0", f"rcwait says {said!r}")


def case_a_number_that_nobody_has():
    with Waiting():
        began = time.monotonic()
        rejected(dial(call(0xabcdef)))
        check(time.monotonic() - began > 3, "the call has not waited")


def case_a_call_before_its_queue_pair():
    with Waiting(2) as waiting:
        waiting.says("later")
        later = waiting.number()
        sock = dial(call(later))
        taken(sock)
        waiting.says("meet")
        check(waiting.line() == "meets", "no queue pair")
        receives(waiting, accepted(sock), 2)


def case_a_flood_of_calls():
    """More than there are slots, from one address. A call of another address still comes in."""
    with Waiting(1, peer=OTHER) as waiting:
        flood = [dial(call(0x100000 + n)) for n in range(1100)]
        receives(waiting, accepted(dial(call(waiting.qpn, from_=OTHER), from_=OTHER)))
        for sock in flood:
            sock.close()


def case_many_queue_pairs():
    with Waiting(64) as waiting:
        streams = [accepted(dial(call(waiting.qpn + n, from_qpn=QPN + n))) for n in range(64)]
        for n, stream in reversed(list(enumerate(streams))):
            receives(waiting, stream, n)


def case_the_port_closes():
    with Waiting():
        pass
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            socket.create_connection((ADDRESS, PORT), timeout=30).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.1)
    raise Failed("the port is open")


def low_case_a_call_from_a_port_of_any_process():
    refuse(call, port=0)


def low_case_a_call_from_the_last_port_without_privileges():
    refuse(call, port=1024)


INDICES = {"eth0": sys.argv[4], "vlan7": sys.argv[5]}
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
LOW = sys.argv[6:] == ["low"]
low_ports = iter((1023, 512))
prefix = "low_case_" if LOW else "case_"
results = [play(name[len(prefix):].replace("_", " "), case) for name, case in list(globals().items())
           if name.startswith(prefix)]
sys.exit(0 if all(results) else 3)
