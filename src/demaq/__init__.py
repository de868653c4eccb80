"""A server for declarative XML message processing."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from demaq.server.node import Node

__version__ = "0.1.0"

__all__ = ["Node", "__version__"]


def __getattr__(name: str) -> Any:
    """`demaq.Node` is imported when somebody asks for it: it brings Saxon along, and most commands need none."""
    if name == "Node":
        from demaq.server.node import Node

        return Node
    raise AttributeError(f"module 'demaq' has no attribute {name!r}")
