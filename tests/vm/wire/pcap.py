# SPDX-License-Identifier: GPL-2.0
"""pcap.py align FILE: checks that at least nine of ten TCP segments with data consist of
whole FPDUs, or are frames of connection setup, and prints how full they are. As a check of
the check, the same data without its first 4 bytes must not pass.

pcap.py lossy FILE: like align, for segments with SACK blocks: at least three of four.

pcap.py gathered FILE: like align, for short messages: all segments consist of whole FPDUs,
and some have more than one.

pcap.py streams FILE: looks at each TCP stream for FPDUs (without markers) that do not follow each other as RFC 5041
demands: within a message, a segment begins where the one before it ended. Prints the first that does not, of each
stream, and nothing for streams in order. What was not captured is not judged. It is for tests without CRCs, where
nothing else tells what the peer has sent from what has become of it.

pcap.py flip FILE NEW: copies the capture, and changes one bit in the data of an FPDU in
the middle.
"""

import collections
import struct
import sys

FILE_HEADER, RECORD_HEADER = 24, 16
SETUP = b"MPA ID Re"
# The length of its private data ends it.
SETUP_HEADER = 20
SYN = 2
# Of DDP and RDMAP (RFC 5041 section 4, RFC 5040 section 4).
LAST, TAGGED, TERMINATE = 0x40, 0x80, 7
TAGGED_HEADER, UNTAGGED_HEADER = 14, 18
# The length field, the header of the smallest DDP segment, the CRC.
SMALLEST = 2 + 14 + 4


def packets(data):
    """(offset of the TCP header in the file, offset of the payload, its length, flow) of each packet of TCP."""
    magic, link = struct.unpack_from("<I", data)[0], struct.unpack_from("<I", data, 20)[0]
    if magic not in (0xA1B2C3D4, 0xA1B23C4D) or link != 1:
        sys.exit("not a capture of Ethernet")
    at = FILE_HEADER
    while at + RECORD_HEADER <= len(data):
        stored, original = struct.unpack_from("<II", data, at + 8)
        start = at + RECORD_HEADER
        at = start + stored
        if at > len(data):
            break                       # the last packet was not written in full
        if stored != original:
            sys.exit("a packet was not captured in full")
        kind, ip = data[start + 12:start + 14], start + 14
        if kind == b"\x08\x00" and data[ip + 9] == 6:
            tcp, addresses = ip + (data[ip] & 15) * 4, data[ip + 12:ip + 20]
            end = ip + struct.unpack_from(">H", data, ip + 2)[0]
        elif kind == b"\x86\xdd" and data[ip + 6] == 6:
            tcp, addresses = ip + 40, data[ip + 8:ip + 40]
            end = tcp + struct.unpack_from(">H", data, ip + 4)[0]
        else:
            continue
        payload = tcp + (data[tcp + 12] >> 4) * 4
        yield tcp, payload, end - payload, addresses + data[tcp:tcp + 4]


def segments(data):
    """(offset of the payload in the file, length, flow) of each segment."""
    return ((payload, length, flow) for _tcp, payload, length, flow in packets(data) if length > 0)


def fpdus(payload):
    """The lengths of the FPDUs of a payload; None if it does not consist of whole FPDUs."""
    found, at = [], 0
    while at < len(payload):
        if len(payload) - at < SMALLEST:
            return None
        ulpdu = struct.unpack_from(">H", payload, at)[0]
        # Both DDP and RDMAP are of version 1.
        if payload[at + 2] & 0x3F != 1 or payload[at + 3] >> 6 != 1:
            return None
        size = (2 + ulpdu + 3 & ~3) + 4
        if size < SMALLEST or at + size > len(payload):
            return None
        found.append(size)
        at += size
    return found


