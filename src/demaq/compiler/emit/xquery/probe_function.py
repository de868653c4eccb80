"""Emit probes: expressions of a rule's author, evaluated by themselves in the context that the rule would give them.

All probes of a rule are one function that is called like the rule, on the same message and with the same state:

    /order/total          "V", "1", "true", "1", "element", "Q{}total", "90", "<total>90</total>"
    1 div 0               "X", "FOAR0001", "Integer division by zero"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from demaq.compiler.emit.xquery.blocks import Block, BlockEmitter
from demaq.compiler.emit.xquery.vocabulary import MESSAGE, NODE, RECORD, RUNTIME, STATE, fn, runtime, runtime_name
from demaq.compiler.plan import Read, RulePlan
from demaq.language import ast
from demaq.language.recursion import deep_recursion
from demaq.source import NOWHERE

ITEMS_SHOWN = 5
TEXT_SHOWN = 200
"""How many characters of the text of an item are shown."""

_ERROR = "$Q{http://www.w3.org/2005/xqt-errors}"


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """An expression, and how many items of its value are wanted."""

    expr: ast.Expr
    items: int = ITEMS_SHOWN


def emit_probes(
    emitter: BlockEmitter, plan: RulePlan, reads: Mapping[ast.Node, Read], probes: Sequence[Probe]
) -> Block:
    """Return a block of one function that evaluates the probes. `reads` are those that find messages by keys, if any.

    The message is a document by itself, and the same one in its slice and its queue if the rule reads these.
    """
    context = emitter.plan.modules[plan.rule.module]
    lowering = emitter.lowering(context, rule=plan.rule, reads=reads)
    message = f"{STATE}?message" if plan.reads_other_messages else f"{runtime('document')}({NODE})"
    parts: list[str | ast.Expr] = [
        f"function({RECORD}, {NODE}, {STATE}) {{ let {MESSAGE} := {message} return {MESSAGE} ! ("
    ]
    with deep_recursion():
        for number, probe in enumerate(probes):
            described = f"), {probe.items}, {TEXT_SHOWN}) }}?*) }} catch * {{ "
            parts.append(f"{', ' if number else ''}try {{ (array {{ {runtime_name('described')}((")
            parts += [lowering.lower_expr(probe.expr), described]
            parts.append(f"{runtime_name('failed')}({_ERROR}code, {_ERROR}description) }}")
    function = ast.Template(NOWHERE, (*parts, ") }"))
    entry = ("probes", str(plan.rule.number))
    return emitter.block_of(plan.rule.module, [(entry, plan.rule.decl.at, function)], "probe.xq")


def truth_of(condition: ast.Expr) -> ast.Expr:
    """Return an expression for whether a condition holds: "1" or "0", or "E" if it fails."""
    need = f"catch Q{{{RUNTIME}}}* {{ {fn('error')}({_ERROR}code, {_ERROR}description) }}"
    end = f') then "1" else "0" }} {need} catch * {{ "E" }})'
    return ast.Template(NOWHERE, ("(try { if (", condition, end))
