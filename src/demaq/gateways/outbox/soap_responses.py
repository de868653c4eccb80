"""What responses to SOAP requests say, from the outside to the inside: security, addressing, sequences, the message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from lxml import etree

from demaq.documents import parse_document
from demaq.errors import MessageError
from demaq.gateways.outbox.delivery_results import Delivered, DeliveryFailed, ResponseFacts
from demaq.gateways.outbox.http_connection import HttpResponse
from demaq.gateways.outbox.http_results import AGAIN_STATUSES, judge_fault, judge_refusal, judge_unusable
from demaq.gateways.outbox.soap_client import ClientPolicy, CollectedReplays, ComposedRequest
from demaq.soap import (
    AddressingHeaders,
    Envelope,
    Fault,
    detect_version,
    read_addressing,
    read_envelope,
    read_fault,
    read_response,
)
from demaq.soap.addressing.addressing_versions import ADDRESSING_HEADERS, ADDRESSING_VERSIONS
from demaq.soap.qualified_names import shorten
from demaq.soap.refusals import MUST_UNDERSTAND, VERSION_MISMATCH
from demaq.soap.reliability.protocol_messages import ProtocolMessage
from demaq.soap.reliability.protocol_reader import read_protocol_message
from demaq.soap.reliability.reliability_faults import ReliabilityFault, read_reliability_fault
from demaq.soap.reliability.reliability_versions import ACKNOWLEDGEMENT, RELIABILITY_HEADERS
from demaq.soap.reliability.sequence_headers import Acknowledgement, read_reliability
from demaq.soap.security.wss_names import WSSE, WSU

_PROTOCOLS: Final = frozenset([*ADDRESSING_VERSIONS, WSSE, WSU])
_KINDS: Final = ("invalidSignature", "decryptionFailure", "authentication", "invalidCertificate")
_KINDS_OF_FAULTS: Final = {
    f"Q{{{WSSE}}}{name}": kind
    for name, kind in (
        ("FailedAuthentication", "authentication"),
        ("FailedCheck", "invalidSignature"),
        ("InvalidSecurityToken", "invalidCertificate"),
        ("SecurityTokenUnavailable", "invalidSignature"),
    )
}
"""The error of a message to which the other side answers with a fault of WS-Security (12)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoapResponse:
    """What a response says."""

    result: Delivered | DeliveryFailed | None = None
    """What becomes of the message; None if it was accepted, and there is neither a reply nor a fault."""
    status: str | None = None
    """That of HTTP; None if there is no response."""
    acknowledgements: tuple[Acknowledgement, ...] = ()
    fault: ReliabilityFault | None = None
    protocol: ProtocolMessage | None = None
    is_received: bool = False
    """Whether the application has answered."""
    is_verified: bool = True
    """False if it is not secured as the policy demands. Then nothing in it counts."""
    replay_keys: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def is_accepted(self) -> bool:
        """Return whether the other side has taken the request, even if the body of its response cannot be used."""
        if self.status is None or not self.is_verified or self.fault is not None:
            return False
        has_fault = isinstance(self.result, DeliveryFailed) and self.result.fault is not None
        return self.status.startswith("2") and not has_fault

    def facts(self, sequence: str | None = None) -> ResponseFacts:
        """Return what is stored together with what becomes of the message."""
        return ResponseFacts(
            sequence=sequence,
            acknowledgements=self.acknowledgements,
            fault=self.fault,
            is_received=self.is_received,
            replay_keys=self.replay_keys,
        )


