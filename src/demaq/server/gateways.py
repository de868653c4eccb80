"""All gateways of a node, at work: one thread with one event loop for everything that has to do with networks.

gateways = Gateways(node, Settings(), http=("127.0.0.1", 8080))
gateways.start()
…
gateways.stop_receiving()
node.stop()
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from demaq.errors import OperatorError
from demaq.gateways.admission import Admission
from demaq.gateways.answer_queues import find_reason_not_started
from demaq.gateways.connections import Connections
from demaq.gateways.counters import ResultCounts
from demaq.gateways.http.answer_poster import AnswerPoster
from demaq.gateways.http.incoming_gateway import IncomingGateway
from demaq.gateways.http.request import identify_sender
from demaq.gateways.http.request_body import Held, read_body
from demaq.gateways.http.responses import HttpAnswer
from demaq.gateways.http.server import HttpServer, Page, listen
from demaq.gateways.http.soap_service import SoapService
from demaq.gateways.message_intake import Intake
from demaq.gateways.outbox.answer_endpoint import AnswerEndpoint
from demaq.gateways.outbox.answer_replays import AnswerReplays
from demaq.gateways.outbox.answer_sender import AnswerSender
from demaq.gateways.outbox.destination import DestinationResolver
from demaq.gateways.outbox.http import HttpSender, SoapExtensions
from demaq.gateways.outbox.mail import MailSender
from demaq.gateways.outbox.outbox import Outbox, Sender
from demaq.gateways.reliability.inbound_sequences import InboundSequences
from demaq.gateways.reliability.outbound_channels import OutboundChannels
from demaq.gateways.security.authentication import Authenticator
from demaq.gateways.security.envelope_security import EnvelopeSecurity
from demaq.gateways.security.tls import Renewal
from demaq.gateways.settings import Settings
from demaq.gateways.store_reader import StoreReader
from demaq.language.endpoints import HEALTH, METRICS, READINESS, SOAP_ANSWERS, InboundAddress, parse_inbound_address
from demaq.language.gateway_policies import collect_published_policies, read_gateway_policy
from demaq.language.program.program import Program
from demaq.server.console_process import ConsoleProcess, ConsoleProxy, ConsoleStart
from demaq.server.http_address import Address
from demaq.server.metrics import CONTENT_TYPE, Metrics, Sources
from demaq.server.node import Node
from demaq.server.status import status_of
from demaq.soap import read_interface
from demaq.soap.policy import GatewayPolicy
from demaq.soap.security import ExchangeRequirements
from demaq.span_recorder import SpanRecorder
from demaq.store.protocol import NewMessage

if TYPE_CHECKING:
    from demaq.gateways.mail.smtp_server import MailListener

CONSOLE_PATHS = ("/console", "/api")
"""These paths, and those below them, are the console's, but for those of gateways."""
START_SECONDS_MAX = 30.0
RENEWAL_SECONDS = 60.0
"""How often it is looked whether there is a new certificate."""
SEQUENCE_SECONDS = 10.0
"""How often it is looked whether sequences have expired."""
ANSWER_SECONDS_MAX = 3.0
"""How long senders wait for answers when a node stops. After that they are answered that their messages are stored."""
SEND_SECONDS_MAX = 10.0
"""How long what is on its way may take when a node stops."""

_log = logging.getLogger("demaq.gateways")


