"""Every XML parser of libxml2 that is made anywhere: one home, so that one look shows what they may do.

None reads a document type from elsewhere, resolves an entity, or reaches for the network. `collect_ids` stays as it is:
without it libxml2 opens the external document type although it is told not to load it.

libxml2 keeps all names that a thread has parsed until the thread ends, and refuses new ones when they are too many. So
a thread that has seen many lets another one parse for it, which is replaced when it has seen as many.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from lxml import etree

from demaq.xml_name_count import NameCount

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


class _OfThread(threading.local):
    """What each thread has for itself."""

    def __init__(self) -> None:
        self.names = NameCount()
        self.parser = etree.XMLParser(encoding="utf-8", **OPTIONS)  # to make one takes as long as to parse a message


_mine = _OfThread()


def parse_characters(data: bytes) -> etree._Element:
    """Return the root of a document from outside, or of one that rules have made, in UTF-8 whatever it says.

    Raises etree.XMLSyntaxError, and ValueError for what is not even text.
    """
    if _mine.names.is_full:
        return _replaceable.parse(data)
    return _parse_here(data)


def _parse_here(data: bytes) -> etree._Element:
    names = _mine.names
    names.look_at(data.decode("utf-8", "replace"))
    try:
        return etree.fromstring(data, _mine.parser)
    except etree.XMLSyntaxError:
        names.characters += len(data)  # whatever it has taken for a name, such as that of an entity
        raise


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
