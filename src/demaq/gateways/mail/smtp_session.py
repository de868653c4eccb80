"""One SMTP dialogue: what aiosmtpd says and understands, with bounds on everything that a sender may do.

aiosmtpd trusts its peer in places where we do not: it keeps a line without end in memory, waits for ever for a sender
who writes nonsense, tells the text of exceptions. This class replaces these places and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiosmtpd.smtp import MISSING, SMTP, AuthResult, LoginPassword, TLSSetupException, syntax

_log = logging.getLogger("demaq.node")

Authenticate = Callable[[str, str, str], Awaitable[bool]]
"""Whether name and password are right. Third is the address that the sender speaks from, to slow it down."""

BUFFER_BYTES = 16_384
"""What is read of a line at once. Small: no other sender is served while it is parsed."""
COMMAND_BYTES_MAX = 512
COMMANDS_MAX = {"*": 100, "MAIL": 1_000, "RCPT": 10_000, "DATA": 1_000, "RSET": 1_000}
"""How often each command may come in one dialogue."""
REFUSALS_MAX = 50
"""After so many answers that say no, the dialogue ends."""
STORING_SECONDS_MAX = 240.0
"""Senders wait for ten minutes for the last answer (RFC 5321, 4.5.3.2.6)."""
PATIENCE = 2
"""How many times as much as is allowed is read of a mail that is too large, to answer it in the regular way."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")

# It writes about its peers' mistakes, with tracebacks; what the operator should know, we write ourselves.
logging.getLogger("mail.log").setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class DialogueSettings:
    """How a listener speaks with senders."""

    host_name: str = "localhost"
    """What the node calls itself."""
    mail_bytes_max: int = 10 * 1024**2
    timeout_seconds: float = 300.0
    """What a sender may take for one command, and for one mail from its beginning to its end."""
    tls: ssl.SSLContext | None = None
    tls_required: bool = False
    authenticate: Authenticate | None = None
    """Senders must say who they are, over TLS only; None if authentication is off."""


