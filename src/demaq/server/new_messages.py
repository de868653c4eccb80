"""Messages that are to be stored, as JSON: how a command hands them over to a running node, with all that is known."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from demaq.messages import PropertyValue
from demaq.scheduler.receiving import Sent
from demaq.store.protocol import NewMessage, Timer


def to_json(message: NewMessage) -> dict[str, Any]:
    timer = message.timer
    return {
        "queue": message.queue,
        "body": message.body,
        "properties": _values_to_json(message.properties),
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


def from_json(data: dict[str, Any]) -> NewMessage:
    """A message from outside. Where it has a rule and a cause, it is a copy of one that rules have made."""
    timer = data["timer"]
    return NewMessage(
        queue=data["queue"],
        body=data["body"],
        properties=_values_from_json(data["properties"]),
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


def sent_to_json(sent: Sent) -> dict[str, Any]:
    """Return what a sender gives for a message. The node reads its document from the body."""
    body = sent.body.encode("utf-8") if isinstance(sent.body, str) else sent.body
    return {
        "body": base64.b64encode(body).decode(),
        "properties": dict(sent.properties),
        "request": sent.request,
        "transport": _values_to_json(sent.transport),
        "hops": sent.hops,
    }


def sent_from_json(data: dict[str, Any]) -> Sent:
    return Sent(
        body=base64.b64decode(data["body"]),
        properties=data["properties"],
        request=data["request"],
        transport=_values_from_json(data["transport"]),
        hops=data["hops"],
    )


def _values_to_json(values: Mapping[str, PropertyValue]) -> dict[str, list[str]]:
    return {name: [value.type, value.text, value.key] for name, value in values.items()}


def _values_from_json(data: Mapping[str, list[str]]) -> dict[str, PropertyValue]:
    return {name: PropertyValue(*parts) for name, parts in data.items()}
