"""Messages that are to be stored, as JSON: how a command hands them over to a running node."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from demaq.messages import PropertyValue
from demaq.store.protocol import NewMessage, Timer


def to_json(message: NewMessage) -> dict[str, Any]:
    timer = message.timer
    return {
        "queue": message.queue,
        "body": message.body,
        "properties": {name: [value.type, value.text, value.key] for name, value in message.properties.items()},
        "created": message.created.isoformat(),
        "rule": message.rule,
        "trigger": message.trigger,
        "origin": message.origin,
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
        properties={name: PropertyValue(*parts) for name, parts in data["properties"].items()},
        created=datetime.fromisoformat(data["created"]),
        rule=data["rule"],
        trigger=data["trigger"],
        origin=data["origin"],
        priority=data["priority"],
        slices=tuple([(slicing, key) for slicing, key in data["slices"]]),
        entries=tuple([(index, value) for index, value in data["entries"]]),
        timer=None if timer is None else Timer(due=datetime.fromisoformat(timer[0]), target=timer[1]),
        transient=data["transient"],
        undelivered=data["undelivered"],
        request=data["request"],
    )
