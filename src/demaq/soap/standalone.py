"""Cut an element out of its document, as text of a document of its own that means the same.

Namespace declarations of the ancestors come along where their prefix occurs in the element at all: it may be used in
the content (`xsi:type="t:order"`, a path in an attribute), where no parser can tell.
"""

from __future__ import annotations

from lxml import etree

from demaq.errors import MessageError
from demaq.soap.escaping import quoteattr

NAMESPACES_MAX = 200
"""More namespaces around an element are refused: the time that libxml2 takes to copy them grows with their square."""

DECLARATIONS_TIDIED_MAX = 16
"""Where more namespaces are in scope, all are kept: looking for each in a large message would cost too much."""

_NEAR_MISSES_MAX = 50
"""Parts of longer words that are looked at before a prefix is taken for used."""


def standalone(element: etree._Element) -> str:
    """Return the text of an element with the namespaces that are in scope and may be needed."""
    parent = element.getparent()
    inherited = parent.nsmap if parent is not None else {}
    if len(inherited) > NAMESPACES_MAX:
        raise MessageError("schemaViolation", f"more than {NAMESPACES_MAX} namespaces are declared around an element")
    text = etree.tostring(element, encoding="unicode", with_tail=False)  # with all namespaces in scope
    if len(inherited) > DECLARATIONS_TIDIED_MAX:
        return text
    for prefix, uri in inherited.items():
        if prefix is not None:
            without = text.replace(f" xmlns:{prefix}={quoteattr(uri)}", "", 1)
            if len(without) < len(text) and not _has_word(without, prefix):
                text = without
    return text


def _has_word(text: str, word: str) -> bool:
    at = -1
    for _ in range(_NEAR_MISSES_MAX):
        at = text.find(word, at + 1)
        if at < 0:
            return False
        before, after = text[at - 1 : at], text[at + len(word) : at + len(word) + 1]
        if not _continues_a_name(before) and not _continues_a_name(after):
            return True
    return True


def _continues_a_name(character: str) -> bool:
    return character.isalnum() or character == "_"