def align(data, full_length=1440, most=10):
    whole, bad, shifted, count, lengths = 0, [], 0, 0, collections.Counter()
    for at, length, _flow in segments(data):
        payload = data[at:at + length]
        if payload.startswith(SETUP):
            continue
        found = fpdus(payload)
        if found is None:
            bad.append((at, length, payload[:20].hex()))
            continue
        whole += 1
        count += len(found)
        lengths[length] += 1
        shifted += fpdus(payload[4:]) is not None and len(found) == 1
    print(f"{whole} segments hold {count} whole FPDUs; {len(bad)} segments do not")
    for length, times in lengths.most_common(5):
        print(f"  {times} of {length} bytes")
    for at, length, head in bad[:5]:
        print(f"  at {at:#x}, {length} bytes: {head}")
    # Bulk data fill segments: 1448 bytes, or 1444 if the length has to be a multiple of 4.
    full = sum(times for length, times in lengths.items() if length >= full_length)
    print(f"  {full} are full")
    # TCP ends a segment where the peer's window ends. The FPDUs that follow do not fit the segments
    # up to the end of the batch; on a busy machine these are some segments. If the driver did not
    # align FPDUs, no segment would be whole.
    return len(bad) * most < whole and full > whole // 2 and whole > 500 and shifted == 0


def gathered(data):
    """Short messages: all segments are whole, and some have several FPDUs."""
    held = collections.Counter()
    for at, length, _flow in segments(data):
        payload = data[at:at + length]
        if not payload.startswith(SETUP):
            found = fpdus(payload)
            held[len(found or ())] += 1
    bad = held.pop(0, 0)
    total = sum(held.values())
    print(f"{total} segments hold {sum(n * times for n, times in held.items())} whole FPDUs, "
          f"up to {max(held)}; {bad} segments do not")
    return not bad and held[1] < total and total > 100


def streams(data):
    """The bytes of each connection from its beginning on, up to the first that was not captured."""
    begun, parts = {}, {}
    for tcp, at, length, flow in packets(data):
        number, flags = struct.unpack_from(">I5xB", data, tcp + 4)
        if flags & SYN:
            begun[flow] = number + 1
            parts[flow] = []
        elif flow in begun and length > 0:
            parts[flow].append(((number - begun[flow]) % (1 << 32), data[at:at + length]))
    for flow, segments in parts.items():
        stream = bytearray()
        for at, payload in sorted(segments, key=lambda s: s[0]):
            if at > len(stream):
                break
            stream += payload[len(stream) - at:]
        yield flow, bytes(stream)


def fault(stream):
    """What is wrong with the first FPDU of a stream that is wrong, or None."""
    if not stream.startswith(SETUP):
        return None
    at = SETUP_HEADER + struct.unpack_from(">H", stream, 18)[0]
    due = None
    while at + 2 + UNTAGGED_HEADER <= len(stream):
        length = struct.unpack_from(">H", stream, at)[0]
        head = stream[at + 2:at + 2 + UNTAGGED_HEADER]
        if head[0] & 3 != 1 or head[1] >> 6 != 1:
            return f"no header at {at}: {stream[at:at + 20].hex()}"
        if head[0] & TAGGED:
            # STag; tagged offset
            message, begin, size = head[2:6], *struct.unpack_from(">Q", head, 6), length - TAGGED_HEADER
        else:
            # queue number and MSN; message offset
            message, begin, size = head[6:14], *struct.unpack_from(">I", head, 14), length - UNTAGGED_HEADER
        here = (head[0] & TAGGED, head[1], message, begin)
        if head[1] & 15 == TERMINATE:
            return None
        if due and here != due:
            return f"at {at} is {here}, due is {due}"
        due = None if head[0] & LAST else (*here[:3], begin + size)
        at += 2 + length + -(2 + length) % 4 + 4
    return None


def out_of_order(data):
    for flow, stream in streams(data):
        said = fault(stream)
        if said:
            print(f"{len(stream)} bytes from port {struct.unpack('>H', flow[-4:-2])[0]}: {said}")


def flip(data):
    data = bytearray(data)
    found = [at for at, length, _ in segments(data) if length > 1400]
    data[found[len(found) // 2] + 700] ^= 0x10
    return data


def main():
    with open(sys.argv[2], "rb") as file:
        data = file.read()
    if sys.argv[1] == "align":
        sys.exit(0 if align(data) else 1)
    if sys.argv[1] == "lossy":
        # Up to three SACK blocks take 28 bytes of a segment.
        sys.exit(0 if align(data, 1410, 3) else 1)
    if sys.argv[1] == "gathered":
        sys.exit(0 if gathered(data) else 1)
    if sys.argv[1] == "streams":
        out_of_order(data)
        return
    with open(sys.argv[3], "wb") as file:
        file.write(flip(data))


main()
