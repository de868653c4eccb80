"""Describe a plan to its author: which rules are evaluated, what they read and how, what they write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from demaq.compiler.emit.python.queue_code import NativeEmitter, why_not_native
from demaq.compiler.emit.python.reasons import Reason
from demaq.compiler.plan import (
    AnyQueue,
    CollectionRead,
    Index,
    Plan,
    QueueByKey,
    QueuePlan,
    Read,
    Requirement,
    RulePlan,
    SliceRead,
    WholeQueue,
)
from demaq.language import ast
from demaq.language.printing.printer import print_expr

_LABEL_WIDTH = 15
_WITHOUT_RULES = {"outgoingGateway": "messages are sent", "echo": "messages come back in their target when it is time"}


Answers: TypeAlias = Mapping[str, Sequence[str]]
"""For each incoming gateway, the queues that answer its senders."""
Policies: TypeAlias = Mapping[str, Sequence[str]]
"""For each gateway with a policy, sentences about what it demands and sends."""


def explain(
    plan: Plan,
    rule: str | None = None,
    queue: str | None = None,
    answers: Answers | None = None,
    policies: Policies | None = None,
) -> str:
    """Return the plan of an application, of one rule, or of one queue, as text."""
    emitter = NativeEmitter(plan)
    if rule is not None:
        return "\n".join(_rule_lines(plan, plan.rules[rule], emitter))
    paragraphs: list[list[str]] = []
    policies = policies or {}
    for item in plan.queues.values():
        if (queue is None and (item.rules or item.queue in policies)) or item.queue == queue:
            paragraphs.append(_queue_lines(plan, item, answers or {}, policies, emitter))
    if queue is None:
        paragraphs += [_rule_lines(plan, item, emitter) for item in plan.rules.values()]
        if plan.indexes:
            paragraphs.append(["indexes", *[f"  {index.number}  {_index(index)}" for index in plan.indexes]])
    return "\n\n".join(["\n".join(lines) for lines in paragraphs])


def explain_json(
    plan: Plan,
    rule: str | None = None,
    queue: str | None = None,
    answers: Answers | None = None,
    policies: Policies | None = None,
) -> dict[str, Any]:
    """Return the same as data for JSON."""
    rules = [item for name, item in plan.rules.items() if rule is None or name == rule]
    queues = [item for name, item in plan.queues.items() if rule is None and (queue is None or name == queue)]
    emitter = NativeEmitter(plan)
    return {
        "queues": [_queue_json(item, answers or {}, policies or {}, emitter) for item in queues],
        "rules": [_rule_json(plan, item, emitter) for item in rules if queue is None],
        "indexes": [{"number": i.number, "queue": i.queue, "path": i.path} for i in plan.indexes],
    }


def reasons_for_saxon(plan: Plan) -> dict[str, Reason]:
    """Return the rules that are left to Saxon, each with the reason."""
    emitter = NativeEmitter(plan)
    found = {name: why_not_native(item, emitter) for name, item in plan.rules.items() if item.never is None}
    return {name: reason for name, reason in found.items() if reason is not None}


def properties_by_saxon(plan: Plan) -> dict[str, Reason]:
    """Return the queues whose properties or index entries are left to Saxon, each with the reason."""
    emitter = NativeEmitter(plan)
    found = {queue: emitter.emit_intake(queue) for queue in plan.queues}
    return {queue: reason for queue, reason in found.items() if isinstance(reason, Reason)}


# --- queues ----------------------------------------------------------------------------------------------------------


def _left_to_saxon(item: QueuePlan, emitter: NativeEmitter) -> list[str]:
    return [rule.rule.name for rule in item.rules if why_not_native(rule, emitter) is not None]


def _queue_lines(
    plan: Plan, item: QueuePlan, answers: Answers, policies: Policies, emitter: NativeEmitter
) -> list[str]:
    declared = plan.program.queues[item.queue]
    lines = [f"queue {item.queue} ({declared.declared_kind}, {declared.mode})"]
    if item.queue in answers:
        queues = answers[item.queue]
        lines.append(
            f"  senders wait for an answer from {' or '.join(queues)}"
            if queues
            else "  senders get 202 when their messages are stored: no queue answers"
        )
    answered = [gateway for gateway, queues in answers.items() if item.queue in queues]
    if answered:
        lines.append(f"  answers senders of {' and '.join(answered)}")
    lines += [f"  {sentence}" for sentence in policies.get(item.queue, ())]
    if not item.rules:
        return [*lines, f"  no rule: {_WITHOUT_RULES.get(declared.kind, 'messages stay until a client takes them')}"]
    lines.append("  each message is given to these rules, in this order")
    for position, rule in enumerate(item.rules):
        of_slicing = f"  for its slice of {rule.rule.target}" if rule.rule.on_slicing else ""
        lines.append(f"    {position + 1}. {rule.rule.name}{of_slicing}")
    if item.picks:
        asked = f", {len(item.always)} always" if item.always else ""
        lines.append(f"  a filter picks the rules to ask by {len(item.picks)} features{asked}")
    left = _left_to_saxon(item, emitter)
    if not left:
        lines.append("  all of them are native")
    elif len(left) == len(item.rules):
        lines.append("  all of them are left to Saxon")
    else:
        lines.append(f"  native but for {', '.join(left)}")
    return lines


def _queue_json(item: QueuePlan, answers: Answers, policies: Policies, emitter: NativeEmitter) -> dict[str, Any]:
    return {
        "queue": item.queue,
        **({"answeredFrom": list(answers[item.queue])} if item.queue in answers else {}),
        **({"policy": list(policies[item.queue])} if item.queue in policies else {}),
        "rules": [rule.rule.name for rule in item.rules],
        "always": [item.rules[position].rule.name for position in item.always],
        "picks": {
            str(feature): [item.rules[position].rule.name for position in positions]
            for feature, positions in item.picks.items()
        },
        "leftToSaxon": _left_to_saxon(item, emitter),
    }


# --- rules -----------------------------------------------------------------------------------------------------------


def _rule_lines(plan: Plan, item: RulePlan, emitter: NativeEmitter) -> list[str]:
    rule = item.rule
    kind = "slicing" if rule.on_slicing else "queue"
    lines = [f"rule {rule.name} for {kind} {rule.target}"]
    if item.never is not None:
        return [*lines, _label("never asked", item.never)]
    lines.append(_label("asked", _asked(item)))
    if item.first:
        lines.append(_label("decided first", " and ".join([_text(condition) for condition in item.first])))
    reads = [_read(read) for read in item.reads] or ["nothing but the message"]
    if item.properties:
        known = [name for name in item.properties if name != "*"]
        computed = ["properties whose names are computed"] if "*" in item.properties else []
        reads.append("its properties " + ", ".join(known + computed) if known else computed[0])
    lines += [_label("reads" if n == 0 else "", text) for n, text in enumerate(reads)]
    for number, write in enumerate(item.enqueues):
        properties = f" with {', '.join(write.properties)}" if write.properties else ""
        lines.append(_label("enqueues into" if number == 0 else "", write.queue + properties))
    lines += [_label("resets" if n == 0 else "", slicing) for n, slicing in enumerate(item.resets)]
    lines.append(_label("errors go to", _errors(plan, item)))
    reason = why_not_native(item, emitter)
    if reason is None:
        return [*lines, _label("evaluated", "natively")]
    place = f" ({reason.at})" if reason.at is not None else ""
    return [
        *lines,
        _label("evaluated", f"by Saxon, because of {reason.text}{place}"),
        _label("", f"{reason.code}: {reason.hint}"),
    ]


def _label(label: str, text: str) -> str:
    return f"  {label:<{_LABEL_WIDTH}}{text}"


def _asked(item: RulePlan) -> str:
    where = f"for every message in a slice of {item.rule.target}" if item.rule.on_slicing else "for every message"
    if not item.requires:
        return where
    return f"{where} with {' and '.join([_requirement(requirement) for requirement in item.requires])}"


def _requirement(requirement: Requirement) -> str:
    alternatives = " or ".join(sorted([str(feature) for feature in requirement]))
    return f"({alternatives})" if len(requirement) > 1 else alternatives


def _read(read: Read) -> str:
    match read:
        case SliceRead():
            return f"its slice of {read.slicing}, by key"
        case QueueByKey():
            if not read.lookups:
                return f"queue {read.queue}, but nothing of it is used"
            found = [f"{lookup.index.path} = {_key(lookup.key)}" for lookup in read.lookups]
            numbers = ", ".join([str(lookup.index.number) for lookup in read.lookups])
            counted = ", only counted" if read.is_counted else ""
            return f"queue {read.queue} by key: {' or '.join(found)} (index {numbers}){counted}"
        case WholeQueue():
            name = "the message's own queue" if read.queue is None else f"queue {read.queue}"
            return f"all of {name}: {read.reason}"
        case AnyQueue():
            return "all of a queue whose name is computed"
        case CollectionRead():
            return f"collection {read.collection}" if read.collection else "a collection whose name is computed"


def _errors(plan: Plan, item: RulePlan) -> str:
    """Return the queue that errors of a rule go to: that of the rule, of its queue, of its module, or the system's."""
    rule, program = item.rule, plan.program
    if rule.errorqueue:
        return rule.errorqueue
    queue = None if rule.on_slicing else program.queues[rule.target].errorqueue
    module = program.modules[rule.module].errorqueue
    if rule.on_slicing:
        return f"the message's queue's error queue, else {module or 'demaq:errors'}"
    return queue or module or "demaq:errors"


