"""Analyse one rule as written: its conditions, reads and writes. This is the plan that the rewrites start from."""

from __future__ import annotations

from demaq.compiler.context import CompilerContext
from demaq.compiler.plan import AnyQueue, CollectionRead, Read, RulePlan, SliceRead, WholeQueue, Write
from demaq.compiler.trees import has_no_else, split_conjuncts
from demaq.language import ast
from demaq.language.namespaces import FN, QS
from demaq.language.program.program import Rule

AS_WRITTEN = "no predicate compares it with a key that is known before the rule runs"
IN_FUNCTION = "it is read inside a declared function"


def analyse(rule: Rule, context: CompilerContext) -> RulePlan:
    """Return the rule's plan before any rewrite: every read of a queue is a scan."""
    sites: dict[ast.Node, Read] = {}
    reads: dict[Read, None] = {}
    properties: dict[str, None] = {}
    enqueues: dict[str, list[ast.Enqueue]] = {}
    resets: dict[str, None] = {}
    other_properties = False

    def note_action(action: ast.Enqueue | ast.Reset) -> None:
        if isinstance(action, ast.Enqueue):
            enqueues.setdefault(context.names.parts[action.queue], []).append(action)
        else:
            resets[rule.target if action.slicing is None else context.names.parts[action.slicing]] = None

    for node in ast.walk(rule.body):
        if isinstance(node, (ast.Enqueue, ast.Reset)):
            note_action(node)
        known = context.names.functions.get(node)
        if known is None:
            continue
        read = _classify_read(known[:2], context.literal_part(node), rule, AS_WRITTEN)
        if read is not None:
            sites[node] = read
            reads[read] = None
        elif known[:2] == (QS, "property"):
            properties[context.literal_part(node) or "*"] = None
            other_properties = other_properties or known[2] == 2
        for action in context.actions(known):
            note_action(action)
        for uri, local, literal in sorted(context.ambient_calls(known), key=str):
            inner = _classify_read((uri, local), literal, rule, IN_FUNCTION)
            if inner is not None:
                reads[inner] = None
            elif (uri, local) == (QS, "property"):
                properties[literal or "*"] = None
                other_properties = True
    return RulePlan(
        rule=rule,
        conditions=tuple(_conditions(rule.body)),
        first=(),
        requires=(),
        reads=tuple(reads),
        sites=sites,
        properties=tuple(properties),
        other_properties=other_properties,
        enqueues=tuple([_write(queue, actions, context) for queue, actions in enqueues.items()]),
        resets=tuple(resets),
    )


def _write(queue: str, actions: list[ast.Enqueue], context: CompilerContext) -> Write:
    given = [{context.names.parts[item.name]: item.value for item in action.properties} for action in actions]
    properties = tuple(dict.fromkeys([name for each in given for name in each]))
    targets = [each.get("target") for each in given]
    literal = [target.value.strip() for target in targets if isinstance(target, ast.StringLiteral)]
    return Write(
        queue=queue,
        properties=properties,
        always=tuple([name for name in properties if all([name in each for each in given])]),
        timer_targets=tuple(dict.fromkeys(literal)) if len(literal) == len(targets) else None,
    )


def _conditions(body: ast.Expr) -> list[ast.Expr]:
    """Return the conditions of all `if`s that enclose the rule's actions; the rule acts only if all of them hold."""
    found: list[ast.Expr] = []
    while isinstance(body, ast.If) and has_no_else(body):
        found.extend(split_conjuncts(body.condition))
        body = body.then
    return found


def _classify_read(function: tuple[str, str], literal: str | None, rule: Rule, reason: str) -> Read | None:
    if function == (QS, "slice"):
        return SliceRead(slicing=rule.target)
    if function == (FN, "collection"):
        return CollectionRead(collection=literal or None)
    if function != (QS, "queue"):
        return None
    if literal is None:
        return AnyQueue()
    if literal:
        return WholeQueue(queue=literal, reason=reason)
    return WholeQueue(queue=None if rule.on_slicing else rule.target, reason=reason)
