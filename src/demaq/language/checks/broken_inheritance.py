"""Warn if an inherited property is lost because a message passes a queue without it.

order (has it) -> check (lacks it) -> shipping (has it, but does not get the value)
"""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language import ast
from demaq.language.analysis.flow import Edge, Flow
from demaq.language.diagnostics import Diagnostic, warning
from demaq.language.program.draft import Draft


def broken_inheritance(draft: Draft) -> Iterator[Diagnostic]:
    inherited = [
        (name, queues)
        for name, declared in draft.properties.items()
        if declared.decl is not None
        and declared.decl.variant == "inherited"
        and (queues := draft.queues_of(name)) is not None
        and len(queues) > 1
    ]
    if not inherited:
        return
    edges = list(Flow(draft).edges())
    into: dict[str, list[Edge]] = {}
    for edge in edges:
        into.setdefault(edge.target, []).append(edge)
    for name, queues in inherited:
        yield from _breaks(draft, name, queues, into)


def _breaks(
    draft: Draft, name: str, queues: dict[str, ast.PropertyQueues], into: dict[str, list[Edge]]
) -> Iterator[Diagnostic]:
    """Walk back from the queues that inherit the value, over queues that lack the property."""
    waits: dict[str, str] = {}
    waiting: list[str] = []
    for queue, part in queues.items():
        if part.value is not None and not _is_constant(part.value):
            continue  # computed from the message if it is not inherited
        for edge in into.get(queue, ()):
            if edge.source not in queues and edge.source not in waits and not _sets(edge, name):
                waits[edge.source] = queue
                waiting.append(edge.source)
    while waiting:
        lacking = waiting.pop()
        for edge in into.get(lacking, ()):
            if edge.source in queues:
                yield warning(
                    "DQ1302",
                    f'the inherited property "{name}" is lost in queue "{lacking}" on its way to "{waits[lacking]}"',
                    edge.enqueue.queue.at,
                    f'define it there too: queue {lacking}, where "{name}" is created',
                )
            elif edge.source not in waits:
                waits[edge.source] = waits[lacking]
                waiting.append(edge.source)


def _is_constant(value: ast.Expr) -> bool:
    if isinstance(value, ast.FunctionCall):
        return not value.args
    return isinstance(value, (ast.StringLiteral, ast.NumericLiteral)) or value.at.text in ("true", "false")


def _sets(edge: Edge, name: str) -> bool:
    return name in [edge.names.parts.get(given.name) for given in edge.enqueue.properties]
