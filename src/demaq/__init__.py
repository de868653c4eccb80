"""A server for declarative XML message processing.

The public names are those of `__all__`; everything else is private by convention.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from demaq._version import __version__

if TYPE_CHECKING:
    from demaq import errors, spark, testing
    from demaq.engine.intake import IncomingMessage
    from demaq.language.loader import load_program
    from demaq.messages import Message
    from demaq.server.node import Node
    from demaq.testing import Lab

__all__ = ["IncomingMessage", "Lab", "Message", "Node", "__version__", "errors", "load_program", "spark", "testing"]

_LAZY = {
    "IncomingMessage": "demaq.engine.intake",
    "Lab": "demaq.testing",
    "Message": "demaq.messages",
    "Node": "demaq.server.node",
    "errors": "demaq.errors",
    "load_program": "demaq.language.loader",
    "spark": "demaq.spark",
    "testing": "demaq.testing",
}
"""The module of each public name, imported on first access: a node needs Saxon, and most commands do not."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'demaq' has no attribute {name!r}")
    module = import_module(_LAZY[name])
    return module if _LAZY[name] == f"demaq.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    """Return the public names, for consoles and editors that complete them."""
    return sorted(__all__)
