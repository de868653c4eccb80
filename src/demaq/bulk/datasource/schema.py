"""The columns of a queue: what is known of every message, then its declared properties with types of Spark.

A type of XML Schema becomes the type of Spark that holds all its values, or nearly all. A value that does not fit is an
error and never another value; whoever has such values reads properties as texts.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from demaq.errors import OperatorError
from demaq.language.program.program import Program
from demaq.messages import PropertyValue
from demaq.store.protocol import StoredMessage

FIXED: tuple[tuple[str, DataType, bool], ...] = (
    ("id", LongType(), False),
    ("queue", StringType(), False),
    ("body", StringType(), False),
    ("created", TimestampType(), False),
    ("rule", StringType(), True),
    ("trigger", LongType(), True),
    ("origin", LongType(), False),
    ("processed", BooleanType(), False),
)
"""Name, type, and whether it may be missing."""
PREFIX = "property_"
"""In front of the name of a property that is the name of another column."""

_DIGITS = 38
_PLACES = 18
_INTEGER = DecimalType(_DIGITS, 0)
_DECIMAL = DecimalType(_DIGITS, _PLACES)
_TYPES: dict[str, DataType] = {
    "boolean": BooleanType(),
    "byte": ByteType(),
    "unsignedByte": ShortType(),
    "short": ShortType(),
    "unsignedShort": IntegerType(),
    "int": IntegerType(),
    "unsignedInt": LongType(),
    "long": LongType(),
    "unsignedLong": DecimalType(20, 0),
    "integer": _INTEGER,
    "nonNegativeInteger": _INTEGER,
    "positiveInteger": _INTEGER,
    "nonPositiveInteger": _INTEGER,
    "negativeInteger": _INTEGER,
    "decimal": _DECIMAL,
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "dateTime": TimestampType(),
    "dateTimeStamp": TimestampType(),
    "hexBinary": BinaryType(),
    "base64Binary": BinaryType(),
}
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?=Z|[+-]\d\d:\d\d|$)")


class ValueDoesNotFit(OperatorError):
    """A property has a value that the type of its column cannot hold."""

    code = "DQ9322"


@dataclass(frozen=True, slots=True)
class TypedPropertyColumn:
    """A declared property of the queue as a column."""

    column: str
    property: str
    type: str
    """The local name of its type in XML Schema."""


def spark_type(type_name: str) -> DataType:
    """The type of Spark for a type of XML Schema, by its local name. What Spark has no type for is a text."""
    return _TYPES.get(type_name, StringType())


def property_columns(program: Program, queue: str) -> tuple[TypedPropertyColumn, ...]:
    """In the order of their declarations. Spark does not tell names in capitals from others."""
    taken = {name for name, _, _ in FIXED}
    found: list[TypedPropertyColumn] = []
    for declared in program.properties_of(queue):
        if declared.decl is None:
            continue
        column = declared.name
        while column.lower() in taken:
            column = PREFIX + column
        taken.add(column.lower())
        found.append(TypedPropertyColumn(column, declared.name, declared.type))
    return tuple(found)


def schema_of(properties: Sequence[TypedPropertyColumn], as_text: bool) -> StructType:
    fields = [StructField(name, type_, nullable) for name, type_, nullable in FIXED]
    fields += [StructField(p.column, StringType() if as_text else spark_type(p.type), True) for p in properties]
    return StructType(fields)


def row_of(
    message: StoredMessage, snapshot: int, properties: Sequence[TypedPropertyColumn], as_text: bool
) -> dict[str, Any]:
    """A message as it was at a snapshot, by columns."""
    row: dict[str, Any] = {
        "id": message.seq,
        "queue": message.queue,
        "body": message.body,
        "created": message.created,
        "rule": message.rule,
        "trigger": message.trigger,
        "origin": message.origin,
        "processed": message.processed is not None and message.processed <= snapshot,
    }
    for known in properties:
        value = message.properties.get(known.property)
        if value is None:
            row[known.column] = None
        elif as_text:
            row[known.column] = value.text
        else:
            row[known.column] = _value(message.seq, known, value)
    return row


def _value(seq: int, known: TypedPropertyColumn, value: PropertyValue) -> Any:
    try:
        return from_text(known.type, value.text)
    except (ValueError, KeyError, OverflowError, InvalidOperation):
        raise ValueDoesNotFit(
            f"message {seq}: property {known.property} is {value.text}, which does not fit into a column of type "
            f'{spark_type(known.type).simpleString()}; read texts with .option("types", "text")'
        ) from None


def from_text(type_name: str, text: str) -> Any:
    """The value of a property for its column. Raises a ValueError or its like where it does not fit."""
    return _READERS.get(type_name, str)(text)


def to_text(value: Any, type_name: str) -> str:
    """What a column holds, as a text that a property of this type can be made of, if it fits."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return {"inf": "INF", "-inf": "-INF", "nan": "NaN"}.get(repr(value), repr(value))
        case Decimal():
            return f"{value:f}"
        case date():  # and times with it
            return value.isoformat()
        case bytes() | bytearray():
            return base64.b64encode(value).decode() if type_name == "base64Binary" else bytes(value).hex().upper()
        case _:
            return str(value)


def _boolean(text: str) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[text]


def _decimal(digits: int, places: int) -> Callable[[str], Decimal]:
    def read(text: str) -> Decimal:
        number = Decimal(text)
        _, figures, exponent = number.as_tuple()
        if not isinstance(exponent, int) or len(figures) + exponent > digits - places or -exponent > places:
            raise ValueError(text)
        return number

    return read


def _date(text: str) -> date:
    """The day as it is written; a zone behind it is left out."""
    match = _DATE.match(text)
    if match is None:
        raise ValueError(text)
    return date.fromisoformat(match.group())


def _date_time(text: str) -> datetime:
    """Without a zone it is in UTC, as in rules."""
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_BY_TYPE: dict[type[DataType], Callable[[str], Any]] = {
    BooleanType: _boolean,
    ByteType: int,
    ShortType: int,
    IntegerType: int,
    LongType: int,
    FloatType: float,
    DoubleType: float,
    DateType: _date,
    TimestampType: _date_time,
    BinaryType: bytes.fromhex,
}
_READERS: dict[str, Callable[[str], Any]] = {
    name: _decimal(type_.precision, type_.scale) if isinstance(type_, DecimalType) else _BY_TYPE[type(type_)]
    for name, type_ in _TYPES.items()
}
_READERS["base64Binary"] = _base64
