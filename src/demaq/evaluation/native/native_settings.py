"""Whether rules are evaluated natively, and how often their results are checked."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from demaq.records import record

EvaluatorName: TypeAlias = Literal["auto", "saxon"]
"""`auto`: native rules if possible; `saxon`: everything by Saxon."""
EVALUATORS: tuple[EvaluatorName, ...] = get_args(EvaluatorName)

FIRST_CHECKS = 100
"""How many messages of each native rule are checked after a start."""
CHECK_EVERY = 1000
"""After these, one in so many."""


@record
class NativeSettings:
    is_native: bool = True
    check_every: int = CHECK_EVERY
    """0 turns all checks off, those of the first messages too."""


DEFAULT = NativeSettings()


def native_settings(evaluator: EvaluatorName, check_every: int = CHECK_EVERY) -> NativeSettings:
    """Raises a ValueError if there is no such evaluator."""
    if evaluator not in EVALUATORS:
        raise ValueError(f"evaluator {evaluator!r} is not known; there are {', '.join(map(repr, EVALUATORS))}")
    if check_every < 0:
        raise ValueError(f"answers are checked one in {check_every}; give a positive number, or 0 for none")
    return NativeSettings(is_native=evaluator == "auto", check_every=check_every)