class ResponseReader:
    """Reads the responses to one gateway's requests. May be used by several threads."""

    def __init__(self, client: ClientPolicy) -> None:
        self._client = client
        self._understood: Final = ADDRESSING_HEADERS | (
            RELIABILITY_HEADERS if client.reliability is not None else frozenset()
        )

    def read(self, request: ComposedRequest, response: HttpResponse) -> SoapResponse:
        """Return what a response says. Never raises for what others have written."""
        return replace(self._read(request, response), status=response.status_text)

    def judge_unreadable(
        self, request: ComposedRequest, response: HttpResponse, kind: str, reason: str
    ) -> SoapResponse:
        """Return what a response means whose body cannot be read: its status alone says whether the message arrived.

        If it did, it is not sent again: the other side would only process it once more.
        """
        result: DeliveryFailed | None = None
        if not response.is_success:
            result = judge_refusal(response)
        elif request.expects_reply:
            result = judge_unusable(kind, reason, response)
        return SoapResponse(result=result, status=response.status_text)

    def _read(self, request: ComposedRequest, response: HttpResponse) -> SoapResponse:
        tree = _parse_envelope(response.body)
        if tree is None:
            return SoapResponse(result=self._judge_bare(request, response))
        if self._client.is_plain and request.message_id is None:
            return SoapResponse(result=self._judge_plain(request, response, tree))
        keys: Mapping[str, datetime] = {}
        if self._client.security is not None:
            replays = CollectedReplays()
            try:
                verified = self._client.security.verify_answer(
                    response.body, replays, request_signatures=request.signatures, is_https=request.is_https
                )
            except MessageError as error:
                return SoapResponse(result=_judge_unsecured(error, tree, response), is_verified=False)
            keys = replays.keys
            response = replace(response, body=verified.data)
            tree = parse_document(verified.data).tree
        return self._read_envelope(request, response, tree, keys)

    def _judge_bare(self, request: ComposedRequest, response: HttpResponse) -> Delivered | DeliveryFailed | None:
        """Return what a response without an envelope means."""
        if not response.is_success:
            return judge_refusal(response)
        if not request.expects_reply or request.operation is None:
            return None
        return self._read_reply(request, response)

    def _judge_plain(
        self, request: ComposedRequest, response: HttpResponse, tree: etree._ElementTree
    ) -> Delivered | DeliveryFailed | None:
        """Return what an envelope means whose header was not asked for."""
        try:
            fault = read_fault(tree)
        except MessageError:
            fault = None
        return judge_fault(fault, response) if fault is not None else self._judge_bare(request, response)

    def _read_envelope(
        self,
        request: ComposedRequest,
        response: HttpResponse,
        tree: etree._ElementTree,
        keys: Mapping[str, datetime],
    ) -> SoapResponse:
        try:
            fault = read_fault(tree)
            envelope = read_envelope(tree, self._understood if fault is None else _names(tree))
            addressing = read_addressing(envelope.headers, envelope.version)
            _check_related(request, addressing)
            acknowledgements = self._read_acknowledgements(envelope)
            protocol = read_protocol_message(envelope) if self._client.reliability is not None and not fault else None
        except MessageError as error:
            unusable = judge_unusable(error.kind, error.message, response)
            return SoapResponse(result=unusable if response.is_success else judge_refusal(response), replay_keys=keys)
        if fault is not None:
            return self._read_fault(fault, envelope, response, acknowledgements, keys)
        if not response.is_success:
            return SoapResponse(result=judge_refusal(response), acknowledgements=acknowledgements, replay_keys=keys)
        result = None
        if request.wants_reply and protocol is None and not self._is_bare(request, envelope, addressing):
            result = self._read_reply(request, response)
        return SoapResponse(
            result=result,
            acknowledgements=acknowledgements,
            protocol=protocol,
            is_received=result is not None,
            replay_keys=keys,
        )

    def _read_acknowledgements(self, envelope: Envelope) -> tuple[Acknowledgement, ...]:
        if self._client.reliability is None:
            return ()
        return tuple(read_reliability(envelope.headers, envelope.version).acknowledgements)

    def _read_fault(
        self,
        fault: Fault,
        envelope: Envelope,
        response: HttpResponse,
        acknowledgements: tuple[Acknowledgement, ...],
        keys: Mapping[str, datetime],
    ) -> SoapResponse:
        about = read_reliability_fault(fault, envelope.headers) if self._client.reliability is not None else None
        result = judge_fault(fault, response)
        if self._client.security is not None:
            result = replace(result, kind=_find_kind(fault) or result.kind)
        return SoapResponse(
            result=result,
            acknowledgements=acknowledgements,
            fault=about,
            is_received=about is None and not _is_of_protocol(fault),
            replay_keys=keys,
        )

    def _is_bare(self, request: ComposedRequest, envelope: Envelope, addressing: AddressingHeaders | None) -> bool:
        """Return whether an envelope has no more than header blocks, such as acknowledgements."""
        version, operation = self._client.reliability, request.operation
        if envelope.body is not None or operation is None or operation.output is None:
            return False
        if addressing is not None and version is not None and addressing.action == version.action(ACKNOWLEDGEMENT):
            return True
        return version is not None and not operation.output.is_empty

    def _read_reply(self, request: ComposedRequest, response: HttpResponse) -> Delivered | DeliveryFailed | None:
        assert request.operation is not None, "only an application's request has a reply"
        try:
            reply = read_response(
                self._client.interface,
                request.operation,
                response.status,
                response.headers.get("content-type"),
                response.body,
                self._understood,
            )
        except MessageError as error:
            return judge_unusable(error.kind, error.message, response)
        if isinstance(reply, Fault):
            return judge_fault(reply, response)
        return Delivered(status=response.status_text, reply=reply) if reply is not None else None


def _parse_envelope(body: bytes) -> etree._ElementTree | None:
    if not body.strip():
        return None
    try:
        tree = parse_document(body).tree
        return tree if detect_version(tree) is not None else None
    except MessageError:
        return None


def _names(tree: etree._ElementTree) -> frozenset[str]:
    """Return the names of all header blocks: a fault is read whatever they are."""
    return frozenset([str(block.tag) for child in tree.getroot() for block in child if isinstance(block.tag, str)])


def _check_related(request: ComposedRequest, addressing: AddressingHeaders | None) -> None:
    """Raises MessageError for the answer to another message."""
    answered = addressing.answers if addressing is not None else None
    if answered is not None and request.message_id is not None and answered != request.message_id:
        raise MessageError("refused", f"it answers another message: RelatesTo is {shorten(answered)}")


def _is_of_protocol(fault: Fault) -> bool:
    """Return whether a fault is by a layer before the application: of the header, or of the envelope."""
    spaces = [code[2:].partition("}")[0] for code in (fault.code, *fault.subcodes) if code.startswith("Q{")]
    return fault.code in (VERSION_MISMATCH, MUST_UNDERSTAND) or any([space in _PROTOCOLS for space in spaces])


def _find_kind(fault: Fault) -> str | None:
    """Return the kind of error that a fault of WS-Security means for the message that was sent."""
    codes = (fault.code, *fault.subcodes)
    return next(iter([_KINDS_OF_FAULTS[code] for code in codes if code in _KINDS_OF_FAULTS]), None)


def _judge_unsecured(error: MessageError, tree: etree._ElementTree, response: HttpResponse) -> DeliveryFailed:
    """Return the failure of a message whose answer is not secured, or not as it should be. The status says the rest."""
    fault = read_fault(tree)
    kind = error.kind if error.kind in _KINDS else "refused"
    reason = f"an answer came that is not secured as the policy demands: {error.message}"
    if fault is not None:
        kind = _find_kind(fault) or kind
        reason = f"an unsecured fault came in place of an answer ({shorten(fault.reason)}): {error.message}"
    return DeliveryFailed(
        kind=kind,
        reason=reason,
        status=response.status_text,
        again=response.status >= 500 or response.status in AGAIN_STATUSES,
    )
