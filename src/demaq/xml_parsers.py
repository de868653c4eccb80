"""Every XML parser of libxml2 that is made anywhere: one home, so that one look shows what they may do.

None reads a document type from elsewhere, resolves an entity, or reaches for the network. `collect_ids` stays as it is:
without it libxml2 opens the external document type although it gets not to load it.

libxml2 keeps all names that a thread has parsed until the thread ends, and refuses new ones when they are too many. So
a thread that has seen many lets another one parse for it, which is replaced when it has seen as many.

What libxml2 says of namespaces are no fatal errors to it, and lxml goes by the last thing that was said: a prefix that
stands for nothing passes where only a warning follows it, and a namespace that is no URI (`http://exämple.org/`) is
refused where none does. So what was said is read here: a namespace may be any text without blanks and braces, and an
`xml:id` any text, also twice. As libxml2 is silent about other errors after one about a namespace, expat then looks at
the document. Saxon removes blanks around an `xml:id`, so they are removed from trees here.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypedDict, TypeVar
from xml.parsers import expat

from lxml import etree

from demaq.xml_name_count import NameCount


class ParserOptions(TypedDict):
    """The options that every parser is made with."""

    resolve_entities: bool
    no_network: bool
    load_dtd: bool
    dtd_validation: bool
    attribute_defaults: bool
    huge_tree: bool
    recover: bool


OPTIONS: Final[ParserOptions] = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "dtd_validation": False,
    "attribute_defaults": False,
    "huge_tree": False,
    "recover": False,
}

TOLERANT: Final[ParserOptions] = {**OPTIONS, "recover": True}
"""For documents that were found to be well-formed but for what libxml2 says of their namespaces."""

_NOT_A_URI: Final = etree.ErrorTypes.WAR_NS_URI
_HARMLESS: Final = frozenset(
    {_NOT_A_URI, etree.ErrorTypes.DTD_ID_REDEFINED, etree.ErrorTypes.DTD_XMLID_VALUE, etree.ErrorTypes.DTD_XMLID_TYPE}
)
"""What libxml2 calls errors, in documents that are well-formed: namespaces that are no URIs, and values of `xml:id`
that are no names, or occur twice."""

_IN_NO_IRI: Final = re.compile(r"[ \t\r\n{}]")
"""Saxon removes white space around a namespace, and lxml writes names as `{namespace}local`."""

_XML_ID: Final = "{http://www.w3.org/XML/1998/namespace}id"

_Parsed = TypeVar("_Parsed")


class _OfThread(threading.local):
    """What each thread has for itself."""

    def __init__(self) -> None:
        self.names = NameCount()
        self.parser = etree.XMLParser(encoding="utf-8", **OPTIONS)  # to make one takes as long as to parse a message


_mine = _OfThread()


def parse_characters(data: bytes, text: str | None = None, may_declare: bool = True) -> etree._Element:
    """Return the root of a document from outside, or of one that rules have made, in UTF-8 whatever it says.

    `text` is the same as characters, if they are known. `may_declare` is whether `xml` may stand in it anywhere. Raises
    etree.XMLSyntaxError, and ValueError for what is not even text.
    """
    if _mine.names.is_full:
        return _replaceable.parse(data)
    return _parse_here(data, text, may_declare)


def _parse_here(data: bytes, text: str | None = None, may_declare: bool = True) -> etree._Element:
    names = _mine.names
    may_declare = may_declare and b"=" in data and b"xml" in data  # one character is found ten times as fast as three
    names.look_at(data.decode("utf-8", "replace") if text is None else text, may_declare)
    try:
        # Without declarations nothing follows an error that hides it. A question mark is rare, and found at once.
        if not may_declare and (b"?" not in data or b"<?" not in data):
            return etree.fromstring(data, _mine.parser)
        root = _parse_tolerantly(
            lambda parser: etree.fromstring(data, parser), _mine.parser, _make_tolerant_parser, lambda: data
        )
        return _trim_ids(root) if b"xml:id" in data else root
    except etree.XMLSyntaxError:
        names.characters += len(data)  # whatever it has taken for a name, such as that of an entity
        raise


def _trim_ids(root: etree._Element) -> etree._Element:
    """Remove the blanks around values of `xml:id`."""
    for element in root.iter(etree.Element):
        name = element.get(_XML_ID)
        if name is not None and name != name.strip(" \t\r\n"):
            element.set(_XML_ID, name.strip(" \t\r\n"))
    return root


def _make_tolerant_parser() -> etree.XMLParser:
    return etree.XMLParser(encoding="utf-8", **TOLERANT)


def _parse_tolerantly(
    parse: Callable[[etree.XMLParser], _Parsed],
    parser: etree.XMLParser,
    make_tolerant: Callable[[], etree.XMLParser],
    data: Callable[[], bytes],
    encoding: str | None = "utf-8",
) -> _Parsed:
    """Return what is parsed, again with a tolerant parser if the first has found nothing but harmless errors.

    `data` returns the document, which declares its encoding if it has another one than `encoding`.
    """
    try:
        parsed = parse(parser)
    except etree.XMLSyntaxError:
        if not _refuse_errors(parser):
            raise
        parser = make_tolerant()
        parsed = parse(parser)
    if _refuse_errors(parser):
        _check_well_formed([data()], encoding)
    return parsed


def _refuse_errors(parser: etree.XMLParser | etree.XMLPullParser) -> int:
    """Raise etree.XMLSyntaxError for the first real error a parser has found; return how many others it has said."""
    said = parser.error_log.filter_from_errors()
    for entry in said:
        if entry.type not in _HARMLESS:
            raise _syntax_error(entry.message, entry.type, entry.line, entry.column)
    return len(said)


def _check_well_formed(pieces: Iterable[bytes], encoding: str | None) -> None:
    """Raise etree.XMLSyntaxError if a document is not well-formed, or does not use namespaces as it should."""
    parser = expat.ParserCreate(encoding, "\x01")  # no namespace has that character

    def refuse_ambiguous(_: str | None, namespace: str | None) -> None:
        if namespace is not None and _IN_NO_IRI.search(namespace):
            at = (parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)
            raise _syntax_error("a namespace with blanks or braces cannot be used, no IRI has them", _NOT_A_URI, *at)

    parser.StartNamespaceDeclHandler = refuse_ambiguous
    try:
        for piece in pieces:
            parser.Parse(piece, False)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise _syntax_error(expat.ErrorString(error.code), error.code, error.lineno, error.offset + 1) from None


def _syntax_error(message: str, code: int, line: int, column: int) -> etree.XMLSyntaxError:
    return etree.XMLSyntaxError(message, code, line, column)


class _ReplaceableThread:
    """Parses for threads that have seen too many names."""

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)  # threads stay with the parent

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def parse(self, data: bytes) -> etree._Element:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, "demaq-parser")
            pool = self._pool
            parsed = pool.submit(_parse_here, data)
            full = pool.submit(lambda: _mine.names.is_full)
        try:
            return parsed.result()
        finally:
            if full.result():
                with self._lock:
                    if self._pool is pool:
                        self._pool = None
                        pool.shutdown(wait=False)


_replaceable = _ReplaceableThread()


def parse_made(text: str, base_url: str | None = None) -> etree._Element:
    """Return the root of a document that rules have made, which may be deeper and longer than one from outside."""
    data = text.encode("utf-8")
    root = _parse_tolerantly(
        lambda parser: etree.fromstring(data, parser, base_url=base_url),
        _make_huge_parser(OPTIONS),
        lambda: _make_huge_parser(TOLERANT),
        lambda: data,
    )
    return _trim_ids(root) if b"xml:id" in data else root


def _make_huge_parser(options: ParserOptions) -> etree.XMLParser:
    options = {**options, "huge_tree": True}
    return etree.XMLParser(encoding="utf-8", **options)


def file_parser(resolver: etree.Resolver | None = None) -> etree.XMLParser:
    """Return a parser for files of an application, such as schemas and interfaces, in the encoding they declare.

    `resolver` finds what they import; without one these are files in the same folder.
    """
    return _file_parser(OPTIONS, resolver)


def _file_parser(options: ParserOptions, resolver: etree.Resolver | None) -> etree.XMLParser:
    parser = etree.XMLParser(**options)
    if resolver is not None:
        parser.resolvers.add(resolver)
    return parser


def parse_file(path: Path) -> etree._ElementTree:
    """Return a file of an application. Raises OSError and etree.XMLSyntaxError."""
    path.open("rb").close()  # lxml's own message for a missing file says less
    return _parse_file(lambda parser: etree.parse(str(path), parser), path.read_bytes)


def parse_file_content(
    data: bytes, resolver: etree.Resolver | None = None, base_url: str | None = None
) -> etree._Element:
    """Return the root of what stands in a file of an application. Raises etree.XMLSyntaxError and ValueError.

    Where it becomes a schema, `resolver` finds what it imports, and `base_url` is its own address.
    """
    return _parse_file(lambda parser: _from_bytes(data, parser, base_url), lambda: data, resolver)


def _from_bytes(data: bytes, parser: etree.XMLParser, base_url: str | None) -> etree._Element:
    return etree.fromstring(data, parser, base_url=base_url)


def _parse_file(
    parse: Callable[[etree.XMLParser], _Parsed], data: Callable[[], bytes], resolver: etree.Resolver | None = None
) -> _Parsed:
    return _parse_tolerantly(
        parse, file_parser(resolver), lambda: _file_parser(TOLERANT, resolver), data, encoding=None
    )


def pull_parser(tag: str) -> etree.XMLPullParser:
    """Return a parser that is fed pieces of UTF-8, and tells where elements of a name begin and end."""
    return etree.XMLPullParser(events=("start", "end"), tag=tag, encoding="utf-8", **OPTIONS)


def find_real_error(error: etree.XMLSyntaxError, pieces: Callable[[], Iterable[bytes]]) -> etree.XMLSyntaxError | None:
    """Return what is wrong where a pull parser has raised an error; None if that is harmless.

    `pieces` returns once more what the parser was fed.
    """
    if error.code not in _HARMLESS:
        return error
    try:
        _check_well_formed(pieces(), "utf-8")
    except etree.XMLSyntaxError as real:
        return real
    return None


def first_element_end(data: bytes) -> int:
    """Return where the last tag of the element begins that a text in UTF-8 begins with, whatever follows it."""
    parser = expat.ParserCreate("utf-8")  # it takes any depth
    depth, end = 0, 0

    def start(name: str, attributes: Mapping[str, str]) -> None:
        nonlocal depth
        depth += 1

    def finish(name: str) -> None:
        nonlocal depth, end
        depth -= 1
        if depth == 0:
            end = parser.CurrentByteIndex

    parser.StartElementHandler, parser.EndElementHandler = start, finish
    with contextlib.suppress(expat.ExpatError):  # more follows the element
        parser.Parse(data, True)
    return end


def find_start_tags(data: bytes) -> list[tuple[int, int]]:
    """Return line and column of each start tag of a document without DTD, in order; none if expat cannot read it."""
    parser = expat.ParserCreate()
    starts: list[tuple[int, int]] = []

    def note(_name: str, _attributes: object) -> None:
        starts.append((parser.CurrentLineNumber, parser.CurrentColumnNumber + 1))

    parser.StartElementHandler = note
    try:
        parser.Parse(data.removeprefix(b"\xef\xbb\xbf"), True)
    except expat.ExpatError:
        return []
    return starts
