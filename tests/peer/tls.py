# SPDX-License-Identifier: GPL-2.0
"""An end of a TLS 1.3 connection that makes its records itself.

over(sock) is what the adversary's cases use as a socket: with RSIW_TLS, a directory with ca.pem, hosta.pem
and hosta.key, it is TLS over that socket, otherwise the socket itself. Each sendall() of up to 16 KiB is a
record, and shutdown() sends close_notify before the FIN.

The handshake and all that is received is Python's ssl. The records that are sent are made here, with the key
that ssl writes to its log, so that a case can send any.
"""

import atexit
import hashlib
import hmac
import os
import shutil
import socket
import struct
import tempfile
import threading

from peer import SLOW

DIRECTORY = os.environ.get("RSIW_TLS", "")
if DIRECTORY:
    # To load these takes the debug kernel seconds.
    import ctypes
    import ssl
# Types of records, and alerts.
CHANGE, ALERT, HANDSHAKE, DATA = 20, 21, 22, 23
CLOSE_NOTIFY, WARNING, FATAL = 0, 1, 2
MOST = 1 << 14
HEADER, TAG = 5, 16

CIPHERS = {
    "TLS_AES_128_GCM_SHA256": ("EVP_aes_128_gcm", 16, hashlib.sha256),
    "TLS_AES_256_GCM_SHA384": ("EVP_aes_256_gcm", 32, hashlib.sha384),
    "TLS_CHACHA20_POLY1305_SHA256": ("EVP_chacha20_poly1305", 32, hashlib.sha256),
}


def libcrypto():
    lib = ctypes.CDLL("libcrypto.so.3")
    for name in ("EVP_CIPHER_CTX_new", *(cipher for cipher, _, _ in CIPHERS.values())):
        getattr(lib, name).restype = ctypes.c_void_p
    return lib


LIB = libcrypto() if DIRECTORY else None


def expand(secret, label, size, digest):
    """HKDF-Expand-Label (RFC 8446 s7.1) without a context, of at most one block."""
    label = b"tls13 " + label
    info = struct.pack("!HB", size, len(label)) + label + b"\0\1"
    return hmac.new(secret, info, digest).digest()[:size]


class Sealer:
    """Encrypts records with the key of one direction."""

    def __init__(self, cipher, secret):
        name, size, digest = CIPHERS[cipher]
        self.evp = ctypes.c_void_p(getattr(LIB, name)())
        self.key = expand(secret, b"key", size, digest)
        self.iv = expand(secret, b"iv", 12, digest)
        self.number = 0

    def seal(self, inner, header=None, number=None):
        """A record of these bytes, which end with its type and padding."""
        header = header or struct.pack("!BHH", DATA, 0x0303, len(inner) + TAG)
        if number is None:
            number, self.number = self.number, self.number + 1
        nonce = bytes(a ^ b for a, b in zip(self.iv, bytes(4) + number.to_bytes(8, "big")))
        out, tag = ctypes.create_string_buffer(len(inner) + 1), ctypes.create_string_buffer(TAG)
        length = ctypes.c_int()
        ctx = ctypes.c_void_p(LIB.EVP_CIPHER_CTX_new())
        try:
            well = LIB.EVP_EncryptInit_ex(ctx, self.evp, None, self.key, nonce)
            well &= LIB.EVP_EncryptUpdate(ctx, None, ctypes.byref(length), header, len(header))
            well &= LIB.EVP_EncryptUpdate(ctx, out, ctypes.byref(length), inner, len(inner))
            well &= LIB.EVP_EncryptFinal_ex(ctx, None, ctypes.byref(length))
            well &= LIB.EVP_CIPHER_CTX_ctrl(ctx, 0x10, TAG, tag)
        finally:
            LIB.EVP_CIPHER_CTX_free(ctx)
        assert well == 1, "libcrypto cannot encrypt"
        return header + out.raw[:len(inner)] + tag.raw


