"""Explain in a test why nothing came into a queue: rules that would have put something there, and did not fire."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from demaq.compiler.plan import RulePlan
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.operations.why.shown_values import cut
from demaq.operations.why.verdict_text import INDENT, write_short
from demaq.operations.why.verdicts import RuleResult
from demaq.operations.why.why_message import why_message
from demaq.store.protocol import Store, StoredMessage

RULES_SHOWN = 5
_CLOSENESS: tuple[RuleResult, ...] = ("fired", "not-fired", "not-asked")
LOOKED_BACK = 200
"""So many of the messages that were processed last are looked at for one that a rule pertains to."""


def explain_idle_rules(
    store: Store,
    evaluator: SaxonEvaluator,
    processed: Sequence[int],
    queues: Collection[str] | None,
    now: datetime,
) -> list[str]:
    """Return why rules that enqueue into these queues, or any, did not act on the last message they were given.

    `processed` are the messages that were processed, in order. A rule that acted on that message is left out.
    """
    found: list[tuple[int, list[str]]] = []
    for plan in evaluator.compiled.plan.rules.values():
        if queues is None or any([write.queue in queues for write in plan.enqueues]):
            found += _explain(store, evaluator, processed, plan, now)
    found.sort(key=lambda each: each[0])
    lines = [line for _, each in found[:RULES_SHOWN] for line in each]
    return [*lines, "… and further rules"] if len(found) > RULES_SHOWN else lines


def _explain(
    store: Store, evaluator: SaxonEvaluator, processed: Sequence[int], plan: RulePlan, now: datetime
) -> list[tuple[int, list[str]]]:
    """Return how close a rule came to acting, closest first, and why it did not; nothing if it did."""
    message, some_are_gone = _last_given(store, evaluator, processed, plan)
    if message is None:
        left = "no message that is still there" if some_are_gone else "no message"
        return [(len(_CLOSENESS), [f"rule {plan.rule.name} was given {left}"])]
    verdict = why_message(store, evaluator, message.seq, now, plan.rule.name).rules[0]
    if verdict.result not in _CLOSENESS or verdict.made:
        return []
    body = cut(" ".join(message.body.split()))
    head, *details = write_short(verdict, "processed")
    lines = [head, f"{INDENT}for message {message.seq} of queue {message.queue}: {body}", *details]
    return [(_CLOSENESS.index(verdict.result), lines)]


def _last_given(
    store: Store, evaluator: SaxonEvaluator, processed: Sequence[int], plan: RulePlan
) -> tuple[StoredMessage | None, bool]:
    """Return the last message that a rule was given and that is still there, and whether later ones are not."""
    queues = evaluator.compiled.plan.queues
    some_are_gone = False
    for seq in reversed(processed[-LOOKED_BACK:]):
        message = store.message(seq)
        if message is None:
            some_are_gone = True
        elif message.queue in queues and plan in queues[message.queue].rules:
            return message, some_are_gone
    return None, some_are_gone