def _rule_json(plan: Plan, item: RulePlan, emitter: NativeEmitter) -> dict[str, Any]:
    at = item.rule.decl.at
    reason = None if item.never is not None else why_not_native(item, emitter)
    return {
        "rule": item.rule.name,
        "for": item.rule.target,
        "onSlicing": item.rule.on_slicing,
        "file": at.file,
        "line": at.line,
        "never": item.never,
        "native": item.never is None and reason is None,
        "leftToSaxon": None if reason is None else reason.as_json(),
        "requires": [sorted([str(feature) for feature in requirement]) for requirement in item.requires],
        "decidedFirst": [_text(condition) for condition in item.first],
        "reads": [_read_json(read) for read in item.reads],
        "properties": list(item.properties),
        "enqueues": [{"queue": write.queue, "properties": list(write.properties)} for write in item.enqueues],
        "resets": list(item.resets),
        "errors": _errors(plan, item),
    }


def _read_json(read: Read) -> dict[str, Any]:
    match read:
        case SliceRead():
            return {"access": "slice", "slicing": read.slicing}
        case QueueByKey():
            lookups = [{"index": lookup.index.number, "key": _text(lookup.key)} for lookup in read.lookups]
            return {"access": "key", "queue": read.queue, "lookups": lookups, "counted": read.is_counted}
        case WholeQueue():
            return {"access": "scan", "queue": read.queue, "reason": read.reason}
        case AnyQueue():
            return {"access": "scan", "queue": None, "reason": "its name is computed"}
        case CollectionRead():
            return {"access": "collection", "collection": read.collection}


def _index(index: Index) -> str:
    return f"{index.path} of queue {index.queue}"


def _key(key: ast.Expr) -> str:
    """Return a key as it is computed; a key that is only a variable is shown as the variable's expression."""
    if isinstance(key, ast.Flwor) and isinstance(key.result, ast.VarRef) and len(key.clauses) == 1:
        clause = key.clauses[0]
        if isinstance(clause, ast.LetClause):
            return _text(clause.bindings[0].expr)
    return _text(key)


def _text(expr: ast.Expr) -> str:
    return " ".join(print_expr(expr).split())
