"""Read the documents of a load: from XML files, rows of large XML files, Parquet, and lines of JSON.

Files are read as streams by the command, so executors need no access to them. A document that cannot be read is an Item
with a problem; documents are parsed and checked later.
"""

from __future__ import annotations

import codecs
import glob
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from lxml import etree

from demaq.encodings import encoding_of
from demaq.errors import MessageError, OperatorError
from demaq.xml_parsers import find_real_error, pull_parser
from demaq.xml_prolog import blank, declaration_end, prolog_end, refuse_doctype, refuse_second_mark

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

PIECE_BYTES = 65_536
PROLOG_CHARACTERS_MAX = 1_000_000
"""How much may be before the root element; it is held in memory."""
_DOCTYPE_LENGTH = len("<!DOCTYPE")


XML = ".xml"
PARQUET = ".parquet"
JSON_LINES = (".jsonl", ".ndjson", ".json")
BODY_COLUMN = "body"
TABLE_ROWS = 1000
"""How many rows of a table are read at a time."""

_IN_FOLDERS = (XML, PARQUET, *JSON_LINES)
_HIDDEN = (".", "_")
"""Prefixes of names that Spark and others give to files which are not data."""
_PATTERN = "*?["


class SourceError(OperatorError):
    """A source does not exist, or is not in the format of its name."""

    code = "DQ9102"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A document, not yet parsed, and where it was found."""

    where: str
    """For people: a file, or a file and a position in it."""
    identity: str
    """Equal whenever the document is read again."""
    body: bytes | str
    properties: Mapping[str, str] = field(default_factory=dict)
    problem: MessageError | None = None
    """Why it is not a document, if that is known already."""

    def request(self, queue: str) -> str:
        """Return the request of the document as a message of a queue: a document of the same request is stored once."""
        body = self.body.encode("utf-8", "surrogatepass") if isinstance(self.body, str) else self.body
        digest = hashlib.sha256(f"{queue}\0{self.identity}\0".encode("utf-8", "surrogateescape"))
        digest.update(body)
        return f"load:{digest.hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where documents are in files that hold many."""

    row_tag: str | None = None
    """Each element of this name in an XML file is a document; if None, the whole file is one."""
    body: str = BODY_COLUMN
    """The column of a table that holds documents."""
    properties: tuple[str, ...] = ()
    """Further columns, which become properties."""


def find_files(paths: Sequence[str]) -> list[Path]:
    """Return the files of paths, folders and patterns, each once, in order. Raises SourceError."""
    found: dict[Path, None] = {}
    for path in paths:
        found.update(dict.fromkeys(_expand_path(path)))
    return list(found)


def count_documents(files: Sequence[Path], layout: Layout) -> int | None:
    """Return how many documents there are, or None if all would have to be read. Raises SourceError.

    The columns of tables are checked, so that a wrong one is reported before anything is stored.
    """
    total: int | None = 0
    for file in files:
        if file.suffix == PARQUET:
            with _open_parquet(file, layout) as table:
                rows = table.metadata.num_rows
        else:
            rows = 1 if file.suffix not in JSON_LINES and layout.row_tag is None else None
        total = None if total is None or rows is None else total + rows
    return total


def read_documents(files: Sequence[Path], layout: Layout) -> Iterator[Item]:
    """Yield every document, in the order of the files."""
    for file in files:
        if file.suffix == PARQUET:
            yield from _table_rows(file, layout)
        elif file.suffix in JSON_LINES:
            yield from _lines(file, layout)
        elif layout.row_tag is not None:
            yield from _xml_rows(file, layout.row_tag)
        else:
            yield Item(where=str(file), identity=str(file.resolve()), body=file.read_bytes())


def _expand_path(path: str) -> list[Path]:
    place = Path(path)
    if place.is_dir():
        return _list_folder(place)
    if place.exists():
        return [place]
    if not any([character in path for character in _PATTERN]):
        raise SourceError(f"{path}: no such file or folder")
    matches = [Path(match) for match in sorted(glob.glob(path, recursive=True))]
    files = [file for match in matches for file in (_list_folder(match) if match.is_dir() else [match])]
    if not files:
        raise SourceError(f"{path}: no file is named like that")
    return files


def _list_folder(folder: Path) -> list[Path]:
    found = [file for file in folder.rglob("*") if file.suffix in _IN_FOLDERS and file.is_file()]
    return sorted([f for f in found if not any([p.startswith(_HIDDEN) for p in f.relative_to(folder).parts])])


def _make_item(file: Path, position: int, what: str, body: bytes | str, **more: Any) -> Item:
    return Item(where=f"{file}, {what} {position}", identity=f"{file.resolve()}\0{position}", body=body, **more)


# --- XML ---


