"""What demaq.gateways.mail.smtp_session and demaq.gateways.mail.smtp_server use of aiosmtpd beyond its documentation."""

from __future__ import annotations

import asyncio
import inspect
import logging
from base64 import b64encode
from collections import defaultdict
from collections.abc import Coroutine
from typing import Any

import pytest
from aiosmtpd import smtp
from aiosmtpd.smtp import MISSING, SMTP, AuthResult, Envelope, LoginPassword, Session, TLSSetupException, syntax

HELLO = b"EHLO client\r\n"
CREDENTIALS = b64encode(b"\0user\0secret")


class Transport(asyncio.Transport):
    """Records what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 4711)})
        self.written = b""
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed


class Handler:
    """Has the hooks that ours has."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def handle_EHLO(self, server: Any, session: Any, envelope: Any, name: str, lines: list[str]) -> list[str]:  # noqa: N802
        session.host_name = name
        self.lines = lines
        return lines

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: list[str]) -> str:  # noqa: N802
        envelope.rcpt_tos.append(address)
        return "250 recipient"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        return "250 stored"


class Dialogue:
    """A session without a socket."""

    def __init__(self, session_class: type[SMTP] = SMTP, **settings: Any) -> None:
        self.handler = Handler()
        self.smtp: Any = session_class(
            self.handler, loop=asyncio.get_running_loop(), hostname="node", ident="Demaq", **settings
        )
        self.transport = Transport()
        self.smtp.connection_made(self.transport)

    async def say(self, *lines: bytes) -> list[str]:
        """Send lines. Return what is written after that."""
        before = len(self.transport.written)
        for line in lines:
            self.smtp.data_received(line)
            for _ in range(20):
                await asyncio.sleep(0)
        return self.transport.written[before:].decode().splitlines()

    async def end(self) -> None:
        self.transport.close()
        self.smtp.connection_lost(None)
        await asyncio.gather(self.smtp._handler_coroutine, return_exceptions=True)


def run(dialogue: Coroutine[Any, Any, None]) -> None:
    asyncio.run(dialogue)


def test_a_session_takes_the_settings_that_ours_gives():
    given = {
        "loop",
        "hostname",
        "ident",
        "data_size_limit",
        "enable_SMTPUTF8",
        "timeout",
        "tls_context",
        "require_starttls",
        "auth_required",
        "auth_require_tls",
        "auth_exclude_mechanism",
        "authenticator",
        "command_call_limit",
    }
    assert given < set(inspect.signature(SMTP.__init__).parameters)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("connection_made", ["self", "transport"]),
        ("connection_lost", ["self", "error"]),
        ("push", ["self", "status"]),
        ("handle_exception", ["self", "error"]),
        ("challenge_auth", ["self", "challenge", "encode_to_b64", "log_client_response"]),
        ("auth_PLAIN", ["self", "_", "args"]),
        ("auth_LOGIN", ["self", "_", "args"]),
        ("smtp_DATA", ["self", "arg"]),
        ("check_helo_needed", ["self", "helo"]),
        ("check_auth_needed", ["self", "caller_method"]),
        ("_getaddr", ["self", "arg"]),
        ("_timeout_cb", ["self"]),
        ("_reset_timeout", ["self", "duration"]),
        ("_create_envelope", ["self"]),
        ("_call_handler_hook", ["self", "command", "args"]),
    ],
)
def test_a_method_that_ours_overrides_or_calls_has_these_parameters(name: str, parameters: list[str]):
    assert list(inspect.signature(getattr(SMTP, name)).parameters) == parameters


def test_a_session_before_its_connection_has_no_task_and_no_transport():
    async def check() -> None:
        session: Any = SMTP(Handler(), loop=asyncio.get_running_loop(), hostname="node")
        for name in ("_handler_coroutine", "_original_transport", "_tls_protocol", "transport", "session", "envelope"):
            assert getattr(session, name) is None, name

    run(check())


