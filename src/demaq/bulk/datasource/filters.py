"""Filter push-down: bounds on `id` narrow the range of numbers that is read, other filters are applied to each row.

A filter is accepted only if it is decided here exactly as Spark would; the others are returned to Spark. Slices cannot
be used for filters on properties: a slice hides messages of former lifetimes, which such a filter does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

_COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda mine, given: bool(mine == given),
    GreaterThan: lambda mine, given: bool(mine > given),
    GreaterThanOrEqual: lambda mine, given: bool(mine >= given),
    LessThan: lambda mine, given: bool(mine < given),
    LessThanOrEqual: lambda mine, given: bool(mine <= given),
}
_NUMBERS = (ByteType, ShortType, IntegerType, LongType)
_ORDERED = ("id", "created")
"""Columns with filters other than equality. Comparisons of properties are left to Spark."""


@dataclass
class PushedFilters:
    """The filters that were accepted. A row must match all of them."""

    after: int = 0
    """Only messages with a larger number."""
    last: int | None = None
    """Only messages up to this number."""
    conditions: list[Filter] = field(default_factory=list)

    def accept(self, filters: Sequence[Filter], schema: StructType) -> Iterator[Filter]:
        """Keep the filters that can be decided here, and yield the others."""
        for condition in filters:
            if _can_decide(condition, schema):
                self.conditions.append(condition)
                self._narrow(condition)
            else:
                yield condition

    def matches(self, row: dict[str, Any]) -> bool:
        return all([_holds(condition, row) for condition in self.conditions])

    def _narrow(self, condition: Filter) -> None:
        match condition:
            case EqualTo(("id",), value):
                self._restrict(value, value)
            case In(("id",), values):
                self._restrict(min(values), max(values))
            case GreaterThan(("id",), value):
                self._restrict(value + 1, None)
            case GreaterThanOrEqual(("id",), value):
                self._restrict(value, None)
            case LessThan(("id",), value):
                self._restrict(None, value - 1)
            case LessThanOrEqual(("id",), value):
                self._restrict(None, value)

    def _restrict(self, first: int | None, last: int | None) -> None:
        if first is not None:
            self.after = max(self.after, first - 1)
        if last is not None:
            self.last = last if self.last is None else min(self.last, last)


def _can_decide(condition: Filter, schema: StructType) -> bool:
    column: tuple[str, ...] = getattr(condition, "attribute", ())
    types = {field.name: field.dataType for field in schema.fields}
    if len(column) != 1 or column[0] not in types:
        return False
    type_ = types[column[0]]
    match condition:
        case IsNotNull():
            return True
        case EqualTo(_, value):
            return _is_of(value, type_)
        case In(_, values):
            return len(values) > 0 and all([_is_of(value, type_) for value in values])
        case GreaterThan(_, value) | GreaterThanOrEqual(_, value) | LessThan(_, value) | LessThanOrEqual(_, value):
            return column[0] in _ORDERED and _is_of(value, type_)
    return False


def _is_of(value: Any, type_: DataType) -> bool:
    """Return whether Python compares this value with those of the column as Spark does.

    Not so for floats, due to NaN.
    """
    match type_:
        case StringType():
            return isinstance(value, str) and type_ == StringType()  # others have an order of their own
        case BooleanType():
            return isinstance(value, bool)
        case TimestampType():
            return isinstance(value, datetime) and value.tzinfo is not None
        case DateType():
            return isinstance(value, date) and not isinstance(value, datetime)
        case DecimalType():
            return isinstance(value, Decimal | int) and not isinstance(value, bool)
    return isinstance(type_, _NUMBERS) and isinstance(value, int) and not isinstance(value, bool)


def _holds(condition: Filter, row: dict[str, Any]) -> bool:
    mine = row[getattr(condition, "attribute")[0]]  # noqa: B009, not every filter has one, but those taken do
    if mine is None or isinstance(condition, IsNotNull):
        return mine is not None
    if isinstance(condition, In):
        return mine in condition.value
    return _COMPARISONS[type(condition)](mine, getattr(condition, "value"))  # noqa: B009, as above
