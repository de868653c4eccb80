"""Listen for mails by SMTP: each is stored in the queues of its recipients before the sender gets 250.

A mail that is no message is refused within the dialogue. That is the bounce: the server that wanted to hand it over
writes to the author, with our reason. We never write such a mail ourselves, because the author's address is often
forged, and an uninvolved person would get it.

| what happened | answer |
| --- | --- |
| stored in every queue, or it had been before | 250 2.0.0 |
| unknown address | 550 5.1.1, at RCPT |
| too large | 552 5.3.4 |
| not well-formed, no XML part, against the schema, … | 554 5.6.0 with the reason; the queue's intake keeps what came |
| the node is overloaded, or has failed | 451 4.3.x; the sender tries again |
| a gateway is paused, or its rate is exceeded | 451 4.3.2, the same |
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import socket
from collections.abc import Mapping
from typing import Any, Protocol

from demaq.errors import DemaqError, MessageError, OperatorError
from demaq.gateways.admission import Overloaded
from demaq.gateways.http.headers import HOPS_HEADER, hops_of
from demaq.gateways.http.request_body import Held
from demaq.gateways.http.responses import Refusal
from demaq.gateways.idempotency import request_of
from demaq.gateways.mail.addresses import ADDRESSES_MAX, normalise_address, queues_by_address, remove_detail
from demaq.gateways.mail.parsed_mail import ParsedMail, read_mail
from demaq.gateways.mail.smtp_session import STORING_SECONDS_MAX, Dialogue, DialogueSettings, TurnedAway
from demaq.gateways.received_spans import receiving, trace_properties
from demaq.gateways.security.authentication import ANONYMOUS, Identity
from demaq.gc_tuning import note_received_bytes
from demaq.span_recorder import SpanRecorder
from demaq.store.request_names import digest_of
from demaq.system_properties import HEADER
from demaq.trace_context import PARENT_PROPERTY, STATE_PROPERTY, parse_context

_log = logging.getLogger("demaq.node")

CONNECTIONS_MAX = 50
READING_AT_ONCE_MAX = 2
"""Mails that are read at the same time: each may take many times its size in memory."""
STOP_SECONDS_MAX = 10.0
"""What a mail that is being stored may take when the listener is stopped."""
MESSAGE_ID_CHARACTERS_MAX = 200
ADDRESS_CHARACTERS_SHOWN_MAX = 100
REASON_CHARACTERS_MAX = 400
"""Answers of SMTP are at most 512 bytes."""


class MailIntake(Protocol):
    """Stores what arrives: see `demaq.gateways.message_intake`."""

    def admit(self, *queues: str) -> None:
        """Let a mail come to gateways. Raises Overloaded if it may not come to one of them now."""

    async def receive(
        self,
        queue: str,
        body: bytes | str,
        *,
        transport: Mapping[str, str],
        properties: Mapping[str, str],
        request: str | None,
        hops: int,
    ) -> object:
        """Durable on return. Raises a MessageError when the refusal is kept."""

    async def refuse(
        self, queue: str, body: bytes | str, error: MessageError, *, request: str | None, hops: int
    ) -> object:
        """Keep what must not be stored in an error message."""


class MailListener:
    """An SMTP server for the mail addresses of incoming gateways."""

    def __init__(
        self,
        intake: MailIntake,
        endpoints: Mapping[str, str],
        *,
        host: str,
        port: int,
        settings: DialogueSettings | None = None,
        connections_max: int = CONNECTIONS_MAX,
        held: Held | None = None,
        spans: SpanRecorder | None = None,
    ) -> None:
        """`endpoints` are those of the queues: `{"orders": "mailto:orders@example.org"}`.

        `held` is the memory that mails share with all other requests; `spans` records them, if telemetry is on.
        """
        self._settings = settings or DialogueSettings()
        if self._settings.tls is None and (self._settings.tls_required or self._settings.authenticate is not None):
            raise OperatorError("mail is to come over TLS only, and the node has no certificate")
        self._handler = _Handler(intake, queues_by_address(endpoints), held or Held(), spans)
        self._host = host
        self._port = port
        self._connections_max = connections_max
        self._dialogues: set[_CountedSession] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Where it listens, also where any free port was asked for."""
        return self._port

    async def start(self) -> None:
        """Listen, on the loop that runs. Raises an OperatorError if that is not possible."""
        try:
            self._server = await asyncio.get_running_loop().create_server(self._protocol, self._host, self._port)
        except (OSError, OverflowError) as error:
            raise OperatorError(
                f"cannot listen for mail on {self._host}:{self._port}: {_describe_error(error)}"
            ) from None
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Take no more mails. What is being stored is stored and answered; everything else ends at once."""
        if self._server is None:
            return
        self._server.close()
        storing = [dialogue.task for dialogue in self._dialogues if dialogue.is_storing and dialogue.task]
        for dialogue in list(self._dialogues):
            if dialogue.is_storing:
                dialogue.end_after_answer()
            else:
                dialogue.hang_up("421 4.3.2 the node is being stopped; try again later")
        if storing:
            await asyncio.wait(storing, timeout=STOP_SECONDS_MAX)
        tasks = [dialogue.task for dialogue in self._dialogues if dialogue.task]
        for dialogue in list(self._dialogues):
            dialogue.cut_off()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    def _protocol(self) -> asyncio.BaseProtocol:
        if len(self._dialogues) >= self._connections_max:
            return TurnedAway()
        dialogue = _CountedSession(self._handler, self._settings, asyncio.get_running_loop())
        dialogue.others = self._dialogues
        self._dialogues.add(dialogue)
        return dialogue


class _CountedSession(Dialogue):
    """A dialogue that the listener knows until its connection has ended."""

    others: set[_CountedSession]

    def connection_lost(self, error: Exception | None) -> None:
        self.others.discard(self)
        super().connection_lost(error)


class _Handler:
    """What a dialogue asks about a mail. Its method names are aiosmtpd's."""

    def __init__(
        self, intake: MailIntake, queues: Mapping[str, str], held: Held, spans: SpanRecorder | None = None
    ) -> None:
        self._intake = intake
        self._spans = spans
        self._queues = queues
        self._held = held
        self._reading = asyncio.Semaphore(READING_AT_ONCE_MAX)

    def queue_of(self, address: str) -> str | None:
        plain = normalise_address(address)
        return self._queues.get(plain) or self._queues.get(remove_detail(plain))

    async def handle_EHLO(  # noqa: N802  # the name is aiosmtpd's
        self, server: Any, session: Any, envelope: Any, host_name: str, answers: list[str]
    ) -> list[str]:
        session.host_name = host_name
        return [answer for answer in answers if answer.strip() != "250-AUTH"]

    async def handle_RCPT(  # noqa: N802  # as above
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if self.queue_of(address) is None:
            return f"550 5.1.1 there is no mailbox with the address {address[:ADDRESS_CHARACTERS_SHOWN_MAX]}"
        if len(envelope.rcpt_tos) >= ADDRESSES_MAX:
            return "452 4.5.3 too many recipients; send the mail again for the others"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802  # as above
        sender = "" if envelope.mail_from == "<>" else envelope.mail_from or ""
        try:
            async with asyncio.timeout(STORING_SECONDS_MAX), self._reading:
                mail = await asyncio.to_thread(read_mail, envelope.content, envelope_sender=sender)
            reservation = self._held.reserve(mail.body)
            try:
                async with asyncio.timeout(STORING_SECONDS_MAX):
                    login = Identity(name=str(session.auth_data), kind="basic") if session.authenticated else ANONYMOUS
                    peer = str(session.peer[0]) if session.peer else ""
                    return await self._store(mail, envelope.rcpt_tos, login, peer)
            finally:
                reservation.keep(0)
        except TimeoutError:
            return "451 4.3.2 storing the mail takes too long; try again later"
        except DemaqError as error:  # of the operator or the system: the sender can only try again
            _log.warning("a mail was put off: %s", _one_line(str(error)))
            return "451 4.3.2 the node cannot take the mail now; try again later"
        except Overloaded as error:
            return f"451 4.3.2 {_one_line(error.reason)}; try again later"
        except Refusal:
            return "451 4.3.1 the node has too much to do; try again later"
        except Exception as error:
            _log.error("storing a mail has failed", exc_info=error)
            return "451 4.3.0 the node has a problem; try again later"

    async def _store(self, mail: ParsedMail, recipients: list[str], identity: Identity, peer: str) -> str:
        """Store the mail in each queue, and return the SMTP response."""
        by_queue: dict[str, str] = {}
        for address in recipients:
            queue = self.queue_of(address)
            assert queue is not None, "only addresses of queues were accepted"
            by_queue.setdefault(queue, address)
        self._intake.admit(*by_queue)
        stored: list[str] = []
        refused: dict[str, str] = {}
        for queue, address in by_queue.items():
            try:
                await self._receive(mail, queue, address, identity, peer)
                stored.append(address)
            except MessageError as error:
                refused[address] = error.message
        note_received_bytes(len(mail.body))
        return _answer(stored, refused)

    async def _receive(self, mail: ParsedMail, queue: str, address: str, identity: Identity, peer: str) -> None:
        """Store the mail in a queue, within a span of the trace that its headers name."""
        if self._spans is None:
            return await self._give(mail, queue, address, identity, peer)
        parent = parse_context(mail.transport.get(PARENT_PROPERTY), mail.transport.get(STATE_PROPERTY))
        with receiving(self._spans, queue, parent) as span:
            try:
                await self._give(mail, queue, address, identity, peer)
            except MessageError as error:
                span.error = error.kind
                raise
            except BaseException:
                span.error = "the mail was put off"
                raise

    async def _give(self, mail: ParsedMail, queue: str, address: str, identity: Identity, peer: str) -> None:
        request = await asyncio.to_thread(request_name, queue, mail, identity)  # it reads all of a mail
        hops = hops_of(mail.transport.get(HEADER + HOPS_HEADER))
        if mail.refusal is not None:
            error = MessageError("notWellFormed", mail.refusal)
            await self._intake.refuse(queue, mail.body, error, request=request, hops=hops)
            raise error
        transport = {**mail.transport, "demaq:sender": identity.name or peer, **trace_properties()}
        await self._intake.receive(
            queue,
            mail.body,
            transport=transport,
            properties={"Recipient": address} | ({"Sender": mail.sender} if mail.sender else {}),
            request=request,
            hops=hops,
        )


def request_name(queue: str, mail: ParsedMail, identity: Identity) -> str | None:
    """Return what makes a repeated mail harmless; a mail without Message-ID has nothing to be known by."""
    name = mail.message_id
    if name is None:
        return None
    if len(name) > MESSAGE_ID_CHARACTERS_MAX:
        name = hashlib.sha256(name.encode()).hexdigest()
    digest = digest_of([mail.sender, mail.transport.get("demaq:contentType"), mail.body])
    return request_of("mail", queue, identity, name, digest, is_guessable=True)


def _answer(stored: list[str], refused: dict[str, str]) -> str:
    if not refused:
        return "250 2.0.0 OK, stored"
    reasons = list(dict.fromkeys(refused.values()))
    said = _one_line("; ".join(reasons))
    if not stored:
        return f"554 5.6.0 {said}"
    return f"554 5.6.0 stored for {_join_addresses(stored)}, but not for {_join_addresses(list(refused))}: {said}"


def _join_addresses(addresses: list[str]) -> str:
    return addresses[0][:ADDRESS_CHARACTERS_SHOWN_MAX] + (
        f" and {len(addresses) - 1} more" if len(addresses) > 1 else ""
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())[:REASON_CHARACTERS_MAX]


def _describe_error(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "the name of the host is not known"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
