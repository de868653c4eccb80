"""Escape text for XML. The functions of the standard library import half of its web clients."""

from __future__ import annotations


def escape(text: str) -> str:
    """Return text escaped for element content."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")


def quoteattr(text: str) -> str:
    """Return text as a quoted attribute value, as lxml writes it."""
    escaped = escape(text).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;")
    return f'"{escaped}"'
