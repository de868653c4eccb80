"""A property has an atomic type, is defined once for each queue, and is computed from the message alone."""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language import ast
from demaq.language.analysis.components import find_strong_components
from demaq.language.diagnostics import Diagnostic, error
from demaq.language.function_library import ATOMIC_TYPES, TYPES
from demaq.language.namespaces import QS, XS
from demaq.language.program.bodies import DraftModule, Effect
from demaq.language.program.draft import Draft

_OnQueue = tuple[str, str]
"""A property and a queue it is defined on."""

_WHY = "a property is computed from its own message, when that is stored"


def property_types(draft: Draft) -> Iterator[Diagnostic]:
    for module, statement in draft.statements(ast.PropertyDecl):
        uri, local = module.names.types.get(statement.type, (None, ""))
        if uri == XS and local in TYPES and local not in ATOMIC_TYPES:
            yield error(
                "DQ0307",
                f"a property cannot be of type {statement.type}, which is not a single atomic type",
                statement.type.at,
                "such as xs:string, xs:integer, xs:dateTime, xs:boolean",
            )


def property_queues(draft: Draft) -> Iterator[Diagnostic]:
    for module, statement in draft.statements(ast.PropertyDecl):
        yield from _queues(module, statement)


def property_values(draft: Draft) -> Iterator[Diagnostic]:
    """Yield values that depend on more than the message and its other properties."""
    for body in draft.bodies:
        if body.role != "property":
            continue
        for call in body.calls:
            effect = call.effect
            declared = body.names.declared.get(call.key)
            if declared is not None:
                effect = draft.effects.get(declared, Effect.NONE) & Effect.STATE
            if effect & Effect.STATE:
                what = (
                    f"{call.key[1]}()" if declared is None else f"{declared.name}(), which reads queues or collections,"
                )
                yield error("DQ0309", f"{what} may not be used for the value of a property", call.node.at, _WHY)


def property_cycles(draft: Draft) -> Iterator[Diagnostic]:
    """Yield properties that are computed from each other on one queue."""
    onward: dict[_OnQueue, list[_OnQueue]] = {}
    reads: list[tuple[_OnQueue, _OnQueue, ast.StringLiteral]] = []
    for name in draft.properties:
        for queue in draft.queues_of(name) or ():
            onward[(name, queue)] = []
    for body in draft.bodies:
        reader = body.names.parts.get(body.decl.name) if body.role == "property" else None
        if reader is None:
            continue
        queues = [queue for queue, part in (draft.queues_of(reader) or {}).items() if part.value is body.expr]
        for call in body.calls_of(QS, "property"):
            read = body.names.parts.get(call.literal) if call.literal is not None else None
            if read is None or call.literal is None or call.key[2] != 1:
                continue
            reads += [((reader, queue), (read, queue), call.literal) for queue in queues if (read, queue) in onward]
    for source, target, _ in reads:
        onward[source].append(target)
    component = find_strong_components(onward)
    for source, target, literal in reads:
        if component[source] == component[target]:
            yield error(
                "DQ0415",
                f'property "{source[0]}" is computed from "{target[0]}", and that again from "{source[0]}"',
                literal.at,
                "compute one of them from the message itself",
            )


def _queues(module: DraftModule, statement: ast.PropertyDecl) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    for part in statement.parts:
        for queue in part.queues:
            name = module.part(queue)
            if name is not None and name in seen:
                yield error("DQ0410", f'property "{statement.name}" is defined twice on queue "{name}"', queue.at)
            elif name is not None:
                seen.add(name)
        if part.value is None and statement.variant == "fixed":
            yield error(
                "DQ0411",
                f'property "{statement.name}" is fixed, and nothing says how it is computed here',
                part.at,
                "add `value EXPRESSION`, or leave `fixed` out",
            )
