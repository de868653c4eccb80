"""Allow recursion as deep as the deepest program that is accepted, and suspend the garbage collector meanwhile.

A call from Python to Python takes no C stack, so the interpreter's limit can be raised while a tree is parsed or
walked. The limit is a setting of the whole process: the first to enter raises it, the last to leave restores it. So is
the garbage collector, which finds nothing in trees and takes half of the time of large ones.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NESTING_MAX = 20_000
"""How deeply constructs of a program may be nested. Every pass over a tree relies on it."""

_FRAMES_PER_LEVEL = 40

_lock = threading.Lock()
_inside = 0
_limit_before = 0
_collecting_before = False


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Allow recursion over trees of the greatest allowed nesting inside this block."""
    global _inside, _limit_before, _collecting_before
    with _lock:
        if _inside == 0:
            _limit_before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_limit_before, NESTING_MAX * _FRAMES_PER_LEVEL))
            _collecting_before = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                sys.setrecursionlimit(_limit_before)
                if _collecting_before:
                    gc.enable()
