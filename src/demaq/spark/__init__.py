"""Spark: a session on any master, and work spread over its executors. Imported only where Spark is needed.

To users this is `register`, which comes from the data source: nothing in this package uses it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from demaq.bulk.datasource.registration import register

__all__ = ["register"]


def __getattr__(name: str) -> Any:
    if name != "register":
        raise AttributeError(f"module 'demaq.spark' has no attribute {name!r}")
    return import_module("demaq.bulk.datasource.registration").register
