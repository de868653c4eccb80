"""Warn of slices that are never reset and retain messages for ever, and of reads of messages that are not retained."""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language.analysis.flow import Flow
from demaq.language.diagnostics import Diagnostic, warning
from demaq.language.namespaces import QS
from demaq.language.program.bodies import Body, Call
from demaq.language.program.draft import Draft


def slicings_never_reset(draft: Draft) -> Iterator[Diagnostic]:
    reset: set[str | None] = set()
    for body in draft.bodies:
        for action in body.resets:
            if action.slicing is not None:
                reset.add(body.names.parts.get(action.slicing))
            elif body.rule is not None and body.rule.on_slicing:
                reset.add(body.rule.target)
    for name, declared in draft.slicings.items():
        if name not in reset and declared.at is not None and declared.decl is not None:
            yield warning(
                "DQ1402",
                f'nothing ever resets slicing "{name}", so its messages stay for ever',
                declared.at.at,
                f"create rule … for {name} if (…) then do reset",
            )


def queues_not_retained(draft: Draft) -> Iterator[Diagnostic]:
    """Yield reads of queues whose processed messages are in no slice, and so may be gone."""
    flow = Flow(draft)
    retained: set[str] = set()
    for slicing in draft.slicings:
        queues = draft.slicing_queues(slicing)
        if queues is None:
            return
        retained.update(queues)
    for body in draft.bodies:
        for call in body.calls_of(QS, "queue"):
            for queue in _queues_read(flow, body, call):
                kind = draft.kind_of(queue)
                goes = queue in flow.ruled or kind == "outgoingGateway"
                if kind is None or queue in retained or not goes:
                    continue
                until = "delivered" if kind == "outgoingGateway" else "processed"
                yield warning(
                    "DQ1403",
                    f'messages of "{queue}" are in no slice: once {until}, they are not seen here any more',
                    call.node.at,
                    f"create a slicing on a property of queue {queue}, to keep its messages until they are reset",
                )


def slicing_modes(draft: Draft) -> Iterator[Diagnostic]:
    for name, declared in draft.slicings.items():
        by_mode: dict[str | None, str] = {}
        for queue in draft.slicing_queues(name) or ():
            by_mode.setdefault(draft.mode_of(queue), queue)
        if "persistent" in by_mode and "transient" in by_mode and declared.at is not None:
            yield warning(
                "DQ1404",
                f'slices of "{name}" hold persistent messages (queue "{by_mode["persistent"]}") '
                f'and transient ones (queue "{by_mode["transient"]}")',
                declared.at.at,
                "after a crash the transient messages are missing from them",
            )


def _queues_read(flow: Flow, body: Body, call: Call) -> tuple[str, ...]:
    if call.literal is not None:
        name = body.names.parts.get(call.literal)
        return () if name is None else (name,)
    if call.args == () and body.rule is not None and not body.rule.on_slicing:
        return flow.sources(body.rule)
    return ()
