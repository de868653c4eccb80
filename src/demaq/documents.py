"""One XML document with representations that are made on demand: text, lxml tree, Saxon node.

A body that comes from outside is checked once, here: well-formed XML 1.0 with namespaces, no document type
declaration, within the bounds on what one document may hold. From then on it is only text and trees, and is not
checked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from lxml import etree

from demaq.encodings import decode_document, encoding_of
from demaq.errors import MessageError
from demaq.xml_bounds import DEPTH_MAX, TEXT_BYTES_MAX, Marks, check_declarations, check_text, check_tree
from demaq.xml_names import check_names
from demaq.xml_parsers import parse_characters
from demaq.xml_prolog import DOCTYPE_REFUSED, OUTSIDE_MAX, blank, declaration_end, refuse_doctype, refuse_second_mark

if TYPE_CHECKING:
    from lxml.etree import _Element, _ElementTree

_SPACE = " \t\r\n"
_TOO_LONG = ("Text node too long", "AttValue length too long", "Buffer size limit exceeded")
"""What libxml2 says of texts that are longer than it allows."""


NATIVE_CHARACTERS_MAX = 1_000_000
"""In a larger document Saxon finds things faster than Python, and takes no longer in the worst case."""


REASON_CHARACTERS_MAX = 300
"""So much is said about what is not well-formed. Names in it are the sender's, and may be long."""


class Processor(Protocol):
    """Who makes nodes, and can write them as text."""

    def texts(self, nodes: Sequence[Any]) -> list[str]: ...


class Document:
    """A well-formed document. Made by `parse_document`, or by rules and then known to be well-formed."""

    __slots__ = ("_node", "_root", "_text")

    def __init__(self, text: str | None, root: _Element | None = None) -> None:
        """`root` is the root of a tree that belongs to the document."""
        self._text = text
        self._root = root
        self._node: tuple[Processor, Any, int] | None = None

    @staticmethod
    def made(saxon: Processor, node: Any, number: int) -> Document:
        """Return the result of a rule: a node that is serialised when its text is needed."""
        document = Document(None)
        document.keep_node(saxon, node, number)
        return document

    @property
    def text(self) -> str:
        """The document without XML declaration, byte order mark or white space around it."""
        if self._text is None:
            write_texts([self])
        assert self._text is not None, "it has a node or a text"
        return self._text

    @property
    def size(self) -> int | None:
        """How many characters the text has; None if it is not written yet."""
        return None if self._text is None else len(self._text)

    @property
    def data(self) -> bytes:
        return self.text.encode("utf-8")

    @property
    def tree(self) -> _ElementTree:
        return self._parsed_root().getroottree()

    @property
    def native_root(self) -> _Element | None:
        """The root element for native rules; None if the document is too large for them."""
        if self._text is not None and len(self._text) > NATIVE_CHARACTERS_MAX:
            return None
        if self._root is not None:
            return self._root
        try:
            return self._parsed_root()
        except etree.XMLSyntaxError:  # deeper or larger than a document from outside may be
            return None

    def _parsed_root(self) -> _Element:
        if self._root is None:
            text = self.text
            self._root = parse_characters(text.encode("utf-8"), text)
        return self._root

    def forget_tree(self) -> None:
        """Keep the text alone, which takes a tenth of the memory."""
        if self._text is not None:
            self._root = None

    def node(self, saxon: object) -> tuple[Any, int] | None:
        """Return the document node in a Saxon processor and its number in document order, if one is kept."""
        if self._node is None or self._node[0] is not saxon:
            return None
        return self._node[1], self._node[2]

    @property
    def is_only_node(self) -> bool:
        """Whether it is the result of a rule by Saxon, and nothing has asked for its text yet."""
        return self._node is not None and self._text is None

    def keep_node(self, saxon: Processor, node: Any, number: int) -> None:
        self._node = (saxon, node, number)

    def __reduce__(self) -> tuple[type[Document], tuple[str]]:
        return Document, (self.text,)  # trees and nodes stay in their process

    def __repr__(self) -> str:
        return f"Document({self.text[:60]!r})"


