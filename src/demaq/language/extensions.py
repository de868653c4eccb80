"""Extensions that the language knows and this version does not implement.

A gateway that asks for one is not started: without it, messages would travel unprotected. `demaq check` warns of such a
gateway, `demaq run` repeats the warning and leaves the gateway out.
"""

from __future__ import annotations

from collections.abc import Iterable


def explain_not_started(extensions: Iterable[str]) -> str | None:
    """Return the reason why a gateway that asks for these extensions is not started, or None if it is."""
    asked = " and ".join(dict.fromkeys(extensions))
    return f"it asks for {asked}, which this version does not have, and is not run without" if asked else None
