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

    For whoever owns the process.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(objects)


def note_received_bytes(size: int) -> None:
    """A body of this size was read from somebody outside, whatever becomes of it.

    An exception that somebody waits for is in a circle with the frames that it went through, and these hold the body.
    """
    global _bytes
    _bytes += size
    if _bytes >= BODIES_BYTES:
        _bytes = 0
        if gc.isenabled():  # else somebody wants to say himself when
            gc.collect(YOUNG)
