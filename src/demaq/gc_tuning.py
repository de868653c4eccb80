"""Python's search for objects that hold each other, in a process that handles messages by the thousand.

They make many objects and hardly any circles. To look for these as often as Python does by itself takes a tenth of the
time of a node, and a third of that of an evaluator, whose cascades need all they make to their end.
"""

from __future__ import annotations

import gc

NODE_OBJECTS = 50_000
"""So many new objects make a node look."""
BODIES_BYTES = 32_000_000
"""So many bytes that have come in make it look too: few objects can hold much."""

YOUNG = 1
"""What has not been looked at twice."""

_bytes = 0


def tune_gc(objects: int = NODE_OBJECTS) -> None:
    """Look among what comes from now on, each time there are so many new objects. What is there stays.

    For the program that owns the process.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(objects)


def note_received_bytes(size: int) -> None:
    """Count a body of this size that was read from outside, and collect garbage after enough of them.

    An exception that a caller awaits is in a reference cycle with its frames, and these hold the body.
    """
    global _bytes
    _bytes += size
    if _bytes >= BODIES_BYTES:
        _bytes = 0
        if gc.isenabled():  # otherwise the program decides itself when
            gc.collect(YOUNG)