class Contexts:
    """The settings of both roles, and the secrets that ssl has written to its log."""

    def __init__(self, directory, name):
        self.lock, self.secrets = threading.Lock(), {}
        work = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, work, True)
        self.path = f"{work}/keys"
        self.client = self.context(ssl.PROTOCOL_TLS_CLIENT, directory, name)
        self.server = self.context(ssl.PROTOCOL_TLS_SERVER, directory, name)
        # A ticket would be a record that is not made here.
        self.server.num_tickets = 0
        self.log = open(self.path, encoding="ascii")

    def context(self, role, directory, name):
        context = ssl.SSLContext(role)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(f"{directory}/ca.pem")
        if name:
            context.load_cert_chain(f"{directory}/{name}.pem", f"{directory}/{name}.key")
        context.keylog_filename = self.path
        return context

    def secret(self, label, random):
        """A secret of the connection whose ClientHello has these random bytes."""
        with self.lock:
            while line := self.log.readline():
                # The first line is a comment.
                if not line.startswith("#"):
                    name, key, value = line.split()
                    self.secrets[name, key] = bytes.fromhex(value)
            return self.secrets.pop((label, random.hex()))


CONTEXTS = {}
MAKING = threading.Lock()


def contexts(directory, name):
    with MAKING:
        if (directory, name) not in CONTEXTS:
            CONTEXTS[directory, name] = Contexts(directory, name)
        return CONTEXTS[directory, name]


class Secure:
    """TLS over a connected socket, with the calls of a socket. Certificate and key are those of `name`."""

    def __init__(self, sock, server=False, directory=DIRECTORY, name="hosta"):
        self.sock = sock
        self.contexts = contexts(directory, name)
        context = self.contexts.server if server else self.contexts.client
        self.here, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.here, self.out, server_side=server)
        self.hello = b""        # the client's first bytes, which have its random ones
        self.role = "SERVER" if server else "CLIENT"
        sock.settimeout(30 * SLOW)
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.flush()
                if not (some := self.sock.recv(65536)):
                    raise ConnectionResetError("the handshake is cut off") from None
                if server:
                    self.hello += some
                self.here.write(some)
            except ssl.SSLError:
                # An alert says why.
                self.flush()
                raise
        self.flush()
        self.sealer = self.sealer_of("TRAFFIC_SECRET_0")

    def sealer_of(self, stage):
        """stage: TRAFFIC_SECRET_0, or HANDSHAKE_TRAFFIC_SECRET."""
        secret = self.contexts.secret(f"{self.role}_{stage}", self.hello[11:43])
        return Sealer(self.tls.cipher()[0], secret)

    def flush(self):
        some = self.out.read()
        if self.role == "CLIENT" and len(self.hello) < 43:
            self.hello += some
        if some:
            self.sock.sendall(some)

    # --- what is sent ---

    def record(self, data=b"", kind=DATA, padding=0, **more):
        """A record, which has yet to be sent."""
        return self.sealer.seal(data + bytes((kind,)) + bytes(padding), **more)

    def alert(self, level, description):
        return self.record(bytes((level, description)), ALERT)

    def sendall(self, data):
        data = bytes(data)
        for at in range(0, len(data), MOST):
            self.sock.sendall(self.record(data[at:at + MOST]))

    def shutdown(self, how):
        try:
            self.sock.sendall(self.alert(WARNING, CLOSE_NOTIFY))
        except (BrokenPipeError, ConnectionResetError):
            pass
        self.sock.shutdown(how)

    # --- what is received ---

    def recv(self, count):
        """Bytes; none where the stream ends as it should, by close_notify and a FIN."""
        while True:
            try:
                return self.tls.read(count)
            except ssl.SSLWantReadError:
                if some := self.sock.recv(65536):
                    self.here.write(some)
                else:
                    self.here.write_eof()
            except ssl.SSLZeroReturnError:
                assert not self.sock.recv(1), "something behind close_notify"
                return b""
            except ssl.SSLEOFError:
                raise BrokenPipeError("a FIN without close_notify") from None

    # --- what is the socket's own ---

    def settimeout(self, seconds):
        self.sock.settimeout(seconds)

    def setsockopt(self, *option):
        self.sock.setsockopt(*option)

    def close(self):
        self.sock.close()


def over(sock, server=False):
    if not DIRECTORY:
        return sock
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        return Secure(sock, server)
    except ssl.SSLError as e:
        raise ConnectionAbortedError(f"no handshake: {e}") from e
