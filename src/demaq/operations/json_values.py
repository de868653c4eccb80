"""What operations return, as values of JSON: one helper for all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any

from demaq.messages import PropertyValue


def as_json(value: Any) -> Any:
    """Return a record, or anything made of records, as values of JSON. Times are written as ISO 8601 does."""
    if isinstance(value, PropertyValue):
        return {"type": f"xs:{value.type}", "value": value.text}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted([as_json(item) for item in value])
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [as_json(item) for item in value]
    return value
