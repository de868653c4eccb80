"""Objects over a socket, one after the other: between a node and its workers, with or without TLS."""

from __future__ import annotations

import fcntl
import os
import pickle
import select
import socket
import ssl
import struct
import sys
from typing import Any

_LENGTH = struct.Struct("!Q")
_READ_BYTES = 1 << 18


class SocketChannel:
    """Carries objects in both directions. The other side must be trusted: a pickled object runs code."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self._read = bytearray()
        """What was received and not returned yet: an object takes one call of the system where that is possible."""
        self._poller = select.poll()  # select cannot watch descriptors above 1,023
        self._poller.register(peer, select.POLLIN)
        self._is_owned = False
        """Whether signals about the socket come to this process."""
        self._flags = 0

    def send(self, value: Any, /) -> None:
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        self._peer.sendall(_LENGTH.pack(len(data)) + data)

    def recv(self) -> Any:
        """Return the next object. Raises EOFError if the other side has closed the connection."""
        read = self._read
        while not self._is_complete():
            more = self._peer.recv(_READ_BYTES)
            if not more:
                raise EOFError
            read += more
        end = _LENGTH.size + _LENGTH.unpack_from(read)[0]
        with memoryview(read) as view, view[_LENGTH.size : end] as data:
            value = pickle.loads(data)
        del read[:end]
        return value

    def poll(self, seconds: float, /) -> bool:
        """Wait for an object, at most so long. Return whether one is coming. Raises OSError on a closed connection."""
        if self._is_complete() or (isinstance(self._peer, ssl.SSLSocket) and self._peer.pending()):
            return True
        if self._peer.fileno() < 0:
            raise OSError("the connection is closed")
        return bool(self._poller.poll(max(0, round(seconds * 1000))))

    def is_silent(self) -> bool:
        """Return whether nothing has come that was not read, not even the end. May be called from any thread.

        Raises OSError on a closed connection.
        """
        if self._peer.fileno() < 0:
            raise OSError("the connection is closed")
        poller = select.poll()  # of its own: one that is used by two threads at once raises a RuntimeError
        poller.register(self._peer, select.POLLIN)
        return not poller.poll(0)

    def end_with_peer(self, is_on: bool) -> None:
        """While it is on, let the system end this process as soon as the other side is gone, or sends something.

        For a worker in a call of Saxon, in which nothing else reaches it: the default action of SIGIO ends a process on
        Linux, and on other systems nothing happens. Only between the two processes of a socket of this machine.
        """
        if self._peer.family != socket.AF_UNIX or not sys.platform.startswith("linux"):
            return
        if not self._is_owned:
            fcntl.fcntl(self._peer, fcntl.F_SETOWN, os.getpid())
            self._is_owned = True
            self._flags = fcntl.fcntl(self._peer, fcntl.F_GETFL)
        fcntl.fcntl(self._peer, fcntl.F_SETFL, self._flags | os.O_ASYNC if is_on else self._flags)

    def close(self) -> None:
        self._peer.close()

    def _is_complete(self) -> bool:
        read = self._read
        return len(read) >= _LENGTH.size and len(read) >= _LENGTH.size + _LENGTH.unpack_from(read)[0]
