"""The columns of a queue (`bulk/columns.py`) with Spark's types, and values between XML Schema and Spark.

A type of XML Schema is mapped to the type of Spark that holds all or nearly all of its values. A value that does not
fit is an error and never changed; properties can be read as texts instead.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
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

from demaq.bulk.columns import DECIMAL_DIGITS, DECIMAL_SCALE, FIXED_COLUMNS, PropertyColumn, parse_decimal
from demaq.errors import OperatorError
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
"""Name, type, and whether it may be null."""
assert tuple([name for name, _, _ in FIXED]) == FIXED_COLUMNS

_INTEGER = DecimalType(DECIMAL_DIGITS, 0)
_DECIMAL = DecimalType(DECIMAL_DIGITS, DECIMAL_SCALE)
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


def spark_type(type_name: str) -> DataType:
    """Return Spark's type for a type of XML Schema, by its local name; a string if Spark has none."""
    return _TYPES.get(type_name, StringType())


def make_schema(properties: Sequence[PropertyColumn], as_text: bool) -> StructType:
    fields = [StructField(name, type_, nullable) for name, type_, nullable in FIXED]
    fields += [StructField(p.column, StringType() if as_text else spark_type(p.type), True) for p in properties]
    return StructType(fields)


def make_row(
    message: StoredMessage, snapshot: int, properties: Sequence[PropertyColumn], as_text: bool
) -> dict[str, Any]:
    """Return a message as it was at a snapshot, by columns."""
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


def _value(seq: int, known: PropertyColumn, value: PropertyValue) -> Any:
    try:
        return parse_value_for_spark(known.type, value.text)
    except (ValueError, KeyError, ArithmeticError):
        raise ValueDoesNotFit(
            f"message {seq}: property {known.property} is {value.text}, which does not fit into a column of type "
            f'{spark_type(known.type).simpleString()}; read texts with .option("types", "text")'
        ) from None


def parse_value_for_spark(type_name: str, text: str) -> Any:
    """Return the value of a property for its column.

    Raises ValueError, KeyError or ArithmeticError if it does not fit.
    """
    return _READERS.get(type_name, str)(text)


def format_value(value: Any, type_name: str) -> str:
    """Return a column's value in the lexical form of the property's type."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return {"inf": "INF", "-inf": "-INF", "nan": "NaN"}.get(repr(value), repr(value))
        case Decimal():
            return f"{value:f}"
        case date():  # and datetime, a subclass
            return value.isoformat()
        case bytes() | bytearray():
            return base64.b64encode(value).decode() if type_name == "base64Binary" else bytes(value).hex().upper()
        case _:
            return str(value)


def _parse_date(text: str) -> date:
    """Return the day as it is written, without its time zone."""
    match = _DATE.match(text)
    if match is None:
        raise ValueError(text)
    return date.fromisoformat(match.group())


def _parse_time(text: str) -> datetime:
    """Return a time in UTC. A time without a zone is in UTC, as in rules."""
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


_BY_TYPE: dict[type[DataType], Callable[[str], Any]] = {
    BooleanType: {"true": True, "1": True, "false": False, "0": False}.__getitem__,
    ByteType: int,
    ShortType: int,
    IntegerType: int,
    LongType: int,
    FloatType: float,
    DoubleType: float,
    DateType: _parse_date,
    TimestampType: _parse_time,
    BinaryType: bytes.fromhex,
}
_READERS: dict[str, Callable[[str], Any]] = {
    name: partial(parse_decimal, digits=type_.precision, scale=type_.scale)
    if isinstance(type_, DecimalType)
    else _BY_TYPE[type(type_)]
    for name, type_ in _TYPES.items()
}
_READERS["base64Binary"] = partial(base64.b64decode, validate=True)
