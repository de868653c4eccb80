"""Create, close and terminate sequences of which this node is the source: its messages of the protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from demaq.gateways.outbox.delivery_results import DeliveryFailed
from demaq.gateways.outbox.soap_responses import SoapResponse
from demaq.gateways.outbox.soap_sender import SoapAttempt, SoapSender
from demaq.gateways.reliability.outbound_draft import JournalDraft, SequenceEntry
from demaq.soap.qualified_names import ENVELOPES
from demaq.soap.reliability.outbound_sequence import OutboundSequence
from demaq.soap.reliability.protocol_messages import (
    CloseSequence,
    CloseSequenceResponse,
    CreateSequenceResponse,
    ProtocolMessage,
    TerminateSequence,
    TerminateSequenceResponse,
    find_action,
)
from demaq.soap.reliability.protocol_writer import write_protocol_message
from demaq.soap.reliability.reliability_faults import FaultName, ReliabilityFault
from demaq.soap.reliability.reliability_versions import ACK_REQUESTED, LAST_MESSAGE
from demaq.soap.reliability.sequence_headers import AckRequest, SequenceHeader, write_ack_request, write_sequence
from demaq.soap.reliability.sequence_source import OutboundDecision, SendClose, SendNumbered, SendTerminate

R = TypeVar("R")
Change = Callable[[Callable[[JournalDraft], R]], Awaitable[R]]
"""Commits one change of the journal."""
REFUSALS = (FaultName.CREATE_SEQUENCE_REFUSED, FaultName.WSRM_REQUIRED)


async def create_sequence(
    entry: SequenceEntry, sender: SoapSender, attempt: SoapAttempt, change: Change[None]
) -> DeliveryFailed | None:
    """Ask the destination to create a sequence. Return why it does not exist after that."""
    response = await _exchange(entry.value.make_creation(), entry.name, sender, attempt)
    created = response.protocol

    def note(draft: JournalDraft) -> None:
        draft.note_facts(response.facts(entry.name))
        if isinstance(created, CreateSequenceResponse):
            draft.note_created(entry.name, created)

    await change(note)
    if isinstance(created, CreateSequenceResponse):
        return None
    if response.fault is not None:
        return explain_fault(response.fault, is_final=response.fault.name in REFUSALS)
    if isinstance(response.result, DeliveryFailed):
        return response.result
    return DeliveryFailed(kind="refused", reason="the answer to CreateSequence has no CreateSequenceResponse")


async def carry_out(
    entry: SequenceEntry,
    decision: OutboundDecision,
    make_id: Callable[[], str],
    sender: SoapSender,
    attempt: SoapAttempt,
    change: Change[None],
) -> None:
    """Send what ends a sequence, and note what is answered. What fails is decided anew when it is due."""
    value, name = entry.value, entry.name
    if value.identifier is None:
        return
    if isinstance(decision, SendClose):
        response = await _send_close(value, value.identifier, make_id(), sender, attempt)
        is_over = isinstance(response.protocol, CloseSequenceResponse) or (
            not value.version.has_close and bool(response.acknowledgements)
        )
        await change(lambda draft: _note(draft, name, response, draft.note_closed if is_over else None))
    elif isinstance(decision, SendTerminate):
        message = TerminateSequence(
            version=value.version, identifier=value.identifier, last_number=decision.last_number
        )
        response = await _exchange(message, make_id(), sender, attempt)
        # 1.0 has no answer: it was transferred, whatever is in the response. gSOAP returns a TerminateSequence in it
        # whose Identifier is empty.
        is_over = isinstance(response.protocol, TerminateSequenceResponse) or (
            not value.version.has_close and response.is_accepted
        )
        await change(lambda draft: _note(draft, name, response, draft.note_terminated if is_over else None))
    elif isinstance(decision, SendNumbered):
        response = await _send_marker(value, value.identifier, decision, make_id(), sender, attempt)
        await change(lambda draft: _note(draft, name, response, None))


def write_numbered(value: OutboundSequence, number: int, soap: str, *, is_again: bool) -> list[str]:
    """Return the header blocks of a message in a sequence. A repeated one asks for an acknowledgement."""
    assert value.identifier is not None, "it was created"
    header = SequenceHeader(version=value.version, identifier=value.identifier, message_number=number)
    blocks = [write_sequence(header, ENVELOPES[soap])]
    if is_again:
        blocks.append(write_ack_request(AckRequest(version=value.version, identifier=value.identifier)))
    return blocks


def explain_fault(fault: ReliabilityFault, *, is_final: bool) -> DeliveryFailed:
    """Return the failure of a message because of a fault about its sequence. It names the fault."""
    reason = f"fault {fault.name} of WS-ReliableMessaging: {fault.reason}"
    return DeliveryFailed(kind="refused", reason=reason, again=not is_final)


def _note(draft: JournalDraft, name: str, response: SoapResponse, conclude: Callable[[str], None] | None) -> None:
    draft.note_facts(response.facts(name))
    if conclude is not None:
        conclude(name)


async def _send_close(
    value: OutboundSequence, identifier: str, message_id: str, sender: SoapSender, attempt: SoapAttempt
) -> SoapResponse:
    """Close a sequence; 1.0 cannot, and is asked what it has received."""
    if value.version.has_close:
        message = CloseSequence(version=value.version, identifier=identifier, last_number=value.last_number)
        return await _exchange(message, message_id, sender, attempt)
    asks = write_ack_request(AckRequest(version=value.version, identifier=identifier))
    return await sender.exchange_protocol(None, value.version.action(ACK_REQUESTED), message_id, attempt, [asks])


async def _send_marker(
    value: OutboundSequence,
    identifier: str,
    decision: SendNumbered,
    message_id: str,
    sender: SoapSender,
    attempt: SoapAttempt,
) -> SoapResponse:
    assert decision.is_marker, "messages are sent by the outbox"
    header = SequenceHeader(
        version=value.version, identifier=identifier, message_number=decision.message_number, is_last=True
    )
    blocks = [write_sequence(header, ENVELOPES[sender.client.interface.version])]
    if decision.asks_for_ack:
        blocks.append(write_ack_request(AckRequest(version=value.version, identifier=identifier)))
    return await sender.exchange_protocol(None, value.version.action(LAST_MESSAGE), message_id, attempt, blocks)


async def _exchange(
    message: ProtocolMessage, message_id: str, sender: SoapSender, attempt: SoapAttempt
) -> SoapResponse:
    body = write_protocol_message(message)
    return await sender.exchange_protocol(body, find_action(message), message_id, attempt)
