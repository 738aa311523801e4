# SPDX-License-Identifier: GPL-2.0
"""wireguard.py NETDEV a|b ADDRESS: make a WireGuard device one end of a tunnel between the two
hosts, whose other end is at that address. What wg does, which the guests have not.
"""

import base64
import socket
import struct
import sys

PORT = 51820
# The pairs of RFC 7748 section 6.1: (private, public) of each host.
KEYS = {
    "a": ("dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=", "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="),
    "b": ("XasIfmJKikt54X+Lg4AO5m87sSkmGLb9HC+LJ/+I4Os=", "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="),
}
GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 16, 3, 1, 2
NLM_F_REQUEST, NLM_F_ACK, NLMSG_ERROR = 1, 4, 2
WG_CMD_SET_DEVICE = 1
IFNAME, PRIVATE_KEY, LISTEN_PORT, PEERS = 2, 3, 6, 8    # WGDEVICE_A_
PUBLIC_KEY, ENDPOINT, ALLOWED_IPS = 1, 4, 9             # WGPEER_A_
FAMILY, IPADDR, CIDR_MASK = 1, 2, 3                     # WGALLOWEDIP_A_


def attr(kind, *values):
    value = b"".join(values)
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def nest(kind, *values):
    return attr(kind | 0x8000, *values)


def ask(sock, family, command, attrs):
    """The attributes of the answer, if there is one."""
    body = struct.pack("=BBH", command, 1, 0) + attrs
    flags = NLM_F_REQUEST | NLM_F_ACK
    sock.send(struct.pack("=IHHII", 16 + len(body), family, flags, 1, 0) + body)
    while True:
        got = sock.recv(65536)
        kind = struct.unpack_from("=H", got, 4)[0]
        if kind != NLMSG_ERROR:
            return got[20:]
        error = struct.unpack_from("=i", got, 16)[0]
        if error:
            sys.exit(f"netlink: error {-error}")
        return b""


def main():
    netdev, side, address = sys.argv[1:]
    private, public = (base64.b64decode(KEYS[s][i]) for i, s in
                       enumerate((side, "b" if side == "a" else "a")))
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
    sock.bind((0, 0))
    found = ask(sock, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, attr(CTRL_ATTR_FAMILY_NAME, b"wireguard\0"))
    family = None
    while found:
        size, kind = struct.unpack_from("=HH", found)
        if kind == CTRL_ATTR_FAMILY_ID:
            family = struct.unpack_from("=H", found, 4)[0]
        found = found[(size + 3) & ~3:]
    sock.recv(65536)                    # the acknowledgement
    anything = nest(0, attr(FAMILY, struct.pack("=H", socket.AF_INET)), attr(IPADDR, bytes(4)),
                    attr(CIDR_MASK, b"\0"))
    endpoint = struct.pack("=H", socket.AF_INET) + struct.pack("!H", PORT) + \
        socket.inet_aton(address) + bytes(8)
    peer = nest(0, attr(PUBLIC_KEY, public), attr(ENDPOINT, endpoint), nest(ALLOWED_IPS, anything))
    ask(sock, family, WG_CMD_SET_DEVICE,
        attr(IFNAME, netdev.encode() + b"\0") + attr(PRIVATE_KEY, private) +
        attr(LISTEN_PORT, struct.pack("=H", PORT)) + nest(PEERS, peer))


main()
