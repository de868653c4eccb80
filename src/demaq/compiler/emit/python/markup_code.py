"""Python expressions for text that is put together from constant and computed pieces."""

from __future__ import annotations


class MarkupCode:
    """Pieces of text, in order."""

    def __init__(self) -> None:
        self._pieces: list[tuple[bool, str]] = []
        self.is_empty = True
        """Whether the text is certainly empty."""
        self.is_filled = False
        """Whether the text is certainly not empty."""

    def add(self, text: str) -> None:
        """Add constant text."""
        if not text:
            return
        self.is_empty, self.is_filled = False, True
        if self._pieces and self._pieces[-1][0]:
            text = self._pieces.pop()[1] + text
        self._pieces.append((True, text))

    def add_code(self, code: str, is_filled: bool = False) -> None:
        """Add a Python expression for a string; `is_filled` says that it is never empty."""
        self.is_empty, self.is_filled = False, self.is_filled or is_filled
        self._pieces.append((False, code))

    def replace(self, code: str) -> None:
        """Replace all pieces by one expression for a text that is not empty."""
        self._pieces = [(False, code)]
        self.is_filled = True

    def extend(self, other: MarkupCode) -> None:
        for is_constant, piece in other._pieces:
            if is_constant:
                self.add(piece)
            else:
                self.add_code(piece)
        self.is_filled = self.is_filled or other.is_filled

    @property
    def text(self) -> str:
        """Return a Python expression for the whole text."""
        codes = [repr(piece) if is_constant else piece for is_constant, piece in self._pieces]
        if len(codes) <= 1:
            return codes[0] if codes else "''"
        return f"''.join(({', '.join(codes)}))"
