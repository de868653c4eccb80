"""The encoding of values in columns: times as integers in microseconds, properties and lists as JSON.

The JSON is concatenated from quoted strings, because `json.dumps` takes five times as long for such short texts, and
every message is written this way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from json import JSONDecoder
from json.encoder import encode_basestring as quote
from typing import Any

from demaq.messages import PropertyValue

Membership = list[Any]
"""A slicing, a key, and the number of the reset that ended it, or 0."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_decode = JSONDecoder().raw_decode


def microseconds(time: datetime) -> int:
    """Return a time as microseconds since 1970. Raises TypeError for a time without a zone."""
    return (time - _EPOCH) // _MICROSECOND


def time_at(microseconds: int) -> datetime:
    return _EPOCH + timedelta(0, 0, microseconds)


def encode_texts(texts: Iterable[str]) -> str:
    return f"[{','.join([quote(text) for text in texts])}]"


def encode_numbers(numbers: Iterable[int]) -> str:
    return f"[{','.join([str(number) for number in numbers])}]"


def encode_files(files: Mapping[str, str]) -> str:
    return f"{{{','.join([f'{quote(name)}:{quote(text)}' for name, text in files.items()])}}}"


def decode_files(text: str) -> dict[str, str]:
    files: dict[str, str] = _decode(text)[0]
    return files


def encode_slices(slices: Sequence[Membership]) -> str | None:
    if not slices:
        return None
    return f"[{','.join([f'[{quote(slicing)},{quote(key)},{ended}]' for slicing, key, ended in slices])}]"


def encode_entries(entries: Iterable[tuple[str, str]]) -> str | None:
    if not entries:
        return None
    return f"[{','.join([f'[{quote(index)},{quote(value)}]' for index, value in entries])}]"


def decode_list(text: str | None) -> list[Any]:
    """Return decoded slices or index entries; an empty list for None, the most frequent value."""
    if text is None:
        return []
    values: list[Any] = _decode(text)[0]
    return values


NO_PROPERTIES = "{}"


def encode_properties(properties: Mapping[str, PropertyValue]) -> str:
    return f"{{{','.join([f'{quote(name)}:{_encode_property(value)}' for name, value in properties.items()])}}}"


def _encode_property(value: PropertyValue) -> str:
    # The key is written only if it differs from the text, as for some numbers and times.
    if value.key == value.text:
        return f"[{quote(value.type)},{quote(value.text)}]"
    return f"[{quote(value.type)},{quote(value.text)},{quote(value.key)}]"


def decode_properties(text: str) -> dict[str, PropertyValue]:
    if text == NO_PROPERTIES:  # the most frequent value
        return {}
    return {name: PropertyValue(parts[0], parts[1], parts[-1]) for name, parts in _decode(text)[0].items()}
