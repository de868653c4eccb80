"""The address of a Spark master: whether tasks run locally, and on which kind of cluster."""

from __future__ import annotations

import re

MASTER_DEFAULT = "local[*]"
STANDALONE = "spark://"
LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?$")


def is_local(master: str) -> bool:
    """Return whether tasks run on this machine."""
    return LOCAL.match(master) is not None


def is_standalone(master: str) -> bool:
    """Return whether it is a standalone cluster, whose master and workers an operator has started."""
    return master.startswith(STANDALONE)
