"""What can go wrong, by whose turn it is: author, sender, the other side, operator. Anything else is our bug."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demaq.source import SourceLocation

ERROR_KINDS = (
    "dynamicError",
    "notWellFormed",
    "schemaViolation",
    "propertyError",
    "enqueueError",
    "disconnectedTransport",
    "nameResolution",
    "timeout",
    "routing",
    "refused",
    "invalidCertificate",
    "invalidSignature",
    "decryptionFailure",
    "authentication",
    "connectionClosed",
    "systemError",
)
"""What can be wrong with a message: each is the name of the first child of an error message."""


class DemaqError(Exception):
    """Something went wrong that a user can mend. The code never changes its meaning."""

    code = "DQ0000"


class ProgramError(DemaqError):
    """The author's turn: the program's text is at fault, at a place, with a way forward."""

    code = "DQ0001"

    def __init__(
        self, message: str, at: SourceLocation | None = None, hint: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.hint = hint
        self.others: tuple[ProgramError, ...] = ()
        """What else was found wrong in the same run."""
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.at}: {self.message}" if self.at is not None else self.message

    def __reduce__(self) -> tuple[type[ProgramError], tuple[str, SourceLocation | None, str | None, str]]:
        return ProgramError, (self.message, self.at, self.hint, self.code)


class MessageError(DemaqError):
    """The sender's turn: a message is not what the program asks for. Becomes a message in the error queue."""

    def __init__(self, kind: str, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.code = code if code is not None else f"demaq:{kind}"

    def __reduce__(self) -> tuple[type[MessageError], tuple[str, str, str]]:
        return MessageError, (self.kind, self.message, self.code)


class StillBusy(DemaqError):
    """The author's turn: an application that should come to rest goes on and on. Says what is still pending."""

    code = "DQ9401"

    def __init__(self, message: str, pending: Mapping[str, int] | None = None) -> None:
        super().__init__(message)
        self.pending = dict(pending or {})
        """How many messages wait in which queue."""


class OperatorError(DemaqError):
    """The operator's turn: a file, a setting or the machine is at fault."""

    code = "DQ9101"


class StoreError(OperatorError):
    """The store cannot do what it is asked: it is held by another process, too new, or the disk is full."""

    code = "DQ9201"


class StoreMissing(StoreError):
    """There is no store, or no application on it, as long as no node has started on it."""

    code = "DQ9206"


class StoreHeld(StoreError):
    """Another process is the writer of the store."""

    code = "DQ9207"


class NodeMissing(OperatorError):
    """No node runs on the store on this machine."""

    code = "DQ9208"


class StoreDamaged(StoreError):
    """The store's file is not what it was: trying again is of no use."""

    code = "DQ9204"


class StoreTakenOver(StoreError):
    """Another writer has the store now: what this one remembers of it is no longer true."""

    code = "DQ9205"


class EvaluatorUnavailable(OperatorError):
    """The process that evaluates rules cannot be started: no message's fault."""

    code = "DQ9303"


class SystemFault(OperatorError):
    """Processing a message failed for reasons of the system. It can be tried again."""

    code = "DQ9305"


class AlreadyProcessed(StoreError):
    """A step is about a message that was processed before. Nothing of the commit was kept."""

    code = "DQ9202"


class QueueNotEmpty(StoreError):
    """A changed program gives up a queue that still holds messages. Nothing was changed."""

    code = "DQ9203"
