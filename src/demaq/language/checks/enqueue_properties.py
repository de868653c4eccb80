"""`with` sets only properties that can be set on messages of the queue, and each only once."""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language import ast
from demaq.language.diagnostics import Diagnostic, error
from demaq.language.program.draft import Draft
from demaq.language.resolving.names import Names
from demaq.system_properties import ADDRESSING_PROPERTIES, ECHO_PROPERTIES, GATEWAY_PROPERTIES, transport_properties


def enqueue_properties(draft: Draft) -> Iterator[Diagnostic]:
    for queue, enqueue, names in draft.enqueues():
        yield from _find_repeated(enqueue, names)
        for given in enqueue.properties:
            name = names.parts.get(given.name)
            if name is not None and queue is not None:
                yield from _check_settable(draft, queue, name, given.name)


def _find_repeated(enqueue: ast.Enqueue, names: Names) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    for given in enqueue.properties:
        name = names.parts.get(given.name)
        if name is not None and name in seen:
            yield error("DQ0408", f'property "{name}" is set twice on one message', given.name.at)
        elif name is not None:
            seen.add(name)


def _check_settable(draft: Draft, queue: str, name: str, at: ast.Name) -> Iterator[Diagnostic]:
    if name.startswith("demaq:") and name not in ADDRESSING_PROPERTIES:
        yield error("DQ0407", f'property "{name}" is set by the system alone', at.at)
        return
    kind = draft.kind_of(queue)
    if kind is None or name in transport_properties(kind):
        return
    declared = draft.properties.get(name)
    if declared is None:
        if name in GATEWAY_PROPERTIES or name in ECHO_PROPERTIES:
            meant = "gateways" if name in GATEWAY_PROPERTIES else "echo queues"
            own = f"create property {name} as … queue {queue}, if you mean a property of your own"
            yield error(
                "DQ0406",
                f'property "{name}" belongs to messages for {meant}, and "{queue}" is none',
                at.at,
                None if name in ADDRESSING_PROPERTIES else own,
            )
        return
    queues = draft.queues_of(name)
    if declared.decl is None or queues is None:
        return
    if queue not in queues:
        yield error(
            "DQ0406",
            f'property "{name}" is not defined on queue "{queue}"',
            at.at,
            f'add the queue where "{name}" is created: queue {queue}',
        )
    elif declared.decl.variant == "fixed":
        yield error(
            "DQ0405",
            f'property "{name}" is fixed: it is computed and cannot be set',
            at.at,
            f"leave `fixed` out where it is created, at {declared.decl.name.at}",
        )
