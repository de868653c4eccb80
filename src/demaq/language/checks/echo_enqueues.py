"""A message enqueued into an echo queue has a timeout and a target."""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language import ast
from demaq.language.diagnostics import Diagnostic, error, warning
from demaq.language.program.draft import Draft
from demaq.system_properties import ECHO_PROPERTIES, UNSUITABLE_TARGETS


def rules_for_echo_queues(draft: Draft) -> Iterator[Diagnostic]:
    for rule in draft.rules:
        if rule.target is None:
            continue
        queues = draft.slicing_queues(rule.target) if rule.on_slicing else (rule.target,)
        if queues and all([draft.kind_of(queue) == "echo" for queue in queues]):
            what = f'all messages of "{rule.target}" are in echo queues' if rule.on_slicing else "it is an echo queue"
            yield error(
                "DQ0507",
                f'a rule for "{rule.target}" is never asked: {what}',
                rule.decl.target.at,
                "create it for the queue that the messages come back to, their target",
            )


def timer_targets(draft: Draft) -> Iterator[Diagnostic]:
    """Yield invalid literal targets. A target that does not exist is reported as an unknown name."""
    for body in draft.bodies:
        for enqueue in body.enqueues:
            if draft.kind_of(body.names.parts.get(enqueue.queue)) != "echo":
                continue
            for given in enqueue.properties:
                if body.names.parts.get(given.name) == "target" and isinstance(given.value, ast.StringLiteral):
                    yield from _target(draft, given.value)


def _target(draft: Draft, literal: ast.StringLiteral) -> Iterator[Diagnostic]:
    kind = draft.kind_of(literal.value.strip())
    if kind in UNSUITABLE_TARGETS:
        why = UNSUITABLE_TARGETS[kind]
        yield error("DQ0505", f'"{literal.value}" cannot be the target of a timer: it is {why}', literal.at)


def timers_without_end(draft: Draft) -> Iterator[Diagnostic]:
    for body in draft.bodies:
        for enqueue in body.enqueues:
            queue = body.names.parts.get(enqueue.queue)
            if draft.kind_of(queue) != "echo":
                continue
            given = [body.names.parts.get(item.name) for item in enqueue.properties]
            missing = [name for name in ECHO_PROPERTIES if name not in given]
            if missing:
                yield warning(
                    "DQ1504",
                    f'"{queue}" is an echo queue and gets no {" and no ".join(missing)}: this always fails',
                    enqueue.queue.at,
                    'with timeout value 60 with target value "QUEUE"',
                )
