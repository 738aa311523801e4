# SPDX-License-Identifier: GPL-2.0
"""ktls.py SIZE [ADDRESS SECONDS]: a TCP stream with the kernel's TLS 1.3, AES-256-GCM and fixed keys, in calls of SIZE
bytes. With an address it sends, otherwise it receives, stream after stream."""

import socket
import struct
import sys
import time

PORT = 4433
TCP_ULP, SOL_TLS, TLS_TX, TLS_RX = 31, 282, 1, 2
# struct tls12_crypto_info_aes_gcm_256: version, type of the cipher; IV, key, salt, number of the record.
INFO = struct.pack("HH8s32s4s8s", 0x0304, 52, b"12345678", b"k" * 32, b"salt", bytes(8))


def secure(sock, way):
    sock.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
    sock.setsockopt(SOL_TLS, way, INFO)


def main():
    size = int(sys.argv[1])
    if len(sys.argv) > 2:
        with socket.create_connection((sys.argv[2], PORT)) as sock:
            secure(sock, TLS_TX)
            data, end = bytes(size), time.monotonic() + float(sys.argv[3])
            while time.monotonic() < end:
                sock.sendall(data)
        return
    with socket.create_server(("", PORT)) as listener:
        while True:
            sock, _ = listener.accept()
            with sock:
                secure(sock, TLS_RX)
                data = bytearray(size)
                while sock.recv_into(data):
                    pass


main()
