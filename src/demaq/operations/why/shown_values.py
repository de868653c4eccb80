"""Values as people read them: nodes as markup, texts in quotes, long ones cut."""

from __future__ import annotations

from demaq.evaluation.saxon.rule_probe import ProbedItem, ProbedValue
from demaq.operations.why.verdicts import ShownValue

TEXT_MAX = 60
ITEMS_MAX = 3

_IN_QUOTES = frozenset({"untyped", "xs:string", "xs:anyURI", "element", "attribute", "document", "text", "node"})
_ESCAPES = str.maketrans({"\n": "\\n", "\t": "\\t", "\r": "\\r", "\xa0": "\\u00a0"})


def show_value(value: ProbedValue, as_text: bool) -> ShownValue:
    """Return a value for people. With `as_text` nodes are shown by their text, as a comparison takes them."""
    return ShownValue(count=value.count, items=tuple([show_item(item, as_text) for item in value.items]))


def show_item(item: ProbedItem, as_text: bool) -> str:
    if item.is_node and not as_text:
        return cut(" ".join(item.markup.split()))
    if item.kind == "function":
        return cut(item.markup)
    return f'"{cut(item.text.translate(_ESCAPES))}"' if item.kind in _IN_QUOTES else item.text


def write_value(value: ShownValue) -> str:
    """Return a value on one line."""
    if value.count == 0:
        return "()"
    if value.count == 1:
        return value.items[0]
    shown = [*value.items[:ITEMS_MAX], *(["…"] if value.count > ITEMS_MAX else [])]
    return f"({', '.join(shown)})"


def cut(text: str, length: int = TEXT_MAX) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def count_of(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
