"""Text as XML has it. Python's own functions for this import half of its web clients."""

from __future__ import annotations


def escape(text: str) -> str:
    """Return text as it stands between tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")


def quoteattr(text: str) -> str:
    """Return text as an attribute has it, with its quotes. lxml writes the same."""
    escaped = escape(text).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;")
    return f'"{escaped}"'
