"""Telemetry of `demaq run`: its options, the file of settings and the environment, and what is reported about it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from demaq.errors import OperatorError
from demaq.server.node import Node
from demaq.server.telemetry import Telemetry, find_settings

if TYPE_CHECKING:
    from demaq.gateways.settings import Settings


def start_telemetry(
    node: Node, endpoint: str | None, share: float | None, settings: Settings | None, tell: Callable[[str], None]
) -> None:
    """Let a node record spans, if that is wanted. Raises an OperatorError if it is not possible.

    If nothing but the environment asks for it, which may be meant for others, the node runs without.
    """
    if settings is not None:
        endpoint = settings.telemetry.endpoint if endpoint is None else endpoint
        share = settings.telemetry.sample if share is None else share
    try:
        found = find_settings(endpoint, share, os.environ)
        telemetry = None if found is None else Telemetry(found, node.store.epochs().message_name)
    except OperatorError as error:
        if endpoint is not None:
            raise
        tell(f"telemetry is off: {error}")
        return
    if telemetry is not None:
        node.record_spans(telemetry)