class Gateways:
    """What connects a node with the world."""

    def __init__(
        self,
        node: Node,
        settings: Settings,
        http: Address | None = None,
        smtp: Address | None = None,
        tell: Callable[[str], None] = lambda line: None,
        console: ConsoleStart | None = None,
        console_address: Address | None = None,
    ) -> None:
        """Read interfaces and bind addresses. Raises an OperatorError if that is not possible.

        `console` is how the console is started, at /console of the HTTP address or at an address of its own.
        """
        self._console_start = console
        self._console: ConsoleProxy | None = None
        self._console_process: ConsoleProcess | None = None
        self._node = node
        self._settings = settings
        self._tell = tell
        program = node.program
        gateways = {name: queue.gateway for name, queue in program.queues.items() if queue.gateway is not None}
        reasons = {name: find_reason_not_started(program.queues[name]) for name in gateways}
        self.left_out = {name: reason for name, reason in reasons.items() if reason is not None}
        """Gateways that are not at work, with the reason."""
        self._interfaces = {
            name: read_interface(gateway.interface, gateway.port).with_policies(collect_published_policies(gateway))
            for name, gateway in gateways.items()
            if gateway.interface is not None and name not in self.left_out
        }
        self._policies = {
            name: read_gateway_policy(gateway)
            for name, gateway in gateways.items()
            if gateway.extensions and name not in self.left_out
        }
        self._security = {
            name: self._make_security(name, policy.security)
            for name, policy in self._policies.items()
            if policy.security is not None
        }
        self._paths: dict[str, str] = {}
        """Queues of incoming gateways by their paths."""
        self._mailboxes: dict[str, str] = {}
        """Addresses of those that get mail."""
        for name, gateway in gateways.items():
            if program.queues[name].kind == "incomingGateway" and name not in self.left_out:
                arrival = parse_inbound_address(name, gateway.endpoint)
                if arrival.kind == "http":
                    self._paths[arrival.place] = name
                else:
                    self._mailboxes[name] = f"mailto:{arrival.place}"
        self._guarded = self._guarded_mailboxes() if smtp is not None else []
        self._sockets = contextlib.ExitStack()
        self._http = self._sockets.enter_context(contextlib.closing(listen(*http))) if http is not None else None
        self._console_socket: socket.socket | None = None
        if console is not None and console_address is not None:
            self._console_socket = self._sockets.enter_context(contextlib.closing(listen(*console_address)))
        self._smtp = smtp
        self._tls = settings.server_context()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="demaq-gateways", daemon=True)
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._stop_receiving: asyncio.Event | None = None
        self._stop: asyncio.Event | None = None
        self.connections = Connections()
        self._held = Held()
        self._posters: dict[str, AnswerPoster] = {}
        self._addressing = DestinationResolver(node.engine.plan, self._interfaces, self.connections)
        self.intake: Intake | None = None
        self.outbox: Outbox | None = None
        self.answers: AnswerEndpoint | None = None
        """Takes SOAP answers that come by themselves, if there can be any."""
        self._channels: OutboundChannels | None = None
        self.server: HttpServer | None = None
        self.listener: MailListener | None = None
        self.authenticator: Authenticator | None = None
        self.requests = ResultCounts()
        self._metrics: Metrics | None = None

    # What receives mail is imported by nodes that do: it takes a tenth of a second of their start.

    def _guarded_mailboxes(self) -> list[str]:
        from demaq.gateways.mail.senders import guarded_mailboxes

        return guarded_mailboxes(self._settings, self._mailboxes)

    def _make_listener(self, address: Address, intake: Intake, authenticator: Authenticator) -> MailListener:
        from demaq.gateways.mail.senders import authentication
        from demaq.gateways.mail.smtp_server import MailListener
        from demaq.gateways.mail.smtp_session import DialogueSettings

        dialogue = DialogueSettings(
            host_name=socket.gethostname(),
            mail_bytes_max=self._settings.mail.size_bytes_max,
            tls=self._tls,
            authenticate=authentication(authenticator, self._guarded),
        )
        host, port = address
        return MailListener(
            intake,
            self._mailboxes,
            host=host,
            port=port,
            settings=dialogue,
            held=self._held,
            spans=self._span_recorder(),
        )

    def _span_recorder(self) -> SpanRecorder | None:
        return None if self._node.spans is None else self._node.spans.recorder

    def _make_security(self, name: str, exchange: ExchangeRequirements) -> EnvelopeSecurity:
        """Return what secures the envelopes of a gateway. Raises an OperatorError if its settings are not enough."""
        is_incoming = self._node.program.queues[name].kind == "incomingGateway"
        settings = self._settings.incoming(name) if is_incoming else self._settings.outgoing(name)
        security = EnvelopeSecurity(
            exchange,
            settings.security,
            section=f"{'incoming' if is_incoming else 'outgoing'}.{name}",
            role="service" if is_incoming else "client",
            clock=self._node.engine.clock,
        )
        security.check_settings()
        return security

    @property
    def http_address(self) -> str | None:
        """Where the node is found, as an address to which paths are added."""
        return None if self._http is None else self._describe_socket(self._http)

    @property
    def console_address(self) -> str | None:
        """Where the console is found."""
        if self._console_start is None:
            return None
        listener = self._console_socket or self._http
        return None if listener is None else f"{self._describe_socket(listener)}/console"

    def _describe_socket(self, listener: socket.socket) -> str:
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if listener.family == socket.AF_INET6 else host
        return f"{'http' if self._tls is None else 'https'}://{shown}:{port}"

    def own_address(self, queue: str) -> str | None:
        """Return where messages of an outgoing gateway go unless they say otherwise."""
        return self._addressing.own_address(queue)

    @property
    def smtp_address(self) -> str | None:
        return None if self.listener is None or self._smtp is None else f"{self._smtp[0]}:{self.listener.port}"

    def status(self) -> dict[str, Any]:
        """Return the status, for operators. May be called from any thread."""
        return status_of(
            self.http_address,
            self.smtp_address,
            self._node.store.sendings(),
            self.requests,
            self.intake,
            self.outbox,
            self.connections,
            self.left_out,
        )

    def read_metrics(self) -> str:
        """Return what `/metrics` says. May be called from any thread."""
        return self._metrics.text().decode() if self._metrics is not None else ""

    # life

    def start(self) -> None:
        """Begin to receive and to send. Raises an OperatorError if an address cannot be used."""
        for queue, reason in self.left_out.items():
            self._tell(f"gateway {queue} is not at work: {reason}")
        self._thread.start()
        self._ready.wait(START_SECONDS_MAX)
        if self._failure is not None:
            self._sockets.close()
            if isinstance(self._failure, OperatorError):
                raise self._failure
            raise OperatorError(f"the gateways have not started: {self._failure}")
        self._node.attach(self.wake, self.close, self.status, self.look_again, self.note_purged, self.read_metrics)

    def wake(self) -> None:
        """There may be something to send. May be called from any thread."""
        self._call(lambda: self.outbox.wake() if self.outbox is not None else None)

    def look_again(self) -> None:
        """Messages that were sent before may be due again. May be called from any thread."""
        self._call(lambda: self.outbox.look_again() if self.outbox is not None else None)

    def note_purged(self, seqs: Sequence[int]) -> None:
        """Messages were removed that may be about to be sent. May be called from any thread."""
        self._call(lambda: self.outbox.note_purged(seqs) if self.outbox is not None else None)

    def stop_receiving(self) -> None:
        """Take no more messages, while the node still answers those who wait."""
        self._call(lambda: self._stop_receiving.set() if self._stop_receiving is not None else None)

    def close(self) -> None:
        """End. What is not sent then is sent by the next run."""
        self.stop_receiving()
        if self.intake is not None:
            self.intake.stop_slow()
        self._call(lambda: self._stop.set() if self._stop is not None else None)
        if self._thread.is_alive():
            self._thread.join()
        self._sockets.close()

    def _call(self, act: Callable[[], object]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(act)

    # the thread

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as failure:
            if self._ready.is_set():
                _log.exception("the gateways have ended")
            self._failure = failure
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop_receiving = asyncio.Event()
        self._stop = asyncio.Event()
        engine, settings = self._node.engine, self._settings
        folder = None if self._node.place.is_on_server else self._node.folder
        reader = StoreReader(self._node.place.where)
        admission = Admission(engine, reader, folder, settings, lambda: self._node.outage)
        sequences = InboundSequences(engine.store, engine.clock, self._inactivity_limits())
        intake = self.intake = Intake(engine, admission, self._notify_stored, sequences)
        asking = {queue: settings.incoming(queue) for queue in [*self._paths.values(), *self._mailboxes]}
        if settings.metrics == "authenticated":
            asking[METRICS] = settings.incoming_default
        authenticator = self.authenticator = Authenticator(asking)
        channels = self._channels = self._make_channels()
        services = {queue: self._make_service(queue) for queue in self._paths.values()}
        sender = self._http_sender()
        own = {name: self.own_address(name) for name in self._outgoing_names()}
        epochs = engine.store.epochs()
        senders: dict[str, Sender] = {
            "http": sender,
            "mail": MailSender(epochs, settings.mail, own),
            "answer": AnswerSender(epochs, self._interfaces, services, self._posters),
        }
        outbox = self.outbox = Outbox(
            engine,
            settings,
            self._addressing,
            self.connections,
            senders,
            frozenset(self.left_out),
            self._node.look_for_work,
            self._node.outages,
            channels,
            self._node.spans,
        )
        if channels is not None:
            self.answers = AnswerEndpoint(engine.store, engine.store.epochs(), sender.soap_senders, outbox, channels)
        tasks: list[asyncio.Task[None]] = [asyncio.create_task(outbox.run())]
        tasks.append(asyncio.create_task(self._end_sequences(intake, self._stop)))
        receiving: list[asyncio.Task[None]] = []
        if self._tls is not None and settings.tls.own is not None:
            tasks.append(asyncio.create_task(renew_until(Renewal(self._tls, settings.tls.own), self._stop)))
        metrics = self._metrics = Metrics(
            Sources(
                node=self._node,
                requests=self.requests,
                intake=intake,
                outbox=outbox,
                connections=self.connections,
                authenticator=authenticator,
                left_out=self.left_out,
            )
        )
        if self._http is not None:
            gateways = self._incoming(intake, authenticator, services)
            if self._console_start is not None and self._console_socket is None:
                self._console = ConsoleProxy(self._console_start)
            proxied = {} if self._console is None else dict.fromkeys(CONSOLE_PATHS, self._console.answer)
            self.server = HttpServer(
                gateways, self._pages(), self._http, self._tls, self.requests, self._posted_pages(), proxied
            )
            receiving.append(asyncio.create_task(self.server.run()))
        if self._smtp is not None:
            self.listener = self._make_listener(self._smtp, intake, authenticator)
            await self.listener.start()
        if self._console_start is not None and self._console_socket is not None:
            self._console_process = ConsoleProcess(self._console_start, self._console_socket, is_proxied=False)
            self._console_process.keep_running()
        self._ready.set()
        await _wait_for_event(self._stop_receiving, [*tasks, *receiving])
        if self._console_process is not None:
            await asyncio.to_thread(self._console_process.close)
        if self.server is not None:
            self.server.stop()
        self._loop.call_later(ANSWER_SECONDS_MAX, self.connections.give_up)
        if self.listener is not None:
            await self.listener.stop()
        await asyncio.gather(*receiving, return_exceptions=True)
        if self._console is not None:
            await self._console.close()
        await _wait_for_event(self._stop, tasks)
        await outbox.stop(SEND_SECONDS_MAX)
        await asyncio.gather(*tasks, return_exceptions=True)
        outbox.close()
        for poster in self._posters.values():
            await poster.close()
        await intake.close()
        await sender.close()
        authenticator.close()
        metrics.close()

    def _incoming(
        self, intake: Intake, authenticator: Authenticator, services: Mapping[str, SoapService]
    ) -> dict[str, IncomingGateway]:
        answered_from = self._addressing.answer_queues.by_gateway
        served = {path: self._interfaces[queue] for path, queue in self._paths.items() if queue in self._interfaces}
        return {
            path: IncomingGateway(
                queue,
                self._settings.incoming(queue),
                self._interfaces.get(queue),
                bool(answered_from[queue]),
                intake,
                self.connections,
                authenticator,
                self._held,
                services[queue],
                served,
                self._span_recorder(),
            )
            for path, queue in self._paths.items()
        }

    def _make_service(self, queue: str) -> SoapService:
        recipients = self._settings.incoming(queue).answer_recipients
        poster = AnswerPoster(recipients, self._settings.outgoing_default.client_context)
        self._posters[queue] = poster
        return SoapService(
            queue,
            self._interfaces.get(queue),
            self._policies.get(queue, GatewayPolicy()),
            self._security.get(queue),
            recipients,
            poster,
            self._node.engine.clock,
        )

    def _inactivity_limits(self) -> dict[str, timedelta]:
        found = {queue: policy.reliability for queue, policy in self._policies.items()}
        limits = {queue: reliable.inactivity_timeout for queue, reliable in found.items() if reliable is not None}
        return {queue: limit for queue, limit in limits.items() if limit is not None}

    async def _end_sequences(self, intake: Intake, stop: asyncio.Event) -> None:
        """Terminate sequences that have expired, until the event happens."""
        if not any([policy.reliability is not None for policy in self._policies.values()]):
            await stop.wait()
            return
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), SEQUENCE_SECONDS)
                return
            try:
                await intake.end_inactive_sequences()
            except OperatorError as fault:
                self._node.outages.note_failure(fault)

    def _make_channels(self) -> OutboundChannels | None:
        """Return what outgoing gateways need whose answers are secured, numbered, or come by themselves."""
        policies = {name: self._policies.get(name, GatewayPolicy()) for name in self._outgoing_names()}
        elsewhere = [name for name in policies if self._settings.outgoing(name).answer_address is not None]
        if not elsewhere and all([policy.is_empty for policy in policies.values()]):
            return None
        reliable = [name for name, policy in policies.items() if policy.reliability is not None]
        return OutboundChannels(self._node.store, reliable, self._node.engine.clock)

    def _http_sender(self) -> HttpSender:
        channels, clock = self._channels, self._node.engine.clock
        outgoing = [self._node.program.queues[name] for name in self._outgoing_names()]
        extensions = SoapExtensions(
            policies=self._policies,
            security=self._security,
            settings=self._settings.outgoing,
            channels=channels,
            replays=AnswerReplays(self._node.store, clock, channels.writer.run) if channels is not None else None,
        )
        return HttpSender(
            self._node.store.epochs(),
            self._interfaces,
            {queue.name: self.own_address(queue.name) for queue in outgoing},
            {queue.name: queue.gateway is not None and queue.gateway.replyto is not None for queue in outgoing},
            extensions,
        )

    def _outgoing_names(self) -> list[str]:
        return [queue.name for queue in self._node.program.queues.values() if queue.kind == "outgoingGateway"]

    def _notify_stored(self, messages: Sequence[NewMessage]) -> None:
        """Wake the node and the outbox if they have something to do. Messages of a mailbox are not processed."""
        if any([message.priority is not None for message in messages]):
            self._node.look_for_arrivals()
        if self.outbox is not None and any([message.undelivered for message in messages]):
            self.outbox.wake()  # about a refused message, where errors are sent on

    # pages

    def _pages(self) -> dict[str, Page]:
        pages: dict[str, Page] = {HEALTH: self._serve_health, READINESS: self._serve_readiness}
        return pages if self._settings.metrics == "off" else {**pages, METRICS: self._serve_metrics}

    def _posted_pages(self) -> dict[str, Page]:
        """Return the page for SOAP answers that come by themselves, if there can be any."""
        return {SOAP_ANSWERS: self._take_soap_answer} if self.answers is not None else {}

    async def _take_soap_answer(self, request: Request) -> HttpAnswer:
        assert self.answers is not None, "the page is not served without"
        default = self._settings.incoming_default
        body = await read_body(request, default.body_bytes_max, default.body_seconds_max, self._held)
        is_https = request.scope["scheme"] == "https"
        return await self.answers.receive(body, dict(request.headers.items()), is_https=is_https)

    async def _serve_health(self, request: Request) -> HttpAnswer:
        return _text(200, "ok")

    async def _serve_metrics(self, request: Request) -> HttpAnswer:
        assert self._metrics is not None, "it is made before the server"
        assert self.authenticator is not None, "it is made before the server"
        if self._settings.metrics == "authenticated":
            identity = await identify_sender(self.authenticator, METRICS, request)
            if isinstance(identity, HttpAnswer):
                return identity
        return HttpAnswer(status=200, body=await asyncio.to_thread(self._metrics.text), content_type=CONTENT_TYPE)

    async def _serve_readiness(self, request: Request) -> HttpAnswer:
        if self._stop_receiving is not None and self._stop_receiving.is_set():
            return _text(503, "stopping")
        if not self._node.is_running:
            return _text(503, "the node has stopped")
        if self._node.outage is not None:
            return _text(503, self._node.outage)
        assert self.intake is not None, "it is made before the server"
        asked = [await self.intake.find_refusal(queue) for queue in [*self._paths.values(), *self._mailboxes]]
        refused = [reason for reason in asked if reason is not None]
        if not refused:
            return _text(200, "ready")
        if len(refused) == len(asked):
            return _text(503, refused[0])
        return _text(200, f"ready, but some gateways take no messages now: {refused[0]}")


