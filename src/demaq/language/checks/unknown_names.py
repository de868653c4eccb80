"""Every queue, slicing, property and collection that is named is defined somewhere in the application."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from demaq.language import ast
from demaq.language.analysis.flow import find_timer_target
from demaq.language.diagnostics import Diagnostic, error
from demaq.language.namespaces import FN, QS
from demaq.language.program.bodies import DraftModule
from demaq.language.program.draft import Draft
from demaq.system_properties import ECHO_PROPERTIES, GATEWAY_PROPERTIES, HEADER, SYSTEM_PROPERTIES, is_system_property


def unknown_queues(draft: Draft) -> Iterator[Diagnostic]:
    for module in draft.modules:
        for name in _queues_in_statements(module):
            yield from _queue(draft, module.part(name), name)
    for queue, enqueue, names in draft.enqueues():
        yield from _queue(draft, queue, enqueue.queue)
        target = find_timer_target(enqueue, names) if draft.kind_of(queue) == "echo" else None
        if target is not None:
            yield from _queue(draft, target.value.strip(), target)
    for body in draft.bodies:
        for call in body.calls_of(QS, "queue"):
            if call.literal is not None:
                yield from _queue(draft, body.names.parts.get(call.literal), call.literal)


def unknown_rule_targets(draft: Draft) -> Iterator[Diagnostic]:
    for rule in draft.rules:
        target = rule.target
        if target is None or target in draft.queues or target in draft.slicings:
            continue
        known = chain(draft.queues, draft.slicings)
        yield error(
            "DQ0204",
            f'"{target}" is neither a queue nor a slicing',
            rule.decl.target.at,
            draft.suggestions.did_you_mean(target, known, '"{}"') or f"create queue {rule.decl.target}",
        )


def unknown_slicings(draft: Draft) -> Iterator[Diagnostic]:
    for body in draft.bodies:
        for reset in body.resets:
            name = body.names.parts.get(reset.slicing) if reset.slicing is not None else None
            if name is None or reset.slicing is None or name in draft.slicings:
                continue
            hint = draft.suggestions.did_you_mean(name, draft.slicings, '"{}"')
            if name in draft.queues:
                hint = "slices are reset, and queues are not: messages go when no slice holds them any more"
            yield error("DQ0205", f'slicing "{name}" is not defined', reset.slicing.at, hint)


def unknown_properties(draft: Draft) -> Iterator[Diagnostic]:
    for module, slicing in draft.statements(ast.SlicingDecl):
        yield from _property(draft, module.part(slicing.property), slicing.property, ())
    readable = (*GATEWAY_PROPERTIES, *ECHO_PROPERTIES)
    for body in draft.bodies:
        for call in body.calls_of(QS, "property"):
            if call.literal is not None:
                yield from _property(draft, body.names.parts.get(call.literal), call.literal, readable)
    for _, enqueue, names in draft.enqueues():
        for given in enqueue.properties:
            yield from _property(draft, names.parts.get(given.name), given.name, readable)


def unknown_collections(draft: Draft) -> Iterator[Diagnostic]:
    """Yield undeclared collections, if any is declared; without declarations, all names are allowed."""
    if not draft.collections:
        return
    for body in draft.bodies:
        for call in body.calls_of(FN, "collection"):
            name = body.names.parts.get(call.literal) if call.literal is not None else None
            if name is None or call.literal is None or name in draft.collections:
                continue
            hint = draft.suggestions.did_you_mean(name, draft.collections, '"{}"')
            yield error(
                "DQ0207", f'collection "{name}" is not defined', call.literal.at, hint or f"create collection {name}"
            )


def _queues_in_statements(module: DraftModule) -> Iterator[ast.Name]:
    yield from module.error_queues()
    yield from module.reply_queues()
    for statement in module.tree.statements:
        if isinstance(statement, ast.PropertyDecl):
            for part in statement.parts:
                yield from part.queues


def _queue(draft: Draft, name: str | None, at: ast.Node) -> Iterator[Diagnostic]:
    if name is None or name in draft.queues:
        return
    hint = draft.suggestions.did_you_mean(name, draft.queues, '"{}"')
    if name in draft.slicings:
        hint = f'"{name}" is a slicing; messages are put into queues'
    yield error("DQ0203", f'queue "{name}" is not defined', at.at, hint or f"create queue {name}")


def _property(draft: Draft, name: str | None, at: ast.Node, also: Iterable[str]) -> Iterator[Diagnostic]:
    if name is None or name in draft.properties or is_system_property(name) or name in also:
        return
    known = chain(draft.properties, SYSTEM_PROPERTIES, also)
    hint = draft.suggestions.did_you_mean(name, known, '"{}"')
    if name.startswith(HEADER[:-1]):
        hint = f"headers are called {HEADER}NAME"
    yield error("DQ0206", f'property "{name}" is not defined', at.at, hint)
