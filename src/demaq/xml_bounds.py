"""How much a document from outside may hold: checked in its text before it is parsed, so that too much costs little.

Each bound is on a kind of document that takes libraries far longer, or far more memory, than its size lets expect
(decision 0023 has the measurements). Small documents cannot exceed any: counting two characters tells, and only where
there are many of them is looked closer, in pieces, so that other threads go on. The closer look takes what stands in a
text like markup for markup, rather than parse first; it takes a lot of that to make a difference.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from lxml import etree

from demaq.errors import MessageError

if TYPE_CHECKING:
    from lxml.etree import _Element

DEPTH_MAX = 256
"""How deeply elements may be nested: as deep as libxml2 goes by default."""

NODES_MAX = 1_500_000
"""How many elements, attributes, comments and processing instructions a document may have. A tree of so many takes from
200 to 600 MB in libxml2, and as much in Saxon."""

ATTRIBUTES_MAX = 256
"""How many attributes an element may have. What Saxon does with names made to collide grows with their square."""

NAMES_MAX = 4_000
"""How many different names of elements and attributes. Saxon remembers them all, in tables that can be made slow."""

NAME_CHARACTERS_MAX = 1_000

NAMESPACES_MAX = 256
"""How many different pairs of a prefix and a namespace. To tell them apart takes Saxon the square of their number."""

NAMESPACES_IN_SCOPE_MAX = 1_000
"""How many declarations may be in scope at one place, which can be one inside the other."""

TEXT_BYTES_MAX = 10_000_000
"""How long one text or value of an attribute may be: as libxml2 has it."""

ELEMENT_BYTES, TEXT_BYTES, ATTRIBUTE_BYTES = 130, 130, 240
"""What one takes in a tree of libxml2; an attribute has a text inside."""

NAMESPACE = re.compile(r"(?<=\s)xmlns(:[^\s=]*+)?+\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)')")
"""A declaration: its prefix, and the namespace between quotes of either kind. A text is read once, however often
it looks like the beginning of one."""
_ELEMENT_NAME = re.compile(r"<([^\s<>/!?]+)")
_ATTRIBUTE_NAME = re.compile(r"\s([^\s<>=\"'/]+)\s*=\s*[\"']")
_LONG_ELEMENT_NAME = re.compile(rf"<[^\s<>/!?]{{{NAME_CHARACTERS_MAX + 1}}}")
_LONG_ATTRIBUTE_NAME = re.compile(rf"\s[^\s<>=\"'/]{{{NAME_CHARACTERS_MAX + 1},}}+\s*=\s*[\"']")
_WHOLE_ELEMENT_NAME = re.compile(r"<[^\s<>/!?]+[\s>/]")
_WHOLE_ATTRIBUTE_NAME = re.compile(r"\s[^\s<>=\"'/]+=[\"']")
"""A name with what is around it: wherever these very characters stand, they are that name and no other."""
_ASSIGNED = re.compile(r"=\s*+[\"']")
_SECTIONS = (("<!--", "-->"), ("<![CDATA[", "]]>"))
_MANY_ATTRIBUTES = f"boolean(//*[@*[{ATTRIBUTES_MAX + 1}]])"
ATTRIBUTE_CHARACTERS = 5
DECLARATION_CHARACTERS = 9
"""An attribute, or the declaration of a namespace, has at least so many characters, with the space before it."""
SECTIONS_MAX = 100_000
"""Where there are more comments and CDATA sections, what stands in them counts as elements."""
_ENDS_NAME = " \t\n<>/"
"""Of these one comes after every name, and before it."""
_END_OF_NAME = re.compile(f"[{_ENDS_NAME}]")
PIECE_CHARACTERS = 100_000
"""So much is looked through at once, while no other thread runs."""
SAMPLE_CHARACTERS = 2_000
"""Names that are frequent in so much from the middle of a document are expected to be so in all of it."""
FREQUENT_NAMES_MAX = 8
"""To count so many names takes less time than to look at all."""


class Marks(NamedTuple):
    """How many characters of markup a document has. In its bytes there are as many, if they are UTF-8."""

    tags: int
    """`<`, with those of end tags."""
    ends: int
    """`</`"""
    assigned: int
    """`=`"""

    @property
    def nodes(self) -> int:
        """At least as many as there are elements and attributes; of names there are no more."""
        return self.tags - self.ends + self.assigned


def count_marks(body: bytes | str) -> Marks:
    if isinstance(body, str):
        return Marks(body.count("<"), body.count("</"), body.count("="))
    return Marks(body.count(b"<"), body.count(b"</"), body.count(b"="))


def check_text(text: str, marks: Marks | None = None) -> None:
    """Raise a MessageError of kind notWellFormed if a document holds more than it may. `check_tree` sees the rest.

    `marks` are those of the document, if they were counted already.
    """
    nodes = 0
    if len(text) > NAMES_MAX:
        nodes = (marks or count_marks(text)).nodes
    if nodes > NODES_MAX and _count_nodes(text) > NODES_MAX:
        raise _make_error(f"it has more than {NODES_MAX:,} elements and attributes")
    if _may_have_long_name(text):
        _check_long_names(text)
    if nodes > NAMES_MAX and not _are_names_frequent(text, nodes):
        _check_name_count(text)


def check_declarations(text: str) -> bool:
    """Raise a MessageError of kind notWellFormed if a document declares more namespaces than it may.

    Return whether it may declare many.
    """
    if len(text) <= NAMESPACES_MAX * DECLARATION_CHARACTERS or text.count("xmlns") <= NAMESPACES_MAX:
        return False
    found: set[tuple[str, ...]] = set()
    for start, end in _pieces(text):
        found.update(NAMESPACE.findall(text, start, end))
        if len(found) > NAMESPACES_MAX:
            raise _make_error(f"it declares more than {NAMESPACES_MAX:,} different namespaces or prefixes")
    return True


def check_tree(text: str, root: _Element, may_declare_many: bool = True) -> None:
    """Raise a MessageError of kind notWellFormed for what a tree alone shows.

    `may_declare_many` is whether it may declare many namespaces, as `check_declarations` has found.
    """
    if len(text) <= ATTRIBUTES_MAX * ATTRIBUTE_CHARACTERS:  # most documents
        return
    if _may_have_many_attributes(text) and root.xpath(_MANY_ATTRIBUTES):
        raise _make_error(f"an element has more than {ATTRIBUTES_MAX:,} attributes")
    if may_declare_many and text.count("xmlns") > NAMESPACES_IN_SCOPE_MAX:
        _check_namespaces_in_scope(root)


def tree_bytes(marks: Marks) -> int:
    """Return how much memory the tree of a document takes at most, by what is counted in its text or bytes."""
    elements = marks.tags - marks.ends
    return marks.tags * TEXT_BYTES + elements * ELEMENT_BYTES + marks.assigned * ATTRIBUTE_BYTES


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    for start in range(0, len(text), PIECE_CHARACTERS):
        yield start, min(start + PIECE_CHARACTERS, len(text))


def _count_nodes(text: str) -> int:
    if 0 < text.count("<!") <= SECTIONS_MAX:
        text = _without_sections(text)
    attributes = sum([len(_ASSIGNED.findall(text, start, end)) for start, end in _pieces(text)])
    return text.count("<") - text.count("</") + attributes


def _without_sections(text: str) -> str:
    """Return a text with nothing in its comments and CDATA sections."""
    kept: list[str] = []
    at = 0
    while (begins := text.find("<!", at)) >= 0:
        close = next((close for opening, close in _SECTIONS if text.startswith(opening, begins)), None)
        end = -1 if close is None else text.find(close, begins + 4)
        if end < 0:
            break  # what is not closed is not well-formed either
        kept.append(text[at : begins + 2])
        at = end
    return "".join([*kept, text[at:]])


def _may_have_long_name(text: str) -> bool:
    """Return whether so many characters follow each other without one that ends a name.

    There is a multiple of NAME_CHARACTERS_MAX in such a run, so it is enough to look around these: most texts are not
    searched.
    """
    for at in range(NAME_CHARACTERS_MAX, len(text), NAME_CHARACTERS_MAX):
        first = at - NAME_CHARACTERS_MAX
        tag = text.rfind("<", first, at)
        if tag >= 0 and text.find("<", at, tag + NAME_CHARACTERS_MAX) >= 0:
            continue  # as in most texts, where tags are frequent
        begin = max([text.rfind(end, first, at) for end in _ENDS_NAME]) + 1 or first
        end = _END_OF_NAME.search(text, at, begin + NAME_CHARACTERS_MAX + 1)
        if end is None and begin + NAME_CHARACTERS_MAX < len(text):
            return True
    return False


def _may_have_many_attributes(text: str) -> bool:
    """Return whether a well-formed document may have an element with too many attributes.

    Between its tag's first character and the next tag there is no other `<`, and a multiple of this length.
    """
    length = ATTRIBUTES_MAX * ATTRIBUTE_CHARACTERS
    for at in range(length, len(text), length):
        tag = text.rfind("<", at - length, at)
        if tag < 0 or text.find("<", at, tag + length + 1) < 0:
            return True
    return False


def _are_names_frequent(text: str, nodes: int) -> bool:
    """Return whether so many nodes have one of a few names that there cannot be too many others.

    What is found in a sample is counted in the whole text, so a text that is not what its sample promises is looked at
    closer.
    """
    start, end = len(text) // 2, len(text) // 2 + SAMPLE_CHARACTERS
    sample = Counter(_WHOLE_ELEMENT_NAME.findall(text, start, end) + _WHOLE_ATTRIBUTE_NAME.findall(text, start, end))
    frequent = sample.most_common(FREQUENT_NAMES_MAX)
    if sum([count for _, count in frequent]) * nodes < sample.total() * (nodes - NAMES_MAX):
        return False
    others = nodes
    for whole_name, _ in frequent:
        others -= text.count(whole_name) - 1
        if others <= NAMES_MAX:
            return True
    return False


def _check_long_names(text: str) -> None:
    for start, end in _pieces(text):
        if _LONG_ELEMENT_NAME.search(text, start, end) or _LONG_ATTRIBUTE_NAME.search(text, start, end):
            raise _make_error(f"a name in it has more than {NAME_CHARACTERS_MAX:,} characters")


def _check_name_count(text: str) -> None:
    names: set[str] = set()
    for start, end in _pieces(text):
        names.update(_ELEMENT_NAME.findall(text, start, end), _ATTRIBUTE_NAME.findall(text, start, end))
        if len(names) > NAMES_MAX:
            raise _make_error(f"it has more than {NAMES_MAX:,} different names of elements and attributes")


def _check_namespaces_in_scope(root: _Element) -> None:
    """Many declarations are harmless side by side, and costly if nested."""
    in_scope = 0
    for event, _ in etree.iterwalk(root, events=("start-ns", "end-ns")):
        in_scope += 1 if event == "start-ns" else -1
        if in_scope > NAMESPACES_IN_SCOPE_MAX:
            raise _make_error(f"more than {NAMESPACES_IN_SCOPE_MAX:,} namespaces are declared at one place")


def _make_error(what: str) -> MessageError:
    return MessageError("notWellFormed", f"the document is more than a message may be: {what}")