class Dialogue(SMTP):
    """Speaks with one sender."""

    line_length_limit = BUFFER_BYTES

    def __init__(self, handler: Any, settings: DialogueSettings, loop: asyncio.AbstractEventLoop) -> None:
        # One for each dialogue: aiosmtpd shares them and lets them grow with every EHLO.
        self.command_size_limits = defaultdict(lambda: COMMAND_BYTES_MAX)
        self._settings = settings
        self._refusals = 0
        self._ends = False
        self._has_ended = False
        self.is_storing = False
        """Whether a mail was taken and its answer is not yet known."""
        super().__init__(
            handler,
            loop=loop,
            hostname=settings.host_name,
            ident="Demaq",
            data_size_limit=settings.mail_bytes_max,
            enable_SMTPUTF8=True,
            timeout=settings.timeout_seconds,
            tls_context=settings.tls,
            require_starttls=settings.tls_required,
            auth_required=settings.authenticate is not None,
            auth_require_tls=True,
            auth_exclude_mechanism=() if settings.authenticate else ("PLAIN", "LOGIN"),
            authenticator=_defer_auth,
            command_call_limit=COMMANDS_MAX,
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        is_first = self._handler_coroutine is None  # the second time it is the same connection, now with TLS
        super().connection_made(transport)
        if is_first and self._handler_coroutine is not None:
            self._handler_coroutine.add_done_callback(_report_bug)

    @property
    def task(self) -> asyncio.Task[None] | None:
        """What ends when the dialogue has ended."""
        return self._handler_coroutine

    def cut_off(self) -> None:
        """End the connection at once, whatever the sender is doing."""
        for transport in (self.transport, self._original_transport):
            if isinstance(transport, asyncio.Transport):
                transport.abort()

    def hang_up(self, last: str) -> None:
        """Say one last thing, if the sender listens, and end the connection."""
        self._has_ended = True
        transport = self.transport
        if not isinstance(transport, asyncio.Transport) or transport.is_closing() or self._is_shaking_hands():
            self.cut_off()
        elif transport.get_write_buffer_size():
            self.cut_off()  # it does not even read the earlier answers
        else:
            transport.write(f"{last}\r\n".encode())
            transport.close()

    def _is_shaking_hands(self) -> bool:
        """Return whether TLS is about to begin: nothing can be sent meanwhile."""
        return self._tls_protocol is not None and (self.session is None or self.session.ssl is None)

    def end_after_answer(self) -> None:
        """What the sender gets next is the last."""
        self._ends = True

    async def push(self, status: Any) -> None:
        """Send an answer. It is one line, however much of it the sender has made up."""
        if self._has_ended:
            return
        if isinstance(status, str):
            status = _CONTROL.sub("?", status).encode("utf-8", "replace")
        await super().push(status)
        await asyncio.sleep(0)  # a sender who never waits for answers must let the others speak too
        self._refusals += status[:1] == b"5"
        if self._ends or self._refusals >= REFUSALS_MAX:
            self.hang_up("421 4.3.2 goodbye" if self._ends else "421 4.7.0 too many mistakes, goodbye")

    async def handle_exception(self, error: Exception) -> str:
        """Handle what is left: our own mistake, or a handshake that failed."""
        if not isinstance(error, TLSSetupException):
            _log.error("an SMTP dialogue has failed", exc_info=error)
        return "451 4.3.0 the node has a problem; try again later"

    def _timeout_cb(self) -> None:
        self.hang_up("421 4.4.2 that took too long, goodbye")

    async def challenge_auth(self, *args: Any, **named: Any) -> Any:
        try:
            return await super().challenge_auth(*args, **named)
        except ValueError:
            await self.push("500 5.5.6 the line is too long")
            return MISSING

    def _getaddr(self, arg: str) -> Any:
        try:
            address, rest = super()._getaddr(arg)
        except Exception:  # the email package raises many classes on malformed addresses
            return None, None
        return (None, None) if address is not None and _CONTROL.search(address) else (address, rest)

    @syntax("DATA")
    async def smtp_DATA(self, arg: str | None) -> None:  # noqa: N802  # the name is aiosmtpd's
        if await self.check_helo_needed() or await self.check_auth_needed("DATA"):
            return
        assert self.envelope is not None, "a dialogue has one from its beginning"
        if not self.envelope.rcpt_tos:
            await self.push("503 5.5.1 say first whom the mail is for (RCPT)")
            return
        if arg:
            await self.push("501 5.5.4 DATA takes no argument")
            return
        await self.push("354 end the mail with a line that holds only a dot")
        content = await self._read_mail()
        if isinstance(content, str):
            self.envelope = self._create_envelope()
            await self.push(content)
            return
        self.envelope.content = self.envelope.original_content = content
        self._reset_timeout(STORING_SECONDS_MAX)  # this is our time, not the sender's
        self.is_storing = True
        try:
            status = await self._call_handler_hook("DATA")
            self.envelope = self._create_envelope()
            await self.push(status)
        finally:
            self.is_storing = False

    async def _read_mail(self) -> bytes | str:
        """Return the mail, or the answer where it cannot be taken. Holds no more in memory than is allowed.

        Lines may be as long as the mail: XML is often written in one line, and not every sender breaks it. They end
        with CR and LF only; so does the dot that ends the mail, or a sender could hide a second mail in the first.
        """
        content = bytearray()  # not a list of lines: very short ones would take many times their size
        size = 0
        is_inside_line = False
        while True:
            try:
                piece = await self._reader.readuntil(b"\r\n")
                is_whole = True
            except asyncio.LimitOverrunError as overrun:
                piece = await self._reader.read(overrun.consumed)
                is_whole = False
            if not is_inside_line and piece == b".\r\n":
                break
            size += len(piece)
            if size > PATIENCE * self._settings.mail_bytes_max:
                self._ends = True
                return self._refuse_size()
            if size > self._settings.mail_bytes_max:
                content.clear()
            else:
                content += piece[1:] if not is_inside_line and piece[:1] == b"." else piece
            is_inside_line = not is_whole
        return bytes(content) if size <= self._settings.mail_bytes_max else self._refuse_size()

    def _refuse_size(self) -> str:
        return f"552 5.3.4 the mail is larger than {self._settings.mail_bytes_max:,} bytes"

    async def auth_PLAIN(self, server: Any, args: list[str]) -> AuthResult:  # noqa: N802  # the name is aiosmtpd's
        return await self._check_auth(await super().auth_PLAIN(server, args))

    async def auth_LOGIN(self, server: Any, args: list[str]) -> AuthResult:  # noqa: N802  # as above
        return await self._check_auth(await super().auth_LOGIN(server, args))

    async def _check_auth(self, result: AuthResult) -> AuthResult:
        login = result.auth_data
        if not isinstance(login, LoginPassword) or self._settings.authenticate is None:
            return result
        name, password = [value.decode("utf-8", "replace") for value in login]
        peer = self.session.peer if self.session is not None else None
        is_right = await self._settings.authenticate(name, password, str(peer[0]) if peer else "")
        return AuthResult(success=is_right, handled=False, auth_data=name)


class TurnedAway(asyncio.Protocol):
    """What a sender meets when too many others are speaking already."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "SMTP is spoken over a stream"
        transport.write(b"421 4.7.0 too many connections; try again later\r\n")
        transport.close()


def _defer_auth(server: Any, session: Any, envelope: Any, mechanism: str, login: Any) -> AuthResult:
    """Keep the credentials: aiosmtpd wants a decision at once, and ours takes time."""
    return AuthResult(success=False, handled=False, auth_data=login)


def _report_bug(task: asyncio.Task[None]) -> None:
    """Take notice of how a dialogue has ended; its task is not awaited."""
    if task.cancelled():
        return
    error = task.exception()
    if error is not None and not isinstance(error, ConnectionError):
        _log.error("an SMTP dialogue has failed", exc_info=error)
