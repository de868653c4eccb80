"""What the intake is asked about sequences, and what it says: as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from demaq.gateways.reliability.inbound_sequences import SequenceOwner
from demaq.soap.reliability.inbound_sequence import InboundSequence
from demaq.soap.reliability.protocol_messages import CloseSequence, CreateSequence, TerminateSequence
from demaq.soap.reliability.reliability_faults import ReliabilityFault
from demaq.soap.reliability.sequence_creation import CreationRules
from demaq.soap.reliability.sequence_headers import Acknowledgement, AckRequest, SequenceHeader

NO_OFFERS: Final = CreationRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class SequencedArrival:
    """A message came in a sequence."""

    owner: SequenceOwner
    header: SequenceHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceRequest:
    """A request about a sequence, which brings no message."""

    owner: SequenceOwner
    message: CreateSequence | CloseSequence | TerminateSequence | AckRequest | SequenceHeader
    """A SequenceHeader alone is a message of 1.0 that only marks the end of its sequence."""
    rules: CreationRules = NO_OFFERS
    message_id: str | None = None
    """Of a CreateSequence: by it a repeated one is recognised."""
    new_identifier: str = ""
    """Of the sequence that is created."""
    replay_keys: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceOutcome:
    """A sequence after a message or a request, as it is stored now."""

    sequence: InboundSequence | None
    """None if it is not known here."""
    fault: ReliabilityFault | None = None
    acknowledges: bool = False
    """Whether the source gets an acknowledgement."""

    @property
    def acknowledgement(self) -> Acknowledgement | None:
        """Return what is acknowledged with the answer."""
        return self.sequence.acknowledge() if self.sequence is not None and self.acknowledges else None
