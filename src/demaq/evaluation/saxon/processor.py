"""Saxon HE, hardened: compile queries to function items, parse text to nodes, translate errors.

A call into Saxon costs a microsecond and leaks some hundred bytes, so callers make few: a batch is passed as one
document and returned as one string.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demaq.compiler.emit.xquery.vocabulary import SEPARATOR
from demaq.errors import OperatorError
from demaq.xml_name_count import NameCount

BATCH_MESSAGES_MAX = 200
"""How many messages are evaluated in one call."""

_FEATURE = "http://saxon.sf.net/feature/"
_SETTINGS = {
    "allowedProtocols": "none",
    "allow-external-functions": "false",
    "parserFeature?uri=http%3A//apache.org/xml/features/disallow-doctype-decl": "true",
    # Above 32,767 levels Saxon's tree loses the deeper elements without a word.
    "parserProperty?uri=jdk.xml.maxElementDepth": "30000",
    "parserProperty?uri=jdk.xml.elementAttributeLimit": "0",
    "parserProperty?uri=jdk.xml.maxXMLNameLimit": "0",
    "parserProperty?uri=jdk.xml.maxGeneralEntitySizeLimit": "0",
    "parserProperty?uri=jdk.xml.totalEntitySizeLimit": "0",
}

_STATIC = re.compile(
    r"\A\s*(?:Warning\b[^\n]*\n\s+SXWN\d+\s+.*?\n(?=\S))*"
    r"(?P<kind>Static error|Type error|Error)\b(?P<where>[^\n]*)\n\s+(?:(?P<code>[A-Z]{4}\d{4})\s+)?(?P<text>.*?)\s*\Z",
    re.DOTALL,
)
_RETURN = re.compile(r"(<!--.*?-->|<\?.*?\?>)|\r", re.DOTALL)
_POSITION = re.compile(r"on line (\d+) (?:at )?column (\d+) of |at char (\d+) of ")


@dataclass(eq=False)
class StaticError(Exception):
    """A static error of a query."""

    code: str
    message: str
    line: int | None
    column: int | None


class EvaluationError(Exception):
    """A whole call has failed: infinite recursion, or worse."""


DOCUMENTS_PER_PARSE = 200
"""How many documents are parsed as one: for small ones it costs a fifth of parsing them one by one."""
SMALL_MAX = 2000
"""A longer text is parsed by itself, which costs less than copying it out of a larger tree."""
_TEXTS = f"function($all as array(*)) as xs:string {{ string-join($all?* ! serialize(.), '{SEPARATOR}') }}"
_APART = "function($all as document-node()) as array(*) { array { for $m in $all/b/m return document { $m/node() } } }"


class Saxon:
    """One processor. While a thread has one, another that makes its own, or uses or frees this one, ends the process.

    The library is loaded for the first one, so that a console and other processes do without it.
    """

    def __init__(self) -> None:
        import saxonche

        self._error: type[Exception] = saxonche.PySaxonApiError
        try:
            self._processor = saxonche.PySaxonProcessor(license=False)
        except UnicodeEncodeError as error:  # it reads the current folder
            raise OperatorError(
                f"rules cannot be evaluated in a folder whose name is not UTF-8: {error.object!r}"
            ) from None
        self.parsed = 0
        """How many documents were parsed or constructed: the number of the last one in document order."""
        self.names = NameCount()
        for name, value in _SETTINGS.items():
            self._processor.set_configuration_property(_FEATURE + name, value)
        self._empty_map, self._apart, self._texts = self.functions(f"[map {{}}, {_APART}, {_TEXTS}]")

    def functions(self, query: str, uri: str = "demaq:query") -> list[Any]:
        """Return the members of the array that a query evaluates to. Raises StaticError."""
        compiler = self._processor.new_xquery_processor()
        compiler.set_query_base_uri(uri)
        try:
            value = compiler.run_query_to_value(query_text=query)
        except self._error as error:
            raise _static_error(str(error)) from None
        array = value.head
        return [array.get(position).head for position in range(array.array_length)]

    def call(self, function: Any, *args: Any) -> str:
        """Call a function whose value is one string."""
        try:
            value = function.call(list(args))
        except self._error as error:
            raise EvaluationError(str(error).strip()) from None
        return "" if value is None else str(self._processor.get_string_value(value.head))

    def call_for_documents(self, function: Any, *args: Any) -> tuple[str, list[Any]]:
        """Call a function whose value is an array of a string and new documents."""
        try:
            first, *others = [member.head for member in function.call(list(args)).head.as_list()]
            text, documents = str(self._processor.get_string_value(first)), others
        except self._error as error:
            raise EvaluationError(str(error).strip()) from None
        self.parsed += len(documents)
        return text, documents

    def texts(self, nodes: Sequence[Any]) -> list[str]:
        """Return documents as text."""
        return _escape_returns(self.call(self._texts, self.array(nodes))).split(SEPARATOR) if nodes else []

    def parse(self, text: str) -> Any:
        """Return a document node. Raises ValueError if Saxon's parser refuses the text."""
        self.names.look_at(text)
        with _quiet_stderr():
            try:
                node = self._processor.parse_xml(xml_text=text)
                self.parsed += 1
                return node
            except self._error as error:
                raise ValueError(str(error).strip()) from None

    def documents(self, texts: Sequence[str]) -> list[Any]:
        """Return the document nodes of many texts, in document order. Raises ValueError like `parse`."""
        found: list[Any] = []
        small: list[str] = []
        for text in texts:
            if len(text) > SMALL_MAX:
                found += self._parse_together(small)
                found.append(self.parse(text))
                small = []
            else:
                small.append(text)
        return found + self._parse_together(small)

    def _parse_together(self, texts: Sequence[str]) -> list[Any]:
        found: list[Any] = []
        for start in range(0, len(texts), DOCUMENTS_PER_PARSE):
            part = texts[start : start + DOCUMENTS_PER_PARSE]
            all_together = self.parse(f"<b><m>{'</m><m>'.join(part)}</m></b>")
            try:
                found += [value.head for value in self._apart.call([all_together]).head.as_list()]
            except self._error as error:
                raise EvaluationError(str(error).strip()) from None
            self.parsed += len(part)
        return found

    def array(self, members: Sequence[Any]) -> Any:
        return self._processor.make_array(list(members))

    def map(self, entries: Mapping[str, Any]) -> Any:
        assert "" not in entries, "Saxon's library ends the process over an empty key"
        return self._processor.make_map2(dict(entries)) if entries else self._empty_map

    def string(self, text: str) -> Any:
        return self._processor.make_string_value(text)

    def integer(self, number: int) -> Any:
        return self._processor.make_integer_value(number)

    def empty(self) -> Any:
        return self._processor.empty_sequence()


def _static_error(text: str) -> StaticError:
    match = _STATIC.match(text)
    if match is None:
        return StaticError("", " ".join(text.split()), None, None)
    line = column = None
    positions = _POSITION.findall(match["where"])
    if positions:
        on_line, at_column, at_char = positions[-1]
        line, column = (int(on_line), int(at_column)) if on_line else (1, int(at_char))
    return StaticError(match["code"] or "", re.sub(r"\s*\n\s+", " ", match["text"]), line, column)


def _escape_returns(text: str) -> str:
    """Return the text with carriage returns as references: Saxon writes them literally, and parsers change them."""
    return _RETURN.sub(lambda found: found[1] or "&#13;", text) if "\r" in text else text


@contextlib.contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Discard what Saxon's parser writes to the process's stderr."""
    kept = os.dup(2)
    os.dup2(_NOWHERE, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


_NOWHERE = os.open(os.devnull, os.O_WRONLY)
