"""Python's search for objects that hold each other, in a process that handles messages by the thousand.

They make many objects and hardly any circles. To look for these as often as Python does by itself takes a tenth of the
time of a node, and a third of that of an evaluator, whose cascades need all they make to their end.
"""

from __future__ import annotations

import gc

NODE_OBJECTS = 50_000
"""So many new objects make a node look."""


def look_seldom(objects: int = NODE_OBJECTS) -> None:
    """Look among what comes from now on, each time there are so many new objects. What is there stays.

    For whoever owns the process.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(objects)
