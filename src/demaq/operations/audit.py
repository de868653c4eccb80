"""The audit trail: who has done what, when and why, and what became of it."""

from __future__ import annotations

import getpass
import os
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from demaq.errors import OperatorError
from demaq.records import record
from demaq.store.operator_records import AuditRecord
from demaq.store.protocol import Store

ACTIONS = (
    *("pause", "resume", "purge", "requeue", "replay", "redeliver", "load collection", "gc", "migrate"),
    *("restore", "accept loss"),
    *("add user", "remove user", "add token", "remove token"),
)
"""What an audit record can be about."""
WORDS_MAX = 1000
"""How many characters an operator may say about an action."""


@record
class AuditPage:
    """Audit records, newest first."""

    records: tuple[AuditRecord, ...]
    next_before: int | None
    """Where the next page begins; None if there are no more records."""


def list_audit(
    store: Store,
    *,
    before: int | None = None,
    limit: int = 50,
    actions: frozenset[str] = frozenset(),
    who: str | None = None,
) -> AuditPage:
    """Return a page of audit records with lower numbers than `before`."""
    found: list[AuditRecord] = []
    while True:
        page = store.audit(before, limit)
        for entry in page:
            before = entry.number
            if (not actions or entry.action in actions) and who in (None, entry.who):
                found.append(entry)
                if len(found) == limit:
                    return AuditPage(records=tuple(found), next_before=before if store.audit(before, 1) else None)
        if len(page) < limit:
            return AuditPage(records=tuple(found), next_before=None)


def describe_action(
    action: str, subject: str, *, who: str, why: str = "", details: Mapping[str, Any] | None = None, result: str = ""
) -> AuditRecord:
    """Return an audit record of what is done now."""
    return AuditRecord(
        at=datetime.now(UTC), who=who, action=action, subject=subject, why=why, result=result, details=details or {}
    )


def expect_words(why: str) -> None:
    """Raises an OperatorError if a reason is too long, or has characters that a terminal would obey."""
    if len(why) > WORDS_MAX:
        raise OperatorError(f"a reason has at most {WORDS_MAX:,} characters")
    if any([unicodedata.category(character) in ("Cc", "Cs") for character in why]):
        raise OperatorError("a reason is one line of text in UTF-8, without control characters")


def name_of_operator() -> str:
    """Return who runs this process, with who became that user by sudo."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a container may have no name for its user
        name = f"uid {os.getuid()}"
    former = os.environ.get("SUDO_USER")
    return f"{name} ({former})" if former and former != name else name
