# SPDX-License-Identifier: GPL-2.0
"""Peers that attack TLS itself: its records, its alerts, its ends and its handshake, against the program victim.

    records.py ADDRESS PORT     RSIW_TLS: see peer.tls; SEED: other alerts at each stage
    records.py --list           a line for each test

Prints "ok NAME" or "not ok NAME" for each case. The victim's memory has to stay as it is, no message may be
delivered, and the device has to go on.
"""

import os
import random
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from peer import SLOW, Failed, check, reset
from peer.messages import WRITE, tagged
from peer.stream import fpdu
from peer.tls import (ALERT, CHANGE, CLOSE_NOTIFY, DATA, FATAL, HANDSHAKE, MOST, TAG, WARNING,
                      Sealer)
from peer.victim import Attacker, Victim

from handshakes import HANDSHAKES, SLOW_CASES
from stages import A_REQUEST, STAGES, a_write, between_fpdus, name_of

SEED = int(os.environ.get("SEED") or 1)
WORKERS = int(os.environ.get("WORKERS") or 3)
USER_CANCELED = 90
ERRORS = (10, 20, 21, 22, 30, *range(40, 52), 60, 70, 71, 80, 86, 100, 109, *range(110, 117), 120, 255)


# --- records that are right -----------------------------------------------------------------------------

def lives(act):
    """The connection goes on behind these bytes, and ends as it should."""
    def play(victim):
        for v in (victim, victim.caller()):
            a = Attacker(v)
            act(a)
            a.lives()
            a.fin()
            check(a.next() == b"", "something behind the last answer")
            a.over(None)
    return play


def writes(a, count):
    return b"".join(fpdu(tagged(WRITE, a.told.both.stag, a.told.both.at + i % 1000, b"stray..."))
                    for i in range(count))


def cut_anywhere(a):
    """A Write cut in two records, at each place; and cut in two TCP segments as well."""
    data = writes(a, 1)
    for at in range(1, len(data)):
        a.deliver(data, (at,))
        record = a.sock.record(data)
        a.sock.sock.sendall(record[:at])
        a.sock.sock.sendall(record[at:])


def byte_by_byte(a):
    data = writes(a, 2)
    a.deliver(data, range(1, len(data)))
    for byte in a.sock.record(data):
        a.sock.sock.sendall(bytes((byte,)))