def write_texts(documents: Iterable[Document]) -> None:
    """Write all at once that have no text yet."""
    by_saxon: dict[Processor, list[Document]] = {}
    for document in documents:
        if document._text is not None:
            continue
        if document._node is None:
            document._text = etree.tostring(document.tree, encoding="unicode")
        else:
            by_saxon.setdefault(document._node[0], []).append(document)
    for saxon, unwritten in by_saxon.items():
        nodes = [document._node[1] for document in unwritten if document._node is not None]
        for document, text in zip(unwritten, saxon.texts(nodes), strict=True):
            document._text = text


def parse_document(body: bytes | str, marks: Marks | None = None) -> Document:
    """Check a body from outside. Raises a MessageError of kind notWellFormed.

    It becomes text first, and what is refused in the text no parser sees. `marks` are those of the body, if they were
    counted already.
    """
    if isinstance(body, str):
        text = body.removeprefix("\ufeff").lstrip(_SPACE)  # before a declaration too: it is text already
        data = _encode(text)
    else:
        encoding = encoding_of(body)
        text = decode_document(body, encoding)
        data = body if encoding == "utf-8" else _encode(text)
        marks = marks if encoding == "utf-8" else None
    if "\0" in text:  # a parser that takes it for the end would not look at what follows
        raise MessageError("notWellFormed", "the document holds a character that XML does not allow")
    refuse_second_mark(text)
    check_text(text, marks)
    may_declare = "=" in text and "xml" in text  # or it neither declares a namespace nor has a declaration
    declares_many = may_declare and check_declarations(text)
    if not _has_mark(text, "!") and not _has_mark(text, "?"):  # most bodies: there is nothing but the root
        return _check_document(text, _parse(data, text, may_declare), declares_many)
    end = declaration_end(text)
    refuse_doctype(text, end)
    root = _parse(_encode(blank(text[:end]) + text[end:]) if end else data)
    if root.getroottree().docinfo.internalDTD is not None:
        raise MessageError("notWellFormed", DOCTYPE_REFUSED)
    if root.getprevious() is not None or root.getnext() is not None:
        _refuse_many_outside(root)
        return _check_document(_serialise(root), root)
    return _check_document(text[end:], root, declares_many)


def _has_mark(text: str, after: str) -> bool:
    """Return whether a character stands after a `<`. To look for it alone first takes no time, and it is rare."""
    return after in text and f"<{after}" in text


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # the parser says what is wrong with halves of characters


def _parse(data: bytes, text: str | None = None, may_declare: bool = True) -> _Element:
    try:
        return parse_characters(data, text, may_declare)
    except etree.XMLSyntaxError as error:
        raise MessageError("notWellFormed", _reason(error)) from None
    except ValueError as error:
        raise MessageError("notWellFormed", str(error)) from None


def _check_document(text: str, root: _Element, may_declare_many: bool = True) -> Document:
    check_tree(text, root, may_declare_many)
    check_names(text, root)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return Document(text.strip(" \t\n"), root)


def _refuse_many_outside(root: _Element) -> None:
    for siblings in (root.itersiblings(preceding=True), root.itersiblings()):
        for number, _ in enumerate(siblings):
            if number >= OUTSIDE_MAX:
                raise MessageError(
                    "notWellFormed", f"more than {OUTSIDE_MAX} comments or processing instructions around the root"
                )


def _serialise(root: _Element) -> str:
    """Root, comments and processing instructions with nothing between them."""
    before: list[str] = []
    node = root.getprevious()
    while node is not None:
        before.append(etree.tostring(node, encoding="unicode", with_tail=False))
        node = node.getprevious()
    after: list[str] = []
    node = root.getnext()
    while node is not None:
        after.append(etree.tostring(node, encoding="unicode", with_tail=False))
        node = node.getnext()
    return "".join([*reversed(before), etree.tostring(root, encoding="unicode", with_tail=False), *after])


def _reason(error: etree.XMLSyntaxError) -> str:
    text = (error.msg or "not well-formed").split(", line ")[0]
    if "Excessive depth" in text:
        text = f"elements are nested more than {DEPTH_MAX} levels deep"
    if any([said in text for said in _TOO_LONG]):
        text = f"a text or the value of an attribute has more than {TEXT_BYTES_MAX:,} bytes"
    text = text.replace(", use XML_PARSE_HUGE option", "").replace(", try XML_PARSE_HUGE", "")
    line, column = error.position
    return f"line {line}, column {column}: {' '.join(text[:REASON_CHARACTERS_MAX].split())}"
