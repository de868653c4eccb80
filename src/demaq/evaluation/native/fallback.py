"""What native rules raise to leave a message to Saxon."""

from __future__ import annotations


class NeedsSaxon(Exception):
    """Raised for what native rules leave to Saxon: errors, and values for which its answer is not certain."""


class InvalidValue(NeedsSaxon):
    """Raised for a value that certainly cannot be cast to a type."""
