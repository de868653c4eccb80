"""Secrets: passwords and tokens, which are never logged or shown."""

from __future__ import annotations

import hmac
from typing import NoReturn

SHOWN = "***"


class Secret:
    """A text that does not show itself: not when printed, not in a log, not in an error message."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself, to be sent to the other side."""
        return self._text

    def __repr__(self) -> str:
        return SHOWN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(_bytes(self._text), _bytes(other._text))

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        # What can be pickled ends up in files and on other machines.
        raise TypeError("a secret stays in its process")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
