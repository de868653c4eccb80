"""Answer other processes of the same user about a running node (`demaq.control.client`).

The socket lies in a folder that only its owner may enter.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import threading
import time
from pathlib import Path
from typing import Any

from demaq.control.client import ADDRESS_FILE, PIECE_BYTES, identity_of, is_listening, read_all
from demaq.control.message_json import decode_audit, decode_incoming, decode_message, encode_for_listing
from demaq.errors import MessageError, OperatorError, StoreError
from demaq.files import write_private_text
from demaq.server.node import Node
from demaq.socket_folder import make_socket_folder
from demaq.store.operator_records import AuditRecord

FOLDER_PREFIX = "demaq-node-"
SOCKET = "socket"
SOCKET_PATH_BYTES_MAX = 100
"""Somewhat less than any system allows."""
PAUSE_SECONDS = 0.1
"""After a request that the system has not let through."""


class ControlServer:
    """Answers requests about a node until it is closed."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._is_closed = False
        self._address_file = node.folder / ADDRESS_FILE
        _make_folder(node.folder)
        _remove_remains(node.folder)
        self._folder = make_socket_folder(FOLDER_PREFIX, SOCKET)
        path = str(self._folder / SOCKET)
        address = {"pid": os.getpid(), "socket": path, "store": identity_of(node.place)}
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
        self._is_closed = True
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
                if self._is_closed:
                    return
                time.sleep(PAUSE_SECONDS)  # too many open files
                continue
            try:
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
            except RuntimeError:  # too many threads
                connection.close()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, ValueError):
            request = json.loads(read_all(lambda: connection.recv(PIECE_BYTES)))
            try:
                answer: dict[str, Any] = {"answer": self._do(request)}
            except MessageError as error:
                answer = {"refused": {"kind": error.kind, "message": error.message, "code": error.code}}
            except StoreError as error:
                answer = {"failed": str(error)}
            except OperatorError as error:
                answer = {"impossible": str(error)}
            connection.sendall(json.dumps(answer).encode())

    def _do(self, request: dict[str, Any]) -> Any:
        match request["do"]:
            case "enqueue":
                body = base64.b64decode(request["body"])
                return self._node.enqueue(request["queue"], body, request["properties"], request["request"])
            case "append":
                messages = [decode_message(item) for item in request["messages"]]
                return self._node.append(messages, request["digest"], request["watch"])
            case "watch":
                return self._node.watch(request["watch"], request["messages"])
            case "watched":
                return self._node.read_watch(request["watch"])
            case "enqueue_all":
                sent = [decode_incoming(item) for item in request["messages"]]
                return self._node.enqueue_all(request["queue"], sent)
            case "take":
                return [encode_for_listing(message) for message in self._node.take(request["queue"], request["limit"])]
            case "load":
                documents = [base64.b64decode(document) for document in request["documents"]]
                return self._node.load_collection(request["name"], documents, _entry_of(request))
            case "gc":
                return self._node.collect_garbage()
            case "redeliver":
                return self._node.redeliver(request["messages"], _entry_of(request))
            case "pause" | "resume" as what:
                act = self._node.pause if what == "pause" else self._node.resume
                return act(request["kind"], request["name"], request["who"], request["why"])
            case "purge":
                return self._node.purge(request["messages"], decode_audit(request["entry"]))
            case "audit":
                return self._node.note_audit(decode_audit(request["entry"]))
            case "metrics":
                return self._node.read_metrics()
            case "status":
                return self._node.read_status()
        raise StoreError(f"the node does not know the request {request['do']}")


def _entry_of(request: dict[str, Any]) -> AuditRecord | None:
    entry = request.get("entry")
    return decode_audit(entry) if entry is not None else None


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise OperatorError(f"the folder {folder} cannot be made: {error.strerror}") from None


def _remove_remains(folder: Path) -> None:
    """Remove the socket that a killed node has left; only the holder of the store does so."""
    address = _socket_of(folder / ADDRESS_FILE)
    if address is None or address.name != SOCKET or not address.parent.name.startswith(FOLDER_PREFIX):
        return
    with contextlib.suppress(OSError):
        if not is_listening(str(address)):
            address.unlink(missing_ok=True)
            address.parent.rmdir()


def _socket_of(address_file: Path) -> Path | None:
    """Return where the node listens that a file is about."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return Path(json.loads(address_file.read_text())["socket"])
    return None
