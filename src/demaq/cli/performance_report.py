"""What of an application is evaluated natively, and why the rest is left to Saxon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from demaq.compiler.emit.python.reasons import Reason
from demaq.compiler.explain import properties_by_saxon, reasons_for_saxon
from demaq.compiler.plan import Plan
from demaq.language.diagnostics import Diagnostic


def describe_performance(plan: Plan) -> Iterator[str]:
    """Yield a paragraph for everything that is left to Saxon, and how many rules are native."""
    reasons = reasons_for_saxon(plan)
    for name, reason in reasons.items():
        yield f"\n{_render(f'rule {name} is left to Saxon because of {reason.text}', reason)}"
    for queue, reason in properties_by_saxon(plan).items():
        yield f"\n{_render(f'properties of queue {queue} are left to Saxon because of {reason.text}', reason)}"
    rules = [rule for rule in plan.rules.values() if rule.never is None]
    yield f"\n{len(rules) - len(reasons)} of {len(rules)} rules are native"


def performance_json(plan: Plan) -> dict[str, Any]:
    """Return the same as data for JSON."""
    reasons = reasons_for_saxon(plan)
    rules = [rule for rule in plan.rules.values() if rule.never is None]
    return {
        "native": len(rules) - len(reasons),
        "leftToSaxon": [{"rule": name, **reason.as_json()} for name, reason in reasons.items()],
        "propertiesLeftToSaxon": [
            {"queue": queue, **reason.as_json()} for queue, reason in properties_by_saxon(plan).items()
        ],
    }


def _render(message: str, reason: Reason) -> str:
    return Diagnostic(severity="note", code=reason.code, message=message, at=reason.at, hint=reason.hint).render()
