"""Values that are made by the thousand for each message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(cls: type[T]) -> type[T]:
    """Return a dataclass that is never changed, with named fields only.

    The type checker rejects assignments. If Python did so too, making one would take three times as long.
    """
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)
