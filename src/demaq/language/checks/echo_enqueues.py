"""A message enqueued into an echo queue has a timeout and a target."""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language.analysis.flow import find_timer_target
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
    for queue, enqueue, names in draft.enqueues():
        target = find_timer_target(enqueue, names) if draft.kind_of(queue) == "echo" else None
        kind = draft.kind_of(target.value.strip()) if target is not None else None
        if target is not None and kind in UNSUITABLE_TARGETS:
            why = UNSUITABLE_TARGETS[kind]
            yield error("DQ0505", f'"{target.value}" cannot be the target of a timer: it is {why}', target.at)


def timers_without_end(draft: Draft) -> Iterator[Diagnostic]:
    for queue, enqueue, names in draft.enqueues():
        if draft.kind_of(queue) != "echo":
            continue
        given = [names.parts.get(item.name) for item in enqueue.properties]
        missing = [name for name in ECHO_PROPERTIES if name not in given]
        if missing:
            yield warning(
                "DQ1504",
                f'"{queue}" is an echo queue and gets no {" and no ".join(missing)}: this always fails',
                enqueue.queue.at,
                'with timeout value 60 with target value "QUEUE"',
            )
