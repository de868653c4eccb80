"""Connections between a node and its tasks on Spark: where the node listens, and how both sides prove who they are.

On one machine a task connects to a socket file in a private folder, on a cluster by TCP with TLS, whose certificate the
task gets with its job. Either way both sides prove that they know a secret of this start of the node before anything is
deserialised: a pickled object runs code.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

SECRET_BYTES = 32
HANDSHAKE_SECONDS_MAX = 10.0
"""How long either side may take to connect and to prove that it knows the secret."""
CERTIFICATE_DAYS = 3650
"""A certificate lives as long as the node that made it."""

_NONCE_BYTES = 32


@dataclass(frozen=True, slots=True)
class TaskAddress:
    """Where a node listens for its tasks, and what a task needs to be let in. Travels with the job."""

    where: str | tuple[str, int]
    """A socket file, or host and port."""
    secret: bytes = field(repr=False)
    certificate: str | None = None
    """Of a node that listens on TCP."""


class RefusedPeer(ConnectionError):
    """The other side does not know the secret."""


def connect(address: TaskAddress) -> socket.socket:
    """Return a connection to a node on which both sides know who the other one is."""
    if isinstance(address.where, str):
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(HANDSHAKE_SECONDS_MAX)
        connecting: Callable[[], object] = partial(peer.connect, address.where)
    else:
        assert address.certificate is not None, "a node that listens on TCP has a certificate"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False  # the certificate is of this very node
        context.load_verify_locations(cadata=address.certificate)
        plain = socket.create_connection(address.where, HANDSHAKE_SECONDS_MAX)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = secured = context.wrap_socket(plain, do_handshake_on_connect=False)
        connecting = secured.do_handshake
    try:
        connecting()
        _prove_as_task(peer, address.secret)
    except BaseException:
        peer.close()
        raise
    peer.settimeout(None)
    return peer


def accept_peer(peer: socket.socket, secret: bytes) -> None:
    """Let a task prove that it knows the secret. Raises an OSError if it does not, or not in time."""
    peer.settimeout(HANDSHAKE_SECONDS_MAX)
    if isinstance(peer, ssl.SSLSocket):
        peer.do_handshake()
    theirs = read_exactly(peer, _NONCE_BYTES)
    ours = secrets.token_bytes(_NONCE_BYTES)
    peer.sendall(ours + _proof(secret, b"node", theirs, ours))
    if not hmac.compare_digest(read_exactly(peer, SECRET_BYTES), _proof(secret, b"task", theirs, ours)):
        raise RefusedPeer("a task has another secret")
    peer.settimeout(None)


def _prove_as_task(peer: socket.socket, secret: bytes) -> None:
    ours = secrets.token_bytes(_NONCE_BYTES)
    peer.sendall(ours)
    theirs = read_exactly(peer, _NONCE_BYTES)
    if not hmac.compare_digest(read_exactly(peer, SECRET_BYTES), _proof(secret, b"node", ours, theirs)):
        raise RefusedPeer("the node has another secret")
    peer.sendall(_proof(secret, b"task", ours, theirs))


def _proof(secret: bytes, role: bytes, of_task: bytes, of_node: bytes) -> bytes:
    return hmac.new(secret, role + of_task + of_node, hashlib.sha256).digest()


def read_exactly(peer: socket.socket, size: int) -> bytes:
    """Return so many bytes. Raises EOFError if the other side has closed the connection before."""
    found = bytearray()
    while len(found) < size:
        more = peer.recv(min(size - len(found), 1 << 20))
        if not more:
            raise EOFError
        found += more
    return bytes(found)


def make_certificate(folder: Path) -> tuple[ssl.SSLContext, str]:
    """Return the TLS of a node with a new key, and its certificate. The folder must be private."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "demaq")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks differ
        .not_valid_after(now + timedelta(days=CERTIFICATE_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    text = certificate.public_bytes(serialization.Encoding.PEM)
    formats = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # nothing is sent but answers, so that what can be read is one
    file = folder / f"tasks-{secrets.token_hex(8)}.pem"
    try:  # the library reads keys from files only
        with open(file, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as target:
            target.write(key.private_bytes(*formats) + text)
        context.load_cert_chain(file)
    finally:
        file.unlink(missing_ok=True)
    return context, text.decode()
