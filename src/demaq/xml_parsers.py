"""Every XML parser of libxml2 that is made anywhere: one home, so that one look shows what they may do.

None reads a document type from elsewhere, resolves an entity, or reaches for the network. `collect_ids` stays as it is:
without it libxml2 opens the external document type although it is told not to load it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from lxml import etree

OPTIONS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "resolve_entities": False,
        "no_network": True,
        "load_dtd": False,
        "dtd_validation": False,
        "attribute_defaults": False,
        "huge_tree": False,
        "recover": False,
    }
)

_parsers = threading.local()


def parse_characters(data: bytes) -> etree._Element:
    """Return the root of a document from outside, or of one that rules have made, in UTF-8 whatever it says.

    Raises etree.XMLSyntaxError, and ValueError for what is not even text.
    """
    return etree.fromstring(data, _characters_parser())


def _characters_parser() -> etree.XMLParser:
    """Each thread has one: to make it takes as long as to parse a message."""
    parser: etree.XMLParser | None = getattr(_parsers, "parser", None)
    if parser is None:
        parser = _parsers.parser = etree.XMLParser(encoding="utf-8", **OPTIONS)
    return parser


def parse_made(text: str) -> etree._Element:
    """Return the root of a document that rules have made, which may be deeper and longer than one from outside."""
    parser = etree.XMLParser(encoding="utf-8", **{**OPTIONS, "huge_tree": True})
    return etree.fromstring(text.encode("utf-8"), parser)


def file_parser(resolver: etree.Resolver | None = None) -> etree.XMLParser:
    """Return a parser for files of an application, such as schemas and interfaces, in the encoding they declare.

    `resolver` finds what they import; without one these are files beside them.
    """
    parser = etree.XMLParser(**OPTIONS)
    if resolver is not None:
        parser.resolvers.add(resolver)
    return parser


def parse_file(path: Path) -> etree._ElementTree:
    """Return a file of an application. Raises OSError and etree.XMLSyntaxError."""
    path.open("rb").close()  # lxml's own message for a missing file says less
    return etree.parse(str(path), file_parser())


def pull_parser(tag: str) -> etree.XMLPullParser:
    """Return a parser that is fed pieces of UTF-8, and tells where elements of a name begin and end."""
    return etree.XMLPullParser(events=("start", "end"), tag=tag, encoding="utf-8", **OPTIONS)