def utf8_pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield a document in pieces of UTF-8. Raises MessageError of kind notWellFormed as `parse_document` does."""
    first = file.read(PIECE_BYTES)
    decoder = codecs.getincrementaldecoder(encoding_of(first))()
    try:
        text = decoder.decode(first, final=not first)
        while not _shows_root(text):
            if len(text) > PROLOG_CHARACTERS_MAX:
                reason = f"more than {PROLOG_CHARACTERS_MAX:,} characters stand before the root"
                raise MessageError("notWellFormed", reason)
            piece = file.read(PIECE_BYTES)
            text += decoder.decode(piece, final=not piece)
            if not piece:
                break
        refuse_second_mark(text)
        end = declaration_end(text)
        refuse_doctype(text, end)
        yield (blank(text[:end]) + text[end:]).encode()
        while piece := file.read(PIECE_BYTES):
            yield decoder.decode(piece).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeDecodeError as error:
        raise MessageError("notWellFormed", f"it is not in {error.encoding.upper()}") from None


def _shows_root(text: str) -> bool:
    """Return whether the text reaches to the root element, or to a document type in its place."""
    if "?>" not in text and text.startswith("<?xml"):
        return False
    end = prolog_end(text, declaration_end(text))
    return end is not None and end + _DOCTYPE_LENGTH <= len(text)


def _xml_rows(file: Path, tag: str) -> Iterator[Item]:
    """Yield the outermost elements of a name, one at a time. Each is freed after it was read."""
    number = 0
    with open(file, "rb") as data:
        try:
            for row in _outermost(data, tag if tag.startswith("{") else f"{{*}}{tag}"):
                number += 1
                yield _make_item(file, number, "row", row)
        except (etree.XMLSyntaxError, MessageError, ValueError) as error:
            said = error.message if isinstance(error, MessageError) else str(error)
            reason = f"after row {number} the file cannot be read: {said}"
            yield _make_item(file, number + 1, "row", str(file), problem=MessageError("notWellFormed", reason))


def _outermost(data: BinaryIO, tag: str) -> Iterator[str]:
    depth = 0
    for event, element in _events(data, tag):
        depth += 1 if event == "start" else -1
        if event == "end" and depth == 0:
            yield etree.tostring(element, encoding="unicode", with_tail=False)
            _free(element)


def _events(data: BinaryIO, tag: str) -> Iterator[tuple[str, Any]]:
    parser = pull_parser(tag)
    for piece in itertools.chain(utf8_pieces(data), [None]):
        failure: etree.XMLSyntaxError | None = None
        try:
            if piece is None:
                parser.close()
            else:
                parser.feed(piece)
        except etree.XMLSyntaxError as error:
            failure = find_real_error(error, lambda: _reread(data))
        yield from parser.read_events()  # what was parsed before the error
        if failure is not None:
            raise failure


def _reread(data: BinaryIO) -> Iterator[bytes]:
    data.seek(0)
    return utf8_pieces(data)


def _free(element: Any) -> None:
    """Free an element, and everything before it and before its ancestors."""
    element.clear()
    while element is not None:
        parent = element.getparent()
        while parent is not None and element.getprevious() is not None:
            del parent[0]
        element = parent


# --- tables ---


def _open_parquet(file: Path, layout: Layout) -> ParquetFile:
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        table = ParquetFile(file)
    except pyarrow.ArrowException as error:
        raise SourceError(f"{file} cannot be read as Parquet: {_first_line(error)}") from None
    missing = [name for name in (layout.body, *layout.properties) if name not in table.schema_arrow.names]
    if missing:
        columns = ", ".join(table.schema_arrow.names)
        table.close()
        raise SourceError(f"{file} has no column {missing[0]}; it has {columns}")
    return table


def _table_rows(file: Path, layout: Layout) -> Iterator[Item]:
    import pyarrow

    number = 0
    with _open_parquet(file, layout) as table:
        try:
            for batch in table.iter_batches(batch_size=TABLE_ROWS, columns=[layout.body, *layout.properties]):
                for row in batch.to_pylist():
                    number += 1
                    yield _read_row(file, number, "row", row, layout, str(row))
        except pyarrow.ArrowException as error:
            raise SourceError(f"{file} cannot be read after row {number}: {_first_line(error)}") from None


def _lines(file: Path, layout: Layout) -> Iterator[Item]:
    with open(file, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                # Numbers keep their lexical form.
                row = json.loads(line, parse_float=str, parse_int=str, parse_constant=str)
                if not isinstance(row, dict):
                    raise ValueError("it is no object")
            except (ValueError, RecursionError) as error:
                problem = MessageError("notWellFormed", f"the line is not a JSON object: {error}")
                yield _make_item(file, number, "line", line, problem=problem)
            else:
                yield _read_row(file, number, "line", row, layout, line.strip())


def _read_row(file: Path, number: int, what: str, row: Mapping[str, Any], layout: Layout, text: bytes | str) -> Item:
    """Return a row of a table as an Item; `text` is the whole row, for error messages."""
    body = row.get(layout.body)
    if not isinstance(body, str | bytes):
        problem = MessageError("notWellFormed", f"{layout.body} holds no text")
        return _make_item(file, number, what, text, problem=problem)
    properties = {name: row[name] for name in layout.properties if row.get(name) is not None}
    wrong = [name for name, value in properties.items() if isinstance(value, list | dict)]
    if wrong:
        problem = MessageError("propertyError", f"{wrong[0]} is not a single value")
        return _make_item(file, number, what, body, problem=problem)
    return _make_item(
        file, number, what, body, properties={name: _format_value(value) for name, value in properties.items()}
    )


def _format_value(value: Any) -> str:
    """Return a value in the lexical form of XML Schema."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}"  # never with an exponent
    if isinstance(value, float):
        return {"inf": "INF", "-inf": "-INF", "nan": "NaN"}.get(repr(value), repr(value))
    if isinstance(value, date | datetime):
        return value.isoformat()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
