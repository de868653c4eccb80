"""Functions of translated text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from demaq.compiler.emit.python.code import NotTranslatable
from demaq.evaluation.native.values import CALLED

CHARACTERS_MAX = 50_000
"""To compile a longer text would take longer than it is worth."""


def function(text: str, name: str) -> Callable[..., Any]:
    """The function of a text; its name is for whoever reads a profile. Raises NotSimple where Python gives up."""
    if len(text) > CHARACTERS_MAX:
        raise NotTranslatable("expressions that are too long")
    made: dict[str, Any] = {}
    try:
        exec(compile(text, f"<{name}>", "exec"), dict(CALLED), made)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise NotTranslatable("expressions that are nested too deeply") from error
    found: Callable[..., Any] = made["function"]
    return found