def full(a):
    """Four records of 16 KiB, which have hundreds of FPDUs and parts of others."""
    a.sock.sendall(writes(a, 4 * MOST // 28))


def large(a):
    """An FPDU that is as long as the region, then a stream of such, cut anywhere."""
    one = fpdu(tagged(WRITE, a.told.both.stag, a.told.both.at, bytes(a.told.both.size)))
    a.sock.sendall(one * 8)


def padded(a):
    data = writes(a, 1)
    for padding in (1, 100, MOST - len(data)):
        a.sock.sock.sendall(a.sock.record(data, padding=padding))


def empty(a):
    """Records without data, with padding and without, between FPDUs and within."""
    data = writes(a, 1)
    for at in (0, 1, 9, len(data) - 1, len(data)):
        a.sock.sendall(data[:at])
        a.sock.sock.sendall(b"".join(a.sock.record(padding=n % 3) for n in range(200)))
        a.sock.sendall(data[at:])


def some_control(a):
    """Alerts that mean nothing, and a handshake message of 16 KiB, between FPDUs and within."""
    data = writes(a, 1)
    a.sock.sock.sendall(a.sock.alert(WARNING, USER_CANCELED))
    a.sock.sendall(data[:9])
    for _ in range(100):
        a.sock.sock.sendall(a.sock.alert(WARNING, USER_CANCELED))
    a.sock.sendall(data[9:])
    a.sock.sock.sendall(a.sock.record(ticket(MOST), HANDSHAKE))


def ticket(size):
    return struct.pack("!I", 4 << 24 | size - 4) + bytes(size - 4)


def at_random(a):
    """Writes in records and TCP segments of any size, with padding, and empty ones between."""
    rng = random.Random(f"{SEED}")
    data, out = writes(a, 1000), b""
    while data:
        size = rng.choice((1, 2, 3, rng.randrange(100), rng.randrange(2000)))
        out += a.sock.record(data[:size], padding=rng.choice((0, 0, 1, 50)))
        data = data[size:]
    while out:
        size = rng.choice((1, 4, 5, 6, rng.randrange(1, 3000)))
        a.sock.sock.sendall(out[:size])
        out = out[size:]


RIGHT = {
    "Writes cut in records and segments at each byte are placed": cut_anywhere,
    "records and segments of one byte are taken": byte_by_byte,
    "records of 16 KiB with hundreds of FPDUs are taken": full,
    "FPDUs of several KiB are taken, cut anywhere": large,
    "padded records are taken": padded,
    "records without data are skipped": empty,
    "some records of control are ignored": some_control,
    "records and segments of random sizes are taken": at_random,
}


# --- records that are wrong -----------------------------------------------------------------------------

def broken(wrong, i):
    """The stream is reset at these bytes, and nothing of them is placed. The victim is TLS' server, or the
    client, by the seed."""
    def play(victim):
        s = between_fpdus(victim.caller() if (i + SEED) % 2 else victim)
        s.raw(wrong(s))
        s.ends("reset")
    return play


def flipped(at, bit):
    """Enough follows for a record that is longer than it was."""
    def wrong(s):
        record = bytearray(s.sock.record(a_write(s)))
        record[at] ^= 1 << bit
        return bytes(record) + bytes(300)
    return wrong


def replayed(s):
    record = s.sock.record()
    return record + record + a_write(s)


def skipped(s):
    s.sock.record(bytes(4))
    return s.sock.record(a_write(s))


def swapped(s):
    data = a_write(s)
    first, second = s.sock.record(data[:10]), s.sock.record(data[10:])
    return second + first


def reflected(s):
    """A record that the victim itself has sent, as far as it can be told: under the other key."""
    label = "SERVER" if s.sock.role == "CLIENT" else "CLIENT"
    secret = s.sock.contexts.secret(f"{label}_TRAFFIC_SECRET_0", s.sock.hello[11:43])
    sealer = Sealer(s.sock.tls.cipher()[0], secret)
    return sealer.seal(a_write(s) + bytes((DATA,)))


def earlier_key(s):
    sealer = s.sock.sealer_of("HANDSHAKE_TRAFFIC_SECRET")
    return sealer.seal(a_write(s) + bytes((DATA,)))


def inner(kind):
    return lambda s: s.sock.record(a_write(s), kind)


def header(*head):
    return lambda s: bytes(head) + bytes(100)


# Header of 5 bytes: type, version, length. The kernel does not look at the type.
PARTS = {"version": 1, "version's second byte": 2, "length's first byte": 3, "length": 4, "first byte": 5,
         "middle": 20, "type": -TAG - 1, "tag's first byte": -TAG, "tag's last byte": -1}
WRONG = {
    **{f"a wrong bit in a record's {part} ends the stream": flipped(at, (SEED + i) % 8 if at != 3 else 6)
       for i, (part, at) in enumerate(PARTS.items())},
    "a record that is repeated ends the stream": replayed,
    "a record that is missing ends the stream": skipped,
    "records in another order end the stream": swapped,
    "a record with the victim's own key ends the stream": reflected,
    "a record with the handshake's key ends the stream": earlier_key,
    "a record of zeros, which has no type, ends the stream": lambda s: s.sock.sealer.seal(bytes(40)),
    **{f"a record of type {kind} ends the stream": inner(kind) for kind in (CHANGE, 24, 255)},
    "a record of a little more than 16 KiB ends the stream": lambda s: s.sock.record(bytes(MOST + 1)),
    "a record of 64 KiB ends the stream": header(DATA, 3, 3, 0xFF, 0xFF),
    "a record that is shorter than its tag ends the stream": header(DATA, 3, 3, 0, 15),
    "a record of nothing ends the stream": header(DATA, 3, 3, 0, 0),
    "bytes in the clear end the stream": header(DATA, 3, 3, 0, 40),
    "an alert in the clear ends the stream": lambda s: bytes((ALERT, 3, 3, 0, 2, WARNING, CLOSE_NOTIFY)),
    "ChangeCipherSpec behind the handshake ends the stream": lambda s: bytes((CHANGE, 3, 3, 0, 1, 1)),
    "half an alert ends the stream": lambda s: s.sock.record(b"\1", ALERT),
    "an alert of nothing ends the stream": lambda s: s.sock.record(b"", ALERT),
    "thousands of alerts that mean nothing end the stream": lambda s: b"".join(
        s.sock.alert(WARNING, USER_CANCELED) for _ in range(1100)),
    "tickets without end end the stream": lambda s: b"".join(
        s.sock.record(ticket(MOST), HANDSHAKE) for _ in range(5)),
}


def wrong_anywhere(victim):
    """A record with a wrong tag at each stage."""
    for stage in STAGES:
        s = on(stage)(victim)
        record = s.sock.record(bytes(8))
        s.raw(record[:-1] + bytes((record[-1] ^ 1,)))
        s.ends("reset")


def urgent(victim):
    """TLS stops in front of an urgent byte; at the FIN the stream is over."""
    for at in (1, 30):
        s = between_fpdus(victim)
        record = s.sock.record(a_write(s))
        s.sock.sock.send(record[:at], socket.MSG_OOB)
        s.raw(record[at:])
        time.sleep(0.3 * SLOW)
        s.fin()
        s.ends("reset")


# --- ends, and alerts -----------------------------------------------------------------------------------

def on(stage):
    return lambda victim: stage(victim.caller() if "reply" in stage.__name__ else victim)


def cut_off(stage):
    """A FIN without close_notify; one behind the half of a record; a RST."""
    def play(victim):
        for count in (0, 12, None):
            s = on(stage)(victim)
            if count is None:
                reset(s.sock)
                if s.token:
                    check(victim.ended(s.token) == 0, "a message was delivered")
                continue
            s.raw(s.sock.record(bytes(40))[:count])
            s.fin()
            s.ends("reset")
    return play


def notified(stage):
    """close_notify, and behind it a record that would do something."""
    def play(victim):
        for level in (WARNING, FATAL):
            s = on(stage)(victim)
            s.raw(s.sock.alert(level, CLOSE_NOTIFY))
            s.raw(s.sock.record(a_write(s) if hasattr(s, "told") else A_REQUEST))
            s.fin()
            s.ends(*("closed",) if stage is between_fpdus else ("reset", "cut"))
    return play


def alerts(i, stage):
    def play(victim):
        for n, description in enumerate(ERRORS):
            if (n + SEED) % len(STAGES) == i:
                s = on(stage)(victim)
                s.raw(s.sock.alert(FATAL if n % 3 else WARNING, description))
                s.ends("reset")
    return play


CASES = {
    **SLOW_CASES,
    **{name: lives(act) for name, act in RIGHT.items()},
    **{name: broken(wrong, i) for i, (name, wrong) in enumerate(WRONG.items())},
    "a wrong record ends the stream at each stage": wrong_anywhere,
    "urgent bytes end the stream": urgent,
    **{f"a FIN or RST {name_of(s)} cuts the stream": cut_off(s) for s in STAGES},
    **{f"close_notify {name_of(s)} ends the stream": notified(s) for s in STAGES},
    **{f"alerts {name_of(s)} end the stream": alerts(i, s) for i, s in enumerate(STAGES)},
    **HANDSHAKES,
}
# What the log has to say of these. Not of each: it is written at a limited rate.
WORDS = "TLS stream broken: error -74", "TLS stream cut", "TLS handshake failed: error -13"


class All:
    def __init__(self, victim):
        self.victim, self.failed, self.lock = victim, False, threading.Lock()

    def say(self, well, name, *notes):
        with self.lock:
            self.failed |= not well
            for note in notes:
                print(f"# {note}"[:400])
            print(f"{'ok' if well else 'not ok'} {name}", flush=True)

    def play(self, name):
        try:
            CASES[name](self.victim)
            self.victim.lives()
            self.say(True, name)
        except (Failed, OSError, AssertionError, KeyError) as e:
            self.say(False, name, repr(e))

    def log(self):
        log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
        missing = [words for words in WORDS if words not in log]
        kinds = sorted(set(re.findall(r"TLS (?:stream|handshake) [^;\n]*", log)))
        self.say(not missing, "the log says how connections have ended", *kinds, f"missing: {missing}")

    def run(self):
        threads = [threading.Thread(target=self.play, args=(name,)) for name in SLOW_CASES]
        for thread in threads:
            thread.start()
        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(self.play, [name for name in CASES if name not in SLOW_CASES]))
        for thread in threads:
            thread.join()
        self.log()
        odd = self.victim.odd
        self.say(not odd, "the victim finds its memory and queues intact", *odd[:5])
        try:
            self.victim.stop()
            self.say(True, "the victim ends without an error")
        except Failed as e:
            self.say(False, "the victim ends without an error", e)
        return 3 if self.failed else 0


def main():
    if sys.argv[1] == "--list":
        print("\n".join([*CASES, "log", "memory", "end"]))
        return 0
    return All(Victim(sys.argv[1], int(sys.argv[2]))).run()


if __name__ == "__main__":
    sys.exit(main())
