"""Messages as rows of a table: one column for each thing that is known about all of them, one for each property."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from demaq.errors import OperatorError
from demaq.language.program.program import Program
from demaq.store.protocol import StoredMessage

if TYPE_CHECKING:
    import pyarrow

DECIMAL_DIGITS = 38
DECIMAL_SCALE = 18
INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1
PROPERTY_PREFIX = "property_"
"""For a property that is called like another column."""

_INTEGERS = frozenset(
    [
        *("byte", "int", "integer", "long", "negativeInteger", "nonNegativeInteger", "nonPositiveInteger"),
        *("positiveInteger", "short", "unsignedByte", "unsignedInt", "unsignedLong", "unsignedShort"),
    ]
)
_TIMES = ("dateTime", "dateTimeStamp")
_OF_ALL: Mapping[str, Callable[[StoredMessage], Any]] = {
    "id": lambda message: message.seq,
    "queue": lambda message: message.queue,
    "body": lambda message: message.body,
    "created": lambda message: message.created,
    "rule": lambda message: message.rule,
    "trigger": lambda message: message.trigger,
    "origin": lambda message: message.origin,
    "processed": lambda message: message.processed is not None,
}
FIXED_COLUMNS = tuple(_OF_ALL)


class NoSuchValue(OperatorError):
    """A value is outside of what a column can hold."""

    code = "DQ9103"


@dataclass(frozen=True, slots=True)
class PropertyColumn:
    column: str
    property: str
    type: str
    """Local name of the property's type."""


def property_columns(program: Program | None, queue: str) -> list[PropertyColumn]:
    """A column for each declared property of a queue. Names count as equal whatever their case: to Spark they are."""
    taken = set(FIXED_COLUMNS)
    found: list[PropertyColumn] = []
    for prop in program.properties_of(queue) if program is not None else ():
        if prop.decl is None:
            continue
        column = prop.name
        while column.lower() in taken:
            column = PROPERTY_PREFIX + column
        taken.add(column.lower())
        found.append(PropertyColumn(column, prop.name, prop.type))
    return found


def arrow_schema(columns: Sequence[PropertyColumn]) -> pyarrow.Schema:
    import pyarrow as pa

    fixed = {"id": pa.int64(), "created": pa.timestamp("us", "UTC"), "trigger": pa.int64(), "origin": pa.int64()}
    fields = [(name, fixed.get(name, pa.string())) for name in FIXED_COLUMNS if name != "processed"]
    fields.append(("processed", pa.bool_()))
    return pa.schema(fields + [(column.column, _arrow_type(column.type)) for column in columns])


def arrow_table(messages: Sequence[StoredMessage], columns: Sequence[PropertyColumn]) -> pyarrow.Table:
    """Messages as a table. Raises NoSuchValue where a property does not fit into its column."""
    import pyarrow as pa

    data = {name: [read(message) for message in messages] for name, read in _OF_ALL.items()}
    for column in columns:
        data[column.column] = [_value(message, column) for message in messages]
    return pa.table(data, schema=arrow_schema(columns))


def _arrow_type(type_: str) -> pyarrow.DataType:
    import pyarrow as pa

    if type_ in _INTEGERS:
        return pa.int64()
    if type_ in _TIMES:
        return pa.timestamp("us", "UTC")
    types = {
        "boolean": pa.bool_(),
        "decimal": pa.decimal128(DECIMAL_DIGITS, DECIMAL_SCALE),
        "double": pa.float64(),
        "float": pa.float32(),
        "date": pa.date32(),
    }
    return types.get(type_, pa.string())


def _value(message: StoredMessage, column: PropertyColumn) -> Any:
    value = message.properties.get(column.property)
    if value is None:
        return None
    try:
        return python_value(column.type, value.text)
    except (ValueError, ArithmeticError):
        raise NoSuchValue(
            f"message {message.seq}: {value.text} as xs:{column.type} is more than a column of Parquet holds "
            f"(property {column.property}); --to xml takes it"
        ) from None


def python_value(type_: str, text: str) -> Any:
    """A value of a property as Python knows it. Raises a ValueError or an ArithmeticError where it knows no such."""
    if type_ in _INTEGERS:
        number = int(text)
        if not INTEGER_MIN <= number <= INTEGER_MAX:
            raise ValueError(text)
        return number
    match type_:
        case "boolean":
            return text in ("true", "1")
        case "decimal":
            return _decimal(text)
        case "double" | "float":
            return float(text)
        case "date":
            return date.fromisoformat(text[:10])
        case "dateTime" | "dateTimeStamp":
            time = datetime.fromisoformat(text)
            return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return text


def _decimal(text: str) -> Decimal:
    number = Decimal(text)
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or -exponent > DECIMAL_SCALE:
        raise InvalidOperation(text)
    if len(digits) + exponent > DECIMAL_DIGITS - DECIMAL_SCALE:
        raise InvalidOperation(text)
    return number
