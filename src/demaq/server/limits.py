"""Whether the limits that a node is given are such that it can keep to them."""

from __future__ import annotations

from datetime import timedelta

from demaq.errors import OperatorError
from demaq.rounds.process import RULE_MEMORY_BYTES_MIN, RULE_TIMEOUT_SECONDS_MAX, RULE_TIMEOUT_SECONDS_MIN


def check_limits(seconds: float, memory: int | None, hops: int, keep: timedelta) -> None:
    """Raises an OperatorError where a limit is no number, or one that nothing could keep to."""
    if not RULE_TIMEOUT_SECONDS_MIN <= seconds <= RULE_TIMEOUT_SECONDS_MAX:  # nan is in no range
        least, most = f"{RULE_TIMEOUT_SECONDS_MIN:g}", f"{RULE_TIMEOUT_SECONDS_MAX:,g}"
        raise OperatorError(f"{seconds} is no time limit for rules: it is a number of seconds from {least} to {most}")
    if memory is not None and not memory >= RULE_MEMORY_BYTES_MIN:
        raise OperatorError(f"{memory} is no memory limit for rules: it is at least {RULE_MEMORY_BYTES_MIN:,} bytes")
    if hops < 1:
        raise OperatorError(f"{hops} is no limit of hops: it is at least 1")
    if keep < timedelta(0):
        raise OperatorError("messages cannot be kept for less than no time")
