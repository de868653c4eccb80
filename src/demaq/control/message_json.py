"""Messages as JSON: for requests to a running node, and for listings."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from demaq.engine.intake import IncomingMessage
from demaq.messages import PropertyValue
from demaq.store.operator_records import AuditRecord
from demaq.store.protocol import NewMessage, StoredMessage, Timer


def encode_message(message: NewMessage) -> dict[str, Any]:
    timer = message.timer
    return {
        "queue": message.queue,
        "body": message.body,
        "properties": _encode_values(message.properties),
        "created": message.created.isoformat(),
        "rule": message.rule,
        "trigger": message.trigger,
        "origin": message.origin,
        "hops": message.hops,
        "priority": message.priority,
        "slices": message.slices,
        "entries": message.entries,
        "timer": None if timer is None else [timer.due.isoformat(), timer.target],
        "transient": message.transient,
        "undelivered": message.undelivered,
        "request": message.request,
    }


def decode_message(data: dict[str, Any]) -> NewMessage:
    """Return a message. It has a rule and a trigger if it is a copy of a message that a rule created."""
    timer = data["timer"]
    return NewMessage(
        queue=data["queue"],
        body=data["body"],
        properties=_decode_values(data["properties"]),
        created=datetime.fromisoformat(data["created"]),
        rule=data["rule"],
        trigger=data["trigger"],
        origin=data["origin"],
        hops=data["hops"],
        priority=data["priority"],
        slices=tuple([(slicing, key) for slicing, key in data["slices"]]),
        entries=tuple([(index, value) for index, value in data["entries"]]),
        timer=None if timer is None else Timer(due=datetime.fromisoformat(timer[0]), target=timer[1]),
        transient=data["transient"],
        undelivered=data["undelivered"],
        request=data["request"],
    )


def encode_incoming(sent: IncomingMessage) -> dict[str, Any]:
    """Return an incoming message as JSON. The node parses its document from the body."""
    body = sent.body.encode("utf-8") if isinstance(sent.body, str) else sent.body
    return {
        "body": base64.b64encode(body).decode(),
        "properties": dict(sent.properties),
        "request": sent.request,
        "transport": _encode_values(sent.inherited),
        "hops": sent.hops,
    }


def decode_incoming(data: dict[str, Any]) -> IncomingMessage:
    return IncomingMessage(
        body=base64.b64decode(data["body"]),
        properties=data["properties"],
        request=data["request"],
        inherited=_decode_values(data["transport"]),
        hops=data["hops"],
    )


def encode_audit(entry: AuditRecord | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    return {
        "at": entry.at.isoformat(),
        "who": entry.who,
        "action": entry.action,
        "subject": entry.subject,
        "why": entry.why,
        "result": entry.result,
        "details": dict(entry.details),
        "number": entry.number,
    }


def decode_audit(data: dict[str, Any]) -> AuditRecord:
    return AuditRecord(**{**data, "at": datetime.fromisoformat(data["at"])})


def _encode_values(values: Mapping[str, PropertyValue]) -> dict[str, list[str]]:
    return {name: [value.type, value.text, value.key] for name, value in values.items()}


def _decode_values(data: Mapping[str, list[str]]) -> dict[str, PropertyValue]:
    return {name: PropertyValue(*parts) for name, parts in data.items()}


def encode_for_listing(message: StoredMessage) -> dict[str, Any]:
    """Return a message with all its fields for a listing: see docs/reference/command-line.md."""
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
        "unmatched": message.unmatched,
    }
