"""A server for declarative XML message processing."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from demaq._version import __version__

if TYPE_CHECKING:
    from demaq import errors, spark, testing
    from demaq.server.node import Node
    from demaq.testing import Lab

__all__ = ["Lab", "Node", "__version__", "errors", "spark", "testing"]

_LAZY = {
    "Lab": "demaq.testing",
    "Node": "demaq.server.node",
    "errors": "demaq.errors",
    "spark": "demaq.spark",
    "testing": "demaq.testing",
}
"""Where each public name is imported from when somebody asks for it: a node brings Saxon along, and most commands need
none."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'demaq' has no attribute {name!r}")
    module = import_module(_LAZY[name])
    return module if _LAZY[name] == f"demaq.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    """Return the public names, for consoles and editors that complete them."""
    return sorted(__all__)
