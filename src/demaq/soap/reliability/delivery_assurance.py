"""What a destination promises about messages of a sequence (2.4, Delivery Assurances)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Assurance(StrEnum):
    """How often a message is delivered."""

    EXACTLY_ONCE = "ExactlyOnce"
    AT_LEAST_ONCE = "AtLeastOnce"
    AT_MOST_ONCE = "AtMostOnce"


@dataclass(frozen=True, slots=True)
class DeliveryAssurance:
    """How often, and whether in the order of the message numbers."""

    times: Assurance = Assurance.EXACTLY_ONCE
    in_order: bool = True

    @property
    def waits_for_gaps(self) -> bool:
        """Return whether a message waits for those before it: not if they need not arrive at all."""
        return self.in_order and self.times != Assurance.AT_MOST_ONCE


EXACTLY_ONCE_IN_ORDER = DeliveryAssurance()
