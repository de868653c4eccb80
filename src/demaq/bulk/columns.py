"""Messages as rows of a table: fixed columns of every message, then one column for each declared property.

The data source of Spark (`datasource/schema.py`) has the same columns with types of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
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
"""Added to the name of a property that is the name of another column."""

_INTEGERS = frozenset(
    [
        *("byte", "int", "integer", "long", "negativeInteger", "nonNegativeInteger", "nonPositiveInteger"),
        *("positiveInteger", "short", "unsignedByte", "unsignedInt", "unsignedLong", "unsignedShort"),
    ]
)
_TIMES = ("dateTime", "dateTimeStamp")
_READ_FIXED: Mapping[str, Callable[[StoredMessage], Any]] = {
    "id": lambda message: message.seq,
    "queue": lambda message: message.queue,
    "body": lambda message: message.body,
    "created": lambda message: message.created,
    "rule": lambda message: message.rule,
    "trigger": lambda message: message.trigger,
    "origin": lambda message: message.origin,
    "processed": lambda message: message.processed is not None,
}
FIXED_COLUMNS = tuple(_READ_FIXED)


class ParquetValueError(OperatorError):
    """A value is outside of the range of its Parquet column."""

    code = "DQ9103"


@dataclass(frozen=True, slots=True)
class PropertyColumn:
    """A declared property of a queue as a column."""

    column: str
    property: str
    type: str
    """The local name of its type in XML Schema."""


def property_columns(program: Program | None, queue: str) -> tuple[PropertyColumn, ...]:
    """Return a column for each declared property of a queue, in order.

    Names differ in more than case, as Spark needs.
    """
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
    return tuple(found)


def make_arrow_schema(columns: Sequence[PropertyColumn]) -> pyarrow.Schema:
    import pyarrow as pa

    fixed = {"id": pa.int64(), "created": pa.timestamp("us", "UTC"), "trigger": pa.int64(), "origin": pa.int64()}
    fields = [(name, fixed.get(name, pa.string())) for name in FIXED_COLUMNS if name != "processed"]
    fields.append(("processed", pa.bool_()))
    return pa.schema(fields + [(column.column, _arrow_type(column.type)) for column in columns])


def make_arrow_table(messages: Sequence[StoredMessage], columns: Sequence[PropertyColumn]) -> pyarrow.Table:
    """Return messages as a table. Raises ParquetValueError if a property does not fit into its column."""
    import pyarrow as pa

    data = {name: [read(message) for message in messages] for name, read in _READ_FIXED.items()}
    for column in columns:
        data[column.column] = [_value(message, column) for message in messages]
    return pa.table(data, schema=make_arrow_schema(columns))


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
        return parse_value(column.type, value.text)
    except (ValueError, ArithmeticError):
        raise ParquetValueError(
            f"message {message.seq}: {value.text} as xs:{column.type} is more than a column of Parquet holds "
            f"(property {column.property}); --to xml takes it"
        ) from None


def parse_value(type_: str, text: str) -> Any:
    """Return the Python value of a property.

    Raises ValueError or ArithmeticError if Python or the column cannot hold it.
    """
    if type_ in _INTEGERS:
        number = int(text)
        if not INTEGER_MIN <= number <= INTEGER_MAX:
            raise ValueError(text)
        return number
    match type_:
        case "boolean":
            return text in ("true", "1")
        case "decimal":
            return parse_decimal(text, DECIMAL_DIGITS, DECIMAL_SCALE)
        case "double" | "float":
            return float(text)
        case "date":
            return date.fromisoformat(text[:10])
        case "dateTime" | "dateTimeStamp":
            time = datetime.fromisoformat(text)
            return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return text


def parse_decimal(text: str, digits: int, scale: int) -> Decimal:
    """Return a number for a decimal column. Raises ValueError if it has more digits before or after the point."""
    number = Decimal(text)
    _, figures, exponent = number.as_tuple()
    if not isinstance(exponent, int) or -exponent > scale or len(figures) + exponent > digits - scale:
        raise ValueError(text)
    return number
