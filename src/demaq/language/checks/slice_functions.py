"""qs:slice(), qs:slicekey() and a bare `do reset` occur only in rules on slicings, which fire for a slice."""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language.diagnostics import Diagnostic, error
from demaq.language.program.bodies import Body, Effect
from demaq.language.program.draft import Draft

_PLACES = {
    "function": "inside a function, which any rule may call",
    "property": "in the value of a property",
    "variable": "in a global variable",
}
_HINTS = {
    "function": "pass the slice to the function as an argument",
    "property": "a property is computed from its own message",
    "variable": "bind the variable inside a rule with `let`",
}


def slice_functions(draft: Draft) -> Iterator[Diagnostic]:
    slicing_of: dict[str, str] = {}
    for slicing in draft.slicings:
        for queue in draft.slicing_queues(slicing) or ():
            slicing_of.setdefault(queue, slicing)
    for body in draft.bodies:
        if body.rule is not None and (body.rule.on_slicing or body.rule.target not in draft.queues):
            continue
        where, hint = _where(body, slicing_of)
        for call in body.calls:
            if call.effect & Effect.SLICE:
                yield error("DQ0308", f"qs:{call.key[1]}() has no slice to speak of {where}", call.node.at, hint)
        for reset in body.resets:
            if reset.slicing is None:
                yield error(
                    "DQ0308",
                    f"a bare `do reset` has no slice to speak of {where}",
                    reset.at,
                    "name the slice: do reset SLICING key EXPRESSION",
                )


def _where(body: Body, slicing_of: dict[str, str]) -> tuple[str, str]:
    if body.rule is None or body.rule.target is None:
        return _PLACES[body.role], _HINTS[body.role]
    where = f'in a rule on queue "{body.rule.target}"'
    slicing = slicing_of.get(body.rule.target)
    if slicing is None:
        return where, "create the rule for a slicing"
    return where, f"create rule {body.rule.decl.name} for {slicing} …"
