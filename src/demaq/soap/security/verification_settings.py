"""Limits on what is accepted in a security header, and the cache by which repeated messages are recognised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityLimits:
    """How much one security header may hold. More is refused before anything is computed."""

    header_bytes_max: int = 256 * 1024
    elements_max: int = 2_000
    depth_max: int = 24
    """How deeply elements may be nested in the header."""
    tokens_max: int = 8
    signatures_max: int = 4
    references_max: int = 64
    """For each signature, and for all encrypted data."""
    keys_max: int = 8
    """EncryptedKey and ReferenceList elements. For each of them that refers to data the envelope is parsed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationSettings:
    """How old a message may be, and how much its header may hold."""

    clock_skew: timedelta = timedelta(minutes=5)
    """How much the clock of a sender may differ from ours."""
    lifetime_max: timedelta = timedelta(minutes=5)
    """How long after its creation a message is accepted, even if it says that it expires later."""
    replay_memory: timedelta = timedelta(days=1)
    """How long a signature without a signed timestamp is remembered. A later repetition is not recognised."""
    limits: SecurityLimits = field(default_factory=SecurityLimits)


class ReplayCache(Protocol):
    """Remembers messages, durably. One call for each message, after everything else was checked."""

    def remember(self, keys: Mapping[str, datetime]) -> bool:
        """Remember all keys until their times, and return whether all of them are new. If one is not, keep none."""
        ...
