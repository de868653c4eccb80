"""Replace personal data in messages by values that look alike.

The same value becomes the same mask everywhere, and two values never the same one, so that joins and keys still work.
Digits become digits, letters letters, and dates dates; so lengths and types stay.

    --mask //customer --mask //@email     <order customer="Smith" email="a.smith@example.org"/>
                                    ->    <order customer="Wqzne" email="k.wqzne@lhxvbot.cnd"/>
"""

from __future__ import annotations

import hashlib
import hmac
import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from lxml import etree

from demaq.documents import parse_document
from demaq.errors import OperatorError

if TYPE_CHECKING:
    from lxml.etree import _Element

TRIES_MAX = 1_000
"""So many masks are tried for a value before its mask is made longer than the value."""
_STEP = re.compile(r"(//?)(@?)(?:[\w.-]+:|\*:)?([^\W\d][\w.-]*|\*)")
_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})((?:T.*|Z|[+-]\d{2}:\d{2})?)", re.DOTALL)
_HEX = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_FIXED = ("true", "false", "")
"""What is not masked: there is nothing else that it could be."""


@dataclass(frozen=True, slots=True)
class MaskStep:
    """A step of a path, by local names."""

    is_deep: bool
    is_attribute: bool
    name: str


def parse_mask_path(text: str) -> tuple[MaskStep, ...]:
    """Return the steps of a path such as `//customer/@id`. Raises an OperatorError.

    Names are without namespaces: a prefix is allowed, and means nothing.
    """
    path = text if text.startswith("/") else f"//{text}"
    steps: list[MaskStep] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None or (steps and steps[-1].is_attribute):
            raise OperatorError(f"{text} is no path such as //customer, /order/name or //@email")
        steps.append(MaskStep(match[1] == "//", bool(match[2]), match[3]))
        position = match.end()
    return tuple(steps)


class ValueMasks:
    """Masks for values, each with one mask."""

    def __init__(self, secret: bytes) -> None:
        """With the same secret the same values get the same masks, in the same order."""
        self._secret = secret
        self._masks: dict[str, str] = {}
        self._taken: set[str] = set()
        self._found: set[tuple[MaskStep, ...]] = set()

    def list_unused(self, paths: Sequence[tuple[MaskStep, ...]]) -> list[str]:
        """Return those of the paths that have led to nothing in any document."""
        return [write_mask_path(path) for path in paths if path not in self._found]

    def find_values(self, text: str, paths: Sequence[tuple[MaskStep, ...]]) -> None:
        """Note the values that a document has at the paths: of attributes, and of all that is within elements."""
        root = parse_document(text).tree.getroot()
        for path in paths:
            for element, attribute in _select(root, path):
                self._found.add(path)
                if attribute is not None:
                    self._note(str(element.get(attribute)))
                else:
                    for each in element.iter():  # comments, too
                        for value in (each.text, *_attributes(each).values()):
                            self._note(str(value or "").strip())
                        for child in each:
                            self._note(str(child.tail or "").strip())

    def mask_value(self, value: str) -> str:
        """Return the mask of a value that was noted; any other value as it is."""
        stripped = value.strip()
        return value.replace(stripped, self._masks[stripped]) if stripped in self._masks else value

    def mask_document(self, text: str) -> str:
        """Return a document in which each value that was noted is masked, wherever it is."""
        if not self._masks:
            return text
        tree = parse_document(text).tree
        for each in tree.getroot().iter():
            each.text = self.mask_value(each.text) if each.text else each.text
            for name, value in _attributes(each).items():
                each.set(name, self.mask_value(str(value)))
            for child in each:
                child.tail = self.mask_value(child.tail) if child.tail else child.tail
        return etree.tostring(tree, encoding="unicode")

    def _note(self, value: str) -> None:
        if value in self._masks or value in _FIXED:
            return
        for attempt in range(TRIES_MAX):
            mask = _substitute(value, self._stream(value, attempt))
            if mask not in self._taken and mask != value:
                break
        else:
            mask = f"{value[:1]}{len(self._taken)}"
            while mask in self._taken:
                mask += "0"
        self._masks[value] = mask
        self._taken.add(mask)

    def _stream(self, value: str, attempt: int) -> Iterator[int]:
        """Yield pseudo-random bytes that depend on the value."""
        block = 0
        while True:
            message = f"{attempt}:{block}:{value}".encode("utf-8", "surrogatepass")
            yield from hmac.new(self._secret, message, hashlib.sha256).digest()
            block += 1


def write_mask_path(path: Sequence[MaskStep]) -> str:
    """Return a path as it is written."""
    return "".join([f"{'//' if step.is_deep else '/'}{'@' if step.is_attribute else ''}{step.name}" for step in path])


def _attributes(node: _Element) -> dict[str, str]:
    """Return the attributes of an element; comments and processing instructions have none."""
    return {str(name): str(value) for name, value in node.attrib.items()} if isinstance(node.tag, str) else {}


def _select(root: _Element, path: Sequence[MaskStep]) -> Iterator[tuple[_Element, str | None]]:
    """Yield the elements that a path leads to, or elements with the names of their attributes."""
    found: list[_Element | None] = [None]  # None is the document
    for step in path[:-1]:
        found = [child for element in found for child in _children(root, element, step)]
    last = path[-1]
    for element in found:
        if not last.is_attribute:
            for child in _children(root, element, last):
                yield child, None
            continue
        owners = [element] if element is not None else []
        if last.is_deep:
            owners = list((root if element is None else element).iter("*"))
        for owner in owners:
            for name in owner.attrib:
                if last.name in ("*", etree.QName(str(name)).localname):
                    yield owner, str(name)


def _children(root: _Element, element: _Element | None, step: MaskStep) -> list[_Element]:
    if element is None:
        candidates = list(root.iter("*")) if step.is_deep else [root]
    else:
        candidates = list(element.iterdescendants("*") if step.is_deep else element.iterchildren("*"))
    return [each for each in candidates if step.name in ("*", etree.QName(each).localname)]


def _substitute(value: str, stream: Iterator[int]) -> str:
    match = _DATE.fullmatch(value)
    if match is not None and (day := _parse_date(match[1])) is not None:
        days = next(stream) * 256 + next(stream)
        return f"{date(1940, 1, 1) + timedelta(days=days % 30_000 + day.toordinal() % 2)}{match[2]}"
    is_hex = _HEX.fullmatch(value) is not None
    return "".join([_substitute_character(c, next(stream), is_hex, n == 0) for n, c in enumerate(value)])


def _substitute_character(character: str, byte: int, is_hex: bool, is_first: bool) -> str:
    if is_hex and character in string.hexdigits:
        letters = "0123456789ABCDEF" if character.isupper() else "0123456789abcdef"
        return letters[byte % 16]
    if character.isdigit():
        if is_first and character != "0":
            return "123456789"[byte % 9]
        return "0123456789"[byte % 10]
    if character.isupper():
        return string.ascii_uppercase[byte % 26]
    return string.ascii_lowercase[byte % 26] if character.isalpha() else character


def _parse_date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
