"""The client of a node's control socket, for processes of the same user: one request and one response as JSON.

`node.json` in the store's folder (StoreLocation.folder) has the path of the socket. It also identifies the store,
because a copy of the folder has a copy of the file. The server is `demaq.server.control_server`.
"""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from demaq.control.message_json import encode_audit, encode_incoming, encode_message
from demaq.engine.intake import IncomingMessage, make_incoming
from demaq.errors import MessageError, OperatorError, StoreError
from demaq.store.location import StoreLocation, place_of
from demaq.store.operator_records import AuditRecord, PauseKind
from demaq.store.protocol import NewMessage
from demaq.store.sqlite_database import FILE_NAME

PS_SECONDS_MAX = 1.0
STOPPED = ("T", "t")


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped (SIGSTOP); False if that is not known."""
    try:
        # The name of the program is in parentheses and may itself hold parentheses.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in STOPPED
    except (OSError, IndexError):
        return _ps_says_stopped(pid)


def _ps_says_stopped(pid: int) -> bool:
    """Return the same on systems without /proc."""
    try:
        asked = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, timeout=PS_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return asked.stdout.decode(errors="replace").strip().startswith(STOPPED)


T = TypeVar("T")

ADDRESS_FILE = "node.json"
REQUEST_BYTES_MAX = 512 * 1024 * 1024
PIECE_BYTES = 1 << 20
ANSWER_SECONDS_MAX = 300.0
STATUS_SECONDS_MAX = 10.0
"""The same for a request that is answered at once."""
STOPPED_AFTER_SECONDS = 1.0
"""How often a waiting client checks whether the node's process is stopped: then there will be no response."""


