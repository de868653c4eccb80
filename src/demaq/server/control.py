"""How other processes of the same user speak to a running node: one request and one answer, as JSON, over a socket.

The socket lies in a folder that only its owner may enter; `node.json` in the store's folder, or in that for a store on
a server, says where. It also says which store that is: in a copy of the folder it is about another one.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from demaq.errors import MessageError, OperatorError, StoreError
from demaq.files import write_private_text
from demaq.scheduler.receiving import Sent
from demaq.server.new_messages import from_json, sent_from_json, sent_to_json, to_json
from demaq.server.node import Node
from demaq.server.process_state import is_stopped
from demaq.store.database import FILE_NAME
from demaq.store.place import Place, place_of
from demaq.store.protocol import NewMessage, StoredMessage

T = TypeVar("T")

ADDRESS_FILE = "node.json"
FOLDER_PREFIX = "demaq-node-"
SOCKET = "socket"
SOCKET_PATH_BYTES_MAX = 100
"""Somewhat less than any system allows."""
REQUEST_BYTES_MAX = 512 * 1024 * 1024
PIECE_BYTES = 1 << 20
ANSWER_SECONDS_MAX = 300.0
STATUS_SECONDS_MAX = 10.0
"""The same for what it takes no time to say."""
STOPPED_AFTER_SECONDS = 1.0
"""How often somebody who waits looks whether the node's process was stopped: then no answer can come."""


class ControlServer:
    """Answers requests about a node until it is closed."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._address_file = node.folder / ADDRESS_FILE
        _make_folder(node.folder)
        _remove_remains(node.folder)
        self._folder = _socket_folder()
        path = str(self._folder / SOCKET)
        address = {"pid": os.getpid(), "socket": path, "store": _identity(node.place)}
        try:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.bind(path)
            self._socket.listen(64)
            write_private_text(self._address_file, json.dumps(address))
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        threading.Thread(target=self._serve, name="demaq-control", daemon=True).start()

    def close(self) -> None:
        if _socket_of(self._address_file) == self._folder / SOCKET:  # and not that of a node that has taken over
            self._address_file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, ValueError):
            request = json.loads(_read_all(lambda: connection.recv(PIECE_BYTES)))
            try:
                answer: dict[str, Any] = {"answer": self._do(request)}
            except MessageError as error:
                answer = {"refused": {"kind": error.kind, "message": error.message, "code": error.code}}
            except OperatorError as error:
                answer = {"failed": str(error)}
            connection.sendall(json.dumps(answer).encode())

    def _do(self, request: dict[str, Any]) -> Any:
        match request["do"]:
            case "enqueue":
                body = base64.b64decode(request["body"])
                return self._node.enqueue(request["queue"], body, request["properties"], request["request"])
            case "append":
                messages = [from_json(item) for item in request["messages"]]
                return self._node.append(messages, request["digest"], request["watch"])
            case "watch":
                return self._node.watch(request["watch"], request["messages"])
            case "watched":
                return self._node.watched(request["watch"])
            case "enqueue_all":
                sent = [sent_from_json(item) for item in request["messages"]]
                return self._node.enqueue_all(request["queue"], sent)
            case "take":
                return [as_json(message) for message in self._node.take(request["queue"], request["limit"])]
            case "load":
                documents = [base64.b64decode(document) for document in request["documents"]]
                return self._node.load_collection(request["name"], documents)
            case "gc":
                return self._node.collect_garbage()
            case "redeliver":
                return self._node.redeliver(request["messages"])
            case "status":
                return self._node.status()
        raise StoreError(f"the node does not know the request {request['do']}")


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

    def watched(self, name: str) -> dict[str, Any]:
        """What has become of them."""
        return dict(self._ask(do="watched", watch=name))

    def enqueue_all(self, queue: str, sent: Sequence[Sent]) -> list[int]:
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
            return _read_all(lambda: self._patiently(lambda: connection.recv(PIECE_BYTES), until))

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


def running_node(store: str | Path | Place) -> RemoteNode | None:
    """The node that runs on a store on this machine, if one does."""
    place = store if isinstance(store, Place) else place_of(store)
    try:
        known = json.loads((place.folder / ADDRESS_FILE).read_text())
        address, pid = str(known["socket"]), int(known["pid"])
        if known["store"] != _identity(place) or not _answers(address):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return RemoteNode(address, pid)


def _answers(address: str) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(STOPPED_AFTER_SECONDS)
            connection.connect(address)
    except (BlockingIOError, TimeoutError):
        return True  # so many have asked before that there is no room for one more
    except OSError:
        return False
    return True


def _identity(place: Place) -> list[int] | str:
    """What tells a store from its copies, wherever it is moved."""
    if place.is_on_server:
        return place.folder.name
    file = (place.folder / FILE_NAME).stat()
    return [file.st_dev, file.st_ino]


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise OperatorError(f"the folder {folder} cannot be made: {error.strerror}") from None


def _socket_folder() -> Path:
    """A new folder of our own whose path leaves room for a socket's name."""
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
    if len(os.fsencode(folder / SOCKET)) <= SOCKET_PATH_BYTES_MAX:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir="/tmp"))


def _remove_remains(folder: Path) -> None:
    """A node that was killed has left its socket: whoever holds the store now removes it."""
    address = _socket_of(folder / ADDRESS_FILE)
    if address is None or address.name != SOCKET or not address.parent.name.startswith(FOLDER_PREFIX):
        return
    with contextlib.suppress(OSError):
        if not _answers(str(address)):
            address.unlink(missing_ok=True)
            address.parent.rmdir()


def _socket_of(address_file: Path) -> Path | None:
    """Where the node listens that a file is about."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return Path(json.loads(address_file.read_text())["socket"])
    return None


def as_json(message: StoredMessage) -> dict[str, Any]:
    """Return a message for a listing. Every field of it is there: see docs/reference/command-line.md."""
    timer = message.timer
    return {
        "id": str(message.seq),
        "queue": message.queue,
        "body": message.body,
        "properties": {name: value.text for name, value in message.properties.items()},
        "created": message.created.isoformat(),
        "rule": message.rule,
        "trigger": str(message.trigger) if message.trigger is not None else None,
        "origin": str(message.origin),
        "hops": message.hops,
        "processed": message.processed is not None,
        "visible": message.retired is None,
        "slices": [{"slicing": slicing, "key": key} for slicing, key in message.slices],
        "timer": None if timer is None else {"due": timer.due.isoformat(), "target": timer.target},
        "transient": message.transient,
        "undelivered": message.undelivered,
    }


def _read_all(receive: Callable[[], bytes]) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := receive():
        pieces.append(piece)
        size += len(piece)
        if size > REQUEST_BYTES_MAX:
            raise ValueError("the request is too large")
    return b"".join(pieces)
