"""How other processes of the same user speak to a running node: one request and one answer, as JSON, over a socket.

The socket lies in a folder that only its owner may enter; `node.json` in the store's folder says where.
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
from pathlib import Path
from typing import Any

from demaq.errors import MessageError, OperatorError, StoreError
from demaq.server.node import Node
from demaq.store.protocol import StoredMessage

ADDRESS_FILE = "node.json"
REQUEST_BYTES_MAX = 512 * 1024 * 1024
ANSWER_SECONDS_MAX = 300.0


class ControlServer:
    """Answers requests about a node until it is closed."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._folder = Path(tempfile.mkdtemp(prefix="demaq-node-"))
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self._folder / "socket"))
        self._socket.listen(64)
        self._address_file = node.folder / ADDRESS_FILE
        self._address_file.write_text(json.dumps({"pid": os.getpid(), "socket": str(self._folder / "socket")}))
        threading.Thread(target=self._serve, name="demaq-control", daemon=True).start()

    def close(self) -> None:
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
            request = json.loads(_read_all(connection))
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
            case "take":
                return [as_json(message) for message in self._node.take(request["queue"], request["limit"])]
            case "load":
                documents = [base64.b64decode(document) for document in request["documents"]]
                return self._node.load_collection(request["name"], documents)
            case "gc":
                return self._node.collect_garbage()
        raise StoreError(f"the node does not know the request {request['do']}")


class RemoteNode:
    """A running node, as a command of another process sees it."""

    def __init__(self, address: str) -> None:
        self._address = address

    def enqueue(self, queue: str, body: bytes, properties: dict[str, str], request: str | None) -> int:
        encoded = base64.b64encode(body).decode()
        return int(self._ask(do="enqueue", queue=queue, body=encoded, properties=properties, request=request))

    def take(self, queue: str, limit: int) -> list[dict[str, Any]]:
        return list(self._ask(do="take", queue=queue, limit=limit))

    def load_collection(self, name: str, documents: list[bytes]) -> int:
        return int(self._ask(do="load", name=name, documents=[base64.b64encode(d).decode() for d in documents]))

    def collect_garbage(self) -> int:
        return int(self._ask(do="gc"))

    def close(self) -> None:
        """Nothing is kept open."""

    def _ask(self, **request: Any) -> Any:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_SECONDS_MAX)
            connection.connect(self._address)
            connection.sendall(json.dumps(request).encode())
            connection.shutdown(socket.SHUT_WR)
            answer = json.loads(_read_all(connection) or b'{"failed": "the node ended before it answered"}')
        if "refused" in answer:
            raise MessageError(**answer["refused"])
        if "failed" in answer:
            raise StoreError(answer["failed"])
        return answer["answer"]


def running_node(folder: Path) -> RemoteNode | None:
    """The node that runs on a store, if one does."""
    try:
        address = json.loads((folder / ADDRESS_FILE).read_text())["socket"]
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address)
    except (OSError, ValueError, KeyError):
        return None
    return RemoteNode(address)


def as_json(message: StoredMessage) -> dict[str, Any]:
    """A message for a listing."""
    return {
        "id": str(message.seq),
        "queue": message.queue,
        "body": message.body,
        "properties": {name: value.text for name, value in message.properties.items()},
        "created": message.created.isoformat(),
        "rule": message.rule,
        "trigger": str(message.trigger) if message.trigger is not None else None,
        "origin": str(message.origin),
        "processed": message.processed is not None,
        "visible": message.retired is None,
        "slices": [{"slicing": slicing, "key": key} for slicing, key in message.slices],
    }


def _read_all(connection: socket.socket) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := connection.recv(1 << 20):
        pieces.append(piece)
        size += len(piece)
        if size > REQUEST_BYTES_MAX:
            raise ValueError("the request is too large")
    return b"".join(pieces)