def test_a_connection_starts_a_task_that_ends_with_it():
    async def check() -> None:
        dialogue = Dialogue()
        assert isinstance(dialogue.smtp._handler_coroutine, asyncio.Task)
        assert dialogue.smtp.transport is dialogue.transport
        assert dialogue.smtp.session.peer == ("192.0.2.1", 4711)
        await dialogue.end()
        assert dialogue.smtp._handler_coroutine.done()

    run(check())


def test_limits_of_commands_that_a_subclass_sets_before_init_are_its_own():
    class Own(SMTP):
        def __init__(self, *args: Any, **settings: Any) -> None:
            self.command_size_limits = defaultdict(lambda: 77)
            super().__init__(*args, **settings)

    async def check() -> None:
        dialogue = Dialogue(Own)
        await dialogue.say(HELLO)
        assert dialogue.smtp.command_size_limits is not SMTP.command_size_limits
        assert dialogue.smtp.command_size_limits["NOOP"] == 77
        await dialogue.end()

    run(check())


def test_the_length_of_lines_is_limited_by_a_class_attribute():
    class Short(SMTP):
        line_length_limit = 10

    async def check() -> None:
        dialogue = Dialogue(Short)
        dialogue.smtp._reader.feed_data(b"x" * 30)
        with pytest.raises(asyncio.LimitOverrunError):
            await dialogue.smtp._reader.readuntil(b"\r\n")
        await dialogue.end()

    run(check())


def test_every_reply_goes_through_push():
    class Marked(SMTP):
        async def push(self, status: Any) -> None:
            await super().push(b"> " + (status.encode() if isinstance(status, str) else status))

    async def check() -> None:
        dialogue = Dialogue(Marked)
        lines = await dialogue.say(b"", HELLO, b"NOOP\r\n", b"nonsense\r\n", b"MAIL\r\n", b"QUIT\r\n")
        assert len(lines) > 5
        assert all([line.startswith("> ") for line in lines])
        await dialogue.end()

    run(check())


def test_an_exception_in_a_command_becomes_the_reply_that_handle_exception_returns():
    class Failing(SMTP):
        async def smtp_NOOP(self, arg: str) -> None:  # noqa: N802
            raise KeyError("secret")

        async def handle_exception(self, error: Exception) -> str:
            return f"451 {type(error).__name__}"

    async def check() -> None:
        dialogue = Dialogue(Failing)
        await dialogue.say(HELLO)
        assert await dialogue.say(b"NOOP\r\n") == ["451 KeyError"]
        await dialogue.end()

    run(check())
    assert issubclass(TLSSetupException, Exception)


def test_the_timer_of_a_session_calls_timeout_cb():
    calls = []

    class Timed(SMTP):
        def _timeout_cb(self) -> None:
            calls.append(self)

    async def check() -> None:
        dialogue = Dialogue(Timed)
        dialogue.smtp._reset_timeout(0.001)
        await asyncio.sleep(0.01)
        assert calls == [dialogue.smtp]
        await dialogue.end()

    run(check())


def test_addresses_of_mail_and_rcpt_come_from_getaddr():
    class Refusing(SMTP):
        def _getaddr(self, arg: str) -> Any:
            return None, None

    async def check() -> None:
        dialogue = Dialogue(Refusing)
        await dialogue.say(HELLO)
        assert (await dialogue.say(b"MAIL FROM:<a@example.org>\r\n"))[0].startswith("553 ")
        await dialogue.end()
        dialogue = Dialogue()
        assert dialogue.smtp._getaddr("<a@example.org> SIZE=3") == ("a@example.org", "SIZE=3")
        await dialogue.end()

    run(check())


def test_a_command_that_a_subclass_redefines_is_called_with_its_argument():
    class Own(SMTP):
        @syntax("DATA")
        async def smtp_DATA(self, arg: str | None) -> None:  # noqa: N802
            if not (await self.check_helo_needed() or await self.check_auth_needed("DATA")):
                await self.push(await self._call_handler_hook("DATA"))
                self.envelope = self._create_envelope()

    async def check() -> None:
        dialogue = Dialogue(Own)
        assert (await dialogue.say(b"", b"DATA\r\n"))[-1].startswith("503 ")
        await dialogue.say(HELLO, b"MAIL FROM:<a@example.org>\r\n", b"RCPT TO:<b@example.org>\r\n")
        assert dialogue.smtp.envelope.rcpt_tos == ["b@example.org"]
        assert await dialogue.say(b"DATA\r\n") == ["250 stored"]
        assert dialogue.smtp.envelope.rcpt_tos == []
        await dialogue.end()

    run(check())