class RemoteNode:
    """A running node, for commands in other processes."""

    def __init__(self, address: str, pid: int | None = None) -> None:
        """`pid` is its process, if that is known."""
        self._address = address
        self._pid = pid

    def enqueue(self, queue: str, body: bytes, properties: dict[str, str], request: str | None) -> int:
        encoded = base64.b64encode(body).decode()
        return int(self._ask(do="enqueue", queue=queue, body=encoded, properties=properties, request=request))

    def append(self, messages: Sequence[NewMessage], digest: str, watch: str | None = None) -> list[bool]:
        """Store messages that were checked by the caller. Return which are new. With `watch`, also watch them."""
        encoded = [encode_message(message) for message in messages]
        return list(self._ask(do="append", messages=encoded, digest=digest, watch=watch))

    def watch(self, name: str, seqs: Sequence[int]) -> None:
        """Watch messages under a name, so that their outcomes can be read."""
        self._ask(do="watch", watch=name, messages=list(seqs))

    def read_watch(self, name: str) -> dict[str, Any]:
        """Return the outcomes of the messages that are watched under a name."""
        return dict(self._ask(do="watched", watch=name))

    def enqueue_all(self, queue: str, sent: Iterable[bytes | str | IncomingMessage]) -> list[int]:
        """Enqueue all messages or none, in one transaction. Return their numbers."""
        encoded = [encode_incoming(make_incoming(each)) for each in sent]
        return list(self._ask(do="enqueue_all", queue=queue, messages=encoded))

    def take(self, queue: str, limit: int) -> list[dict[str, Any]]:
        return list(self._ask(do="take", queue=queue, limit=limit))

    def load_collection(self, name: str, documents: list[bytes], entry: AuditRecord | None = None) -> int:
        encoded = [base64.b64encode(d).decode() for d in documents]
        return int(self._ask(do="load", name=name, documents=encoded, entry=encode_audit(entry)))

    def collect_garbage(self) -> int:
        return int(self._ask(do="gc"))

    def redeliver(self, messages: Sequence[int], entry: AuditRecord | None = None) -> None:
        """Send messages of outgoing gateways again: all, or none if one is no longer stored."""
        self._ask(do="redeliver", messages=list(messages), entry=encode_audit(entry))

    def pause(self, kind: PauseKind, name: str, who: str, why: str = "") -> bool:
        """Pause a part of the application. Return False if it was paused before."""
        return bool(self._ask(do="pause", kind=kind, name=name, who=who, why=why))

    def resume(self, kind: PauseKind, name: str, who: str, why: str = "") -> bool:
        """Resume a part of the application. Return False if it was not paused."""
        return bool(self._ask(do="resume", kind=kind, name=name, who=who, why=why))

    def purge(self, seqs: Sequence[int], entry: AuditRecord) -> tuple[list[int], int]:
        """Remove messages, whatever their state. Return which were removed, and the number of the audit record."""
        removed, number = self._ask(do="purge", messages=list(seqs), entry=encode_audit(entry))
        return list(removed), int(number)

    def note_audit(self, entry: AuditRecord) -> int:
        """Store an audit record, or store it again if it has a number. Return its number."""
        return int(self._ask(do="audit", entry=encode_audit(entry)))

    def status(self) -> dict[str, Any]:
        return dict(self._ask(STATUS_SECONDS_MAX, do="status"))

    def metrics(self) -> str:
        """Return what `/metrics` says; the empty text if the node has no gateways."""
        return str(self._ask(STATUS_SECONDS_MAX, do="metrics"))

    def close(self) -> None:
        """Do nothing: no connection is kept open."""

    def _ask(self, seconds_max: float = ANSWER_SECONDS_MAX, **request: Any) -> Any:
        try:
            data = json.dumps(request, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise OperatorError("a text is not UTF-8") from None
        if len(data) > REQUEST_BYTES_MAX:
            raise StoreError("that is more than a node takes at once")
        try:
            answer = json.loads(self._exchange(data, time.monotonic() + seconds_max))
        except TimeoutError:
            raise StoreError(
                f"the node has given no answer within {seconds_max:g} s: it has too much to do, or waits for its store"
            ) from None
        except (OSError, ValueError):
            raise StoreError(
                "the node has ended or given no answer: what was asked may have been done or not"
            ) from None
        if "refused" in answer:
            raise MessageError(**answer["refused"])
        if "impossible" in answer:
            raise OperatorError(answer["impossible"])
        if "failed" in answer:
            raise StoreError(answer["failed"])
        return answer["answer"]

    def _exchange(self, data: bytes, until: float) -> bytes:
        """Send a request and return the response.

        Raises TimeoutError after `until`, StoreError if the node is stopped.
        """
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(STOPPED_AFTER_SECONDS)
            self._retry_until(lambda: connection.connect(self._address), until)
            unsent = memoryview(data)
            while unsent:
                part = unsent[:PIECE_BYTES]
                unsent = unsent[self._retry_until(partial(connection.send, part), until) :]
            connection.shutdown(socket.SHUT_WR)
            return read_all(lambda: self._retry_until(lambda: connection.recv(PIECE_BYTES), until))

    def _retry_until(self, act: Callable[[], T], until: float) -> T:
        while True:
            try:
                return act()
            except TimeoutError:
                if self._pid is not None and is_stopped(self._pid):
                    raise StoreError(
                        f"the node, process {self._pid}, is stopped and gives no answer; what was asked may be done "
                        f"when it goes on: kill -CONT {self._pid}"
                    ) from None
                if time.monotonic() > until:
                    raise


def running_node(store: str | Path | StoreLocation) -> RemoteNode | None:
    """Return the node that runs on a store on this machine; None if there is none."""
    place = store if isinstance(store, StoreLocation) else place_of(store)
    try:
        known = json.loads((place.folder / ADDRESS_FILE).read_text())
        address, pid = str(known["socket"]), int(known["pid"])
        if known["store"] != identity_of(place) or not is_listening(address):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return RemoteNode(address, pid)


def is_listening(address: str) -> bool:
    """Return whether something listens on a socket."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(STOPPED_AFTER_SECONDS)
            connection.connect(address)
    except (BlockingIOError, TimeoutError):
        return True  # the backlog is full
    except OSError:
        return False
    return True


def identity_of(place: StoreLocation) -> list[int] | str:
    """Return what distinguishes a store from its copies, wherever it is moved."""
    if place.is_on_server:
        return place.folder.name
    file = (place.folder / FILE_NAME).stat()
    return [file.st_dev, file.st_ino]


def read_all(receive: Callable[[], bytes]) -> bytes:
    """Return all that is received until the peer has closed its side. Raises ValueError if it is too large."""
    pieces: list[bytes] = []
    size = 0
    while piece := receive():
        pieces.append(piece)
        size += len(piece)
        if size > REQUEST_BYTES_MAX:
            raise ValueError("the request is too large")
    return b"".join(pieces)
