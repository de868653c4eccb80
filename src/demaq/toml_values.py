"""Parse TOML into values with locations.

`tomllib` decides what is TOML and what a scalar means, but does not say where anything is written. This parser finds
that: it only sees text that `tomllib` has accepted, so it recognises where keys and values begin and end, and checks
nothing. It gives every scalar and quoted key back to `tomllib`.
"""

from __future__ import annotations

import re
import tomllib

from demaq.configuration import ConfigurationReader, Value
from demaq.source import Source, SourceLocation

_BLANKS = re.compile(r"[ \t]*")
_BETWEEN = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
"""Between statements, and between the items of an array."""
_SCALAR = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'  # text on several lines may end with one or two quotes of its own
    r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}"
    r'|"(?:[^"\\]|\\.)*"'
    r"|'[^']*'"
    r"|[^,\]}\n#]*[^,\]}\n# \t]",  # a number, flag, date or time
    re.DOTALL,
)
_KEY_PART = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|[A-Za-z0-9_-]+')
_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def parse_toml(reader: ConfigurationReader) -> Value | None:
    """Return the table of a whole file; None if it is not TOML, which is reported."""
    source = reader.source
    try:
        tomllib.loads(source.text)
        return _TomlParser(source).parse()
    except tomllib.TOMLDecodeError as error:
        position = _POSITION.search(str(error))
        at = source.offset_of(int(position[1]), int(position[2])) if position and position[1] else len(source.text)
        reader.report(SourceLocation(source, at, at + 1), f"not TOML: {_POSITION.sub('', str(error))}")
    except RecursionError:
        reader.report(SourceLocation(source, 0, 0), "not TOML: nested too deeply")
    return None


class _TomlParser:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._text = source.text
        self._at = 0

    def parse(self) -> Value:
        start = self._location(0)
        root = Value({}, start, start)
        table = root
        self._skip(_BETWEEN)
        while self._at < len(self._text):
            if self._text.startswith("[[", self._at):
                table = self._header(root, "]]")
            elif self._text[self._at] == "[":
                table = self._header(root, "]")
            else:
                self._pair(table)
            self._skip(_BETWEEN)
        return root

    def _header(self, root: Value, closing: str) -> Value:
        """Return the table of `[a.b]`, or a new one in the array of `[[a.b]]`."""
        self._at += len(closing)
        *path, (name, at) = self._dotted_key()
        self._at += len(closing)
        parent = _descend(root, path)
        if closing == "]":
            return _descend(parent, [(name, at)])
        table = Value({}, at, at)
        parent.content.setdefault(name, Value([], at, at)).content.append(table)
        return table

    def _pair(self, table: Value) -> None:
        *path, (name, at) = self._dotted_key()
        self._at += len("=")
        self._skip(_BLANKS)
        _descend(table, path).content[name] = self._value(at)

    def _dotted_key(self) -> list[tuple[str, SourceLocation]]:
        """Return the parts of a key, each with its location, and skip blanks after them."""
        parts = []
        while True:
            self._skip(_BLANKS)
            start = self._at
            written = self._skip(_KEY_PART)
            name = next(iter(tomllib.loads(f"{written} = 0"))) if written[0] in "\"'" else written
            parts.append((name, self._location(start)))
            self._skip(_BLANKS)
            if self._text[self._at] != ".":
                return parts
            self._at += len(".")

    def _value(self, key_at: SourceLocation | None = None) -> Value:
        start = self._at
        match self._text[start]:
            case "[":
                content: object = self._array()
            case "{":
                content = self._inline_table()
            case _:
                content = tomllib.loads(f"v = {self._skip(_SCALAR)}")["v"]
        at = self._location(start)
        return Value(content, at, key_at or at)

    def _array(self) -> list[Value]:
        items = []
        while self._continues("]"):
            items.append(self._value())
        return items

    def _inline_table(self) -> dict[str, Value]:
        at = self._location(self._at)
        table: dict[str, Value] = {}
        while self._continues("}"):
            self._pair(Value(table, at, at))
        return table

    def _continues(self, closing: str) -> bool:
        """Move to the next item of an array or table, or after its end. Return whether there is an item."""
        self._skip(_BETWEEN)
        if self._text[self._at] in "[{,":
            self._at += 1
            self._skip(_BETWEEN)
        if self._text[self._at] != closing:
            return True
        self._at += 1
        return False

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        assert match is not None, "tomllib has accepted the text"
        self._at = match.end()
        return match[0]

    def _location(self, start: int) -> SourceLocation:
        return SourceLocation(self._source, start, self._at)


def _descend(table: Value, path: list[tuple[str, SourceLocation]]) -> Value:
    """Return the table at a path, and make those that are missing. An array of tables stands for its last one."""
    for name, at in path:
        table = table.content.setdefault(name, Value({}, at, at))
        if isinstance(table.content, list):
            table = table.content[-1]
    return table
