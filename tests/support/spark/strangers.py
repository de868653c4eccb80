"""A client that connects to Spark's ports and knows no secret: requests of Spark's transport protocol, byte by byte.

A frame is its own length (8 bytes), its type (1 byte), and what belongs to that type.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

SECONDS_MAX = 20.0
RPC_REQUEST, STREAM_REQUEST = 3, 6
SERIALISED = b"\xac\xed\x00\x05t\x00\x05hello"
"""A string as Java serialises it: a process that deserialises it has been reached."""


def ask_to_deserialise(port: int) -> bytes:
    """Return what is answered to a remote call that carries a serialised object; nothing if we are cut off."""
    no_sender = b"\x00"
    receiver = b"\x01" + _text("127.0.0.1") + struct.pack(">i", port) + _text("HeartbeatReceiver")
    body = no_sender + receiver + SERIALISED
    return _exchange(port, RPC_REQUEST, struct.pack(">qi", 1, len(body)) + body)


def ask_for_file(port: int, name: str) -> bytes:
    """Return what is answered to a request for a file that the driver serves to its executors."""
    path = f"/files/{name}".encode()
    return _exchange(port, STREAM_REQUEST, struct.pack(">i", len(path)) + path)


def ask_gateway(port: int) -> bytes:
    """Return what py4j answers to a call of a method of its own."""
    return _send(port, b"c\nGATEWAY_SERVER\ngetListeningPort\ne\n")


def _text(text: str) -> bytes:
    """As DataOutputStream.writeUTF has it."""
    return struct.pack(">H", len(text)) + text.encode()


def _exchange(port: int, kind: int, message: bytes) -> bytes:
    return _send(port, struct.pack(">qB", 9 + len(message), kind) + message)


def _send(port: int, data: bytes) -> bytes:
    """Return all that comes back before the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        with suppress(ConnectionResetError):
            while more := connection.recv(65536):
                received += more
        return received
