"""A SOAP request as far as it has been read: what an answer or a fault to it needs is known as early as possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from demaq.documents import Document
from demaq.soap import AddressingHeaders, Operation
from demaq.soap.reliability.protocol_messages import ProtocolMessage
from demaq.soap.reliability.sequence_headers import ReliabilityBlocks
from demaq.soap.security import VerifiedEnvelope

NO_BLOCKS = ReliabilityBlocks()


@dataclass(slots=True, kw_only=True)
class ReceivedEnvelope:
    """Filled in from the outside to the inside, each part after what it depends on was checked."""

    version: str
    """Of SOAP."""
    verified: VerifiedEnvelope | None = None
    replay_keys: Mapping[str, datetime] = field(default_factory=dict)
    """What it is remembered by, so that it is not accepted twice."""
    addressing: AddressingHeaders | None = None
    blocks: ReliabilityBlocks = NO_BLOCKS
    protocol: ProtocolMessage | None = None
    """The message of WS-ReliableMessaging that it is, if it is none of the application."""
    operation: Operation | None = None
    document: Document | None = None
    """The message; None if it has none."""
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def sender(self) -> str | None:
        """The user, or else the subject of the certificate, that the message was verified to be from."""
        if self.verified is None:
            return None
        return self.verified.sender.user or self.verified.sender.subject

    def remember(self, keys: Mapping[str, datetime]) -> bool:
        """Note by what the message is recognised. Whether it was seen before is decided when it is stored."""
        self.replay_keys = dict(keys)
        return True
