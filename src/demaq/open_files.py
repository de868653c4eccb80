"""How many files and connections this process may have open at once."""

from __future__ import annotations

import contextlib
import resource


def allow_open_files(wanted: int) -> int:
    """Let this process open so many files, as far as the system allows that. Return how many it may open then.

    Many systems allow 1,024 by default, and much more to a process that asks for it.
    """
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY or allowed >= wanted:
        return wanted
    raised = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, most))
        return raised
    return allowed