def test_an_ehlo_hook_with_five_arguments_gets_the_lines_and_returns_them():
    async def check() -> None:
        dialogue = Dialogue(auth_require_tls=False, auth_exclude_mechanism=("PLAIN", "LOGIN"))
        await dialogue.say(b"", HELLO)
        assert dialogue.handler.lines[0] == "250-node"
        assert "250-AUTH " in dialogue.handler.lines, "without mechanisms the line is empty: ours removes it"
        await dialogue.end()

    run(check())


@pytest.mark.parametrize(
    "lines", [[b"AUTH PLAIN " + CREDENTIALS], [b"AUTH LOGIN", b64encode(b"user"), b64encode(b"secret")]]
)
def test_credentials_reach_the_authenticator_and_come_back_from_the_mechanism(lines: list[bytes]):
    given: list[Any] = []

    def defer(server: Any, session: Any, envelope: Any, mechanism: str, credentials: Any) -> AuthResult:
        given.append(credentials)
        return AuthResult(success=False, handled=False, auth_data=credentials)

    class Own(SMTP):
        async def auth_PLAIN(self, server: Any, args: list[str]) -> AuthResult:  # noqa: N802
            return self._accept(await super().auth_PLAIN(server, args))

        async def auth_LOGIN(self, server: Any, args: list[str]) -> AuthResult:  # noqa: N802
            return self._accept(await super().auth_LOGIN(server, args))

        def _accept(self, result: AuthResult) -> AuthResult:
            assert isinstance(result.auth_data, LoginPassword)
            return AuthResult(success=True, handled=False, auth_data="user")

    async def check() -> None:
        dialogue = Dialogue(Own, auth_require_tls=False, authenticator=defer)
        await dialogue.say(b"", HELLO)
        said = await dialogue.say(*[line + b"\r\n" for line in lines])
        assert said[-1].startswith("235 ")
        assert given == [LoginPassword(b"user", b"secret")]
        assert (dialogue.smtp.session.authenticated, dialogue.smtp.session.auth_data) == (True, "user")
        await dialogue.end()

    run(check())


def test_a_line_of_authentication_that_is_too_long_is_a_value_error():
    class Own(SMTP):
        line_length_limit = 60

        async def challenge_auth(self, *args: Any, **named: Any) -> Any:
            with pytest.raises(ValueError, match="limit"):
                await super().challenge_auth(*args, **named)
            await self.push("500 too long")
            return MISSING

    async def check() -> None:
        dialogue = Dialogue(Own, auth_require_tls=False)
        await dialogue.say(b"", HELLO)
        said = await dialogue.say(b"AUTH PLAIN\r\n", b"x" * 1000 + b"\r\n")
        assert said[1] == "500 too long"
        await dialogue.end()

    run(check())


def test_a_command_beyond_its_limit_ends_the_connection():
    async def check() -> None:
        dialogue = Dialogue(command_call_limit={"*": 2})
        await dialogue.say(b"", HELLO)
        said = await dialogue.say(b"NOOP\r\n", b"NOOP\r\n", b"NOOP\r\n")
        assert said[-1].startswith("421 ")
        assert dialogue.transport.is_closed
        await dialogue.end()

    run(check())


def test_sessions_and_envelopes_have_the_attributes_that_ours_reads():
    async def check() -> None:
        session = Session(asyncio.get_running_loop())
        assert (session.peer, session.ssl, session.host_name, session.auth_data) == (None, None, None, None)
        assert not session.authenticated

    run(check())
    envelope = Envelope()
    assert (envelope.mail_from, envelope.rcpt_tos, envelope.content, envelope.original_content) == (
        None,
        [],
        None,
        None,
    )


def test_it_logs_to_the_logger_that_ours_silences():
    assert smtp.log is logging.getLogger("mail.log")