async def renew_until(renewal: Renewal, stop: asyncio.Event) -> None:
    """Until it is to stop, look whether there is a new certificate. It is shown from within the loop, as all that has
    to do with TLS; the files may lie on a disk that is slow."""
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), RENEWAL_SECONDS)
            return
        if await asyncio.to_thread(renewal.is_due):
            renewal.renew()


async def _wait_for_event(event: asyncio.Event, tasks: list[asyncio.Task[None]]) -> None:
    """Until it happens, or one of the tasks is over before. Raises what that raises."""
    happens = asyncio.create_task(event.wait())
    done, _ = await asyncio.wait([happens, *tasks], return_when=asyncio.FIRST_COMPLETED)
    happens.cancel()
    for task in done:
        task.result()


def _text(status: int, text: str) -> HttpAnswer:
    return HttpAnswer(status=status, body=f"{text}\n".encode(), content_type="text/plain; charset=utf-8")


def has_http_gateways(program: Program) -> bool:
    return any([arrival.kind == "http" for arrival in _list_inbound_addresses(program)])


def has_mail_gateways(program: Program) -> bool:
    return any([arrival.kind == "mail" for arrival in _list_inbound_addresses(program)])


def _list_inbound_addresses(program: Program) -> list[InboundAddress]:
    return [
        parse_inbound_address(queue.name, queue.gateway.endpoint)
        for queue in program.queues.values()
        if queue.kind == "incomingGateway" and queue.gateway is not None
    ]
