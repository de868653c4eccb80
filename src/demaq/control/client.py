"""Speak to a running node from another process of the same user: one request and one answer, as JSON, over a socket.

`node.json` in the store's folder, or in that for a store on a server, says where the socket is. It also says which
store that is: in a copy of the folder it is about another one. `demaq.server.control_server` answers.
"""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from demaq.control.message_json import sent_to_json, to_json
from demaq.engine.batch_intake import IncomingMessage
from demaq.errors import MessageError, StoreError
from demaq.store.location import StoreLocation, place_of
from demaq.store.protocol import NewMessage
from demaq.store.sqlite_database import FILE_NAME

PS_SECONDS_MAX = 1.0
STOPPED = ("T", "t")


def is_stopped(pid: int) -> bool:
    """Return False also where it is not known."""
    try:
        # The name of the program stands in parentheses and may hold anything, such as further parentheses.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in STOPPED
    except (OSError, IndexError):
        return _ps_says_stopped(pid)


def _ps_says_stopped(pid: int) -> bool:
    """The same for systems without /proc."""
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
"""The same for a request that takes no time to answer."""
STOPPED_AFTER_SECONDS = 1.0
"""How often a waiting client looks whether the node's process was stopped: then no answer can come."""


class RemoteNode:
    """A running node, as a command of another process sees it."""

    def __init__(self, address: str, pid: int | None = None) -> None:
        """`pid` is its process, where that is known."""
        self._address = address
        self._pid = pid

    def enqueue(self, queue: str, body: bytes, properties: dict[str, str], request: str | None) -> int:
        encoded = base64.b64encode(body).decode()
        return int(self._ask(do="enqueue", queue=queue, body=encoded, properties=properties, request=request))

    def append(self, messages: Sequence[NewMessage], digest: str, watch: str | None = None) -> list[bool]:
        """Store messages that were checked here; the answer is which are new. With `watch`, they are watched."""
        encoded = [to_json(message) for message in messages]
        return list(self._ask(do="append", messages=encoded, digest=digest, watch=watch))

    def watch(self, name: str, seqs: Sequence[int]) -> None:
        """Watch what becomes of messages."""
        self._ask(do="watch", watch=name, messages=list(seqs))

    def read_watch(self, name: str) -> dict[str, Any]:
        """What has become of them."""
        return dict(self._ask(do="watched", watch=name))

    def enqueue_all(self, queue: str, sent: Sequence[IncomingMessage]) -> list[int]:
        """All or none of the messages, in one transaction."""
        encoded = [sent_to_json(each) for each in sent]
        return list(self._ask(do="enqueue_all", queue=queue, messages=encoded))

    def take(self, queue: str, limit: int) -> list[dict[str, Any]]:
        return list(self._ask(do="take", queue=queue, limit=limit))

    def load_collection(self, name: str, documents: list[bytes]) -> int:
        return int(self._ask(do="load", name=name, documents=[base64.b64encode(d).decode() for d in documents]))

    def collect_garbage(self) -> int:
        return int(self._ask(do="gc"))

    def redeliver(self, messages: Sequence[int]) -> None:
        """Let messages of outgoing gateways be sent again: all, or none where one cannot be."""
        self._ask(do="redeliver", messages=list(messages))

    def status(self) -> dict[str, Any]:
        return dict(self._ask(STATUS_SECONDS_MAX, do="status"))

    def close(self) -> None:
        """Nothing is kept open."""

    def _ask(self, seconds_max: float = ANSWER_SECONDS_MAX, **request: Any) -> Any:
        data = json.dumps(request).encode()
        if len(data) > REQUEST_BYTES_MAX:
            raise StoreError("that is more than a node takes at once")
        try:
            answer = json.loads(self._answer_to(data, time.monotonic() + seconds_max))
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
        if "failed" in answer:
            raise StoreError(answer["failed"])
        return answer["answer"]

    def _answer_to(self, data: bytes, until: float) -> bytes:
        """Raises a TimeoutError after that time, and a StoreError as soon as the process is seen to be stopped."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(STOPPED_AFTER_SECONDS)
            self._patiently(lambda: connection.connect(self._address), until)
            unsent = memoryview(data)
            while unsent:
                part = unsent[:PIECE_BYTES]
                unsent = unsent[self._patiently(partial(connection.send, part), until) :]
            connection.shutdown(socket.SHUT_WR)
            return read_all(lambda: self._patiently(lambda: connection.recv(PIECE_BYTES), until))

    def _patiently(self, act: Callable[[], T], until: float) -> T:
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
    """The node that runs on a store on this machine, if one does."""
    place = store if isinstance(store, StoreLocation) else place_of(store)
    try:
        known = json.loads((place.folder / ADDRESS_FILE).read_text())
        address, pid = str(known["socket"]), int(known["pid"])
        if known["store"] != identity_of(place) or not answers(address):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return RemoteNode(address, pid)


def answers(address: str) -> bool:
    """Return whether something listens on a socket."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(STOPPED_AFTER_SECONDS)
            connection.connect(address)
    except (BlockingIOError, TimeoutError):
        return True  # so many have asked before that there is no room for one more
    except OSError:
        return False
    return True


def identity_of(place: StoreLocation) -> list[int] | str:
    """What tells a store from its copies, wherever it is moved."""
    if place.is_on_server:
        return place.folder.name
    file = (place.folder / FILE_NAME).stat()
    return [file.st_dev, file.st_ino]


def read_all(receive: Callable[[], bytes]) -> bytes:
    """Return all that arrives until the other side has sent everything."""
    pieces: list[bytes] = []
    size = 0
    while piece := receive():
        pieces.append(piece)
        size += len(piece)
        if size > REQUEST_BYTES_MAX:
            raise ValueError("the request is too large")
    return b"".join(pieces)
