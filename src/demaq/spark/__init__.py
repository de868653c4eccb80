"""Spark: a session on any master, and tasks on its executors. Imported only if Spark is needed.

The public name is `register`, of the data source (demaq.bulk.datasource).
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
