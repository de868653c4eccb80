"""Cut an element out of its document, as the text of an equivalent document.

Namespace declarations of the ancestors are kept if their prefix occurs in the element at all: it may be used in the
content (`xsi:type="t:order"`, a path in an attribute), which no parser can tell.
"""

from __future__ import annotations

from lxml import etree

from demaq.errors import MessageError
from demaq.xml_escaping import quoteattr

NAMESPACES_MAX = 200
"""The most namespaces around an element: the time of libxml2 to copy them is quadratic."""

DECLARATIONS_TIDIED_MAX = 16
"""With more namespaces in scope, all are kept: searching for each in a large message would cost too much."""

_NEAR_MISSES_MAX = 50
"""The most occurrences inside longer words that are examined before a prefix counts as used."""


def cut_out(element: etree._Element) -> str:
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
