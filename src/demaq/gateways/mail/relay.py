"""Send a mail by a relay: the mail server of the provider or the company, which knows where mails go.

A mail goes to all its recipients or to none: when the relay refuses one of them, nothing is sent. So an attempt has one
outcome, and repeating it sends no second mail.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.generator import BytesGenerator
from email.message import EmailMessage
from email.policy import SMTP as MAIL_POLICY
from email.utils import getaddresses
from io import BytesIO
from typing import Literal

from aiosmtplib import (
    SMTP,
    SMTPAuthenticationError,
    SMTPException,
    SMTPRecipientRefused,
    SMTPResponseException,
    SMTPTimeoutError,
)

from demaq.gateways.outbox.delivery_results import Delivered, DeliveryFailed

SECONDS_MAX = 60.0
"""For each answer of the relay."""
ATTEMPT_SECONDS_MAX = 600.0
"""For all of an attempt: a relay takes its time to look at a mail before its last answer."""
STATUS_CHARACTERS_MAX = 300
QUIT_SECONDS_MAX = 5.0

START_TLS = {"never": False, "if offered": None, "required": True, "from the start": False}
NO_SUCH_COMMAND = 502

_FINAL = range(500, 600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """The mail server that takes our mails."""

    host: str
    port: int = 25
    tls: Literal["never", "if offered", "required", "from the start"] = "if offered"
    """The middle two are STARTTLS; port 465 has it from the start."""
    tls_context: ssl.SSLContext | None = None
    """What is trusted; without it what the system trusts."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    """Is sent over TLS, or where that is never used."""
    host_name: str | None = None
    """What the node calls itself."""
    timeout_seconds: float = SECONDS_MAX


async def send_mail(mail: EmailMessage, relay: Relay | None) -> Delivered | DeliveryFailed:
    """Make one attempt. Faults of the network and the relay are returned, not raised."""
    if relay is None:
        return DeliveryFailed(
            kind="routing",
            reason='no relay takes mails of this node: set relay = "smtp://HOST:PORT" under [mail] in its settings',
            again=False,
        )
    try:
        async with asyncio.timeout(ATTEMPT_SECONDS_MAX):
            return await _attempt(mail, relay)
    except SMTPRecipientRefused as refused:
        return _classify_refusal(refused, f"the relay refuses {refused.recipient}, and nothing was sent")
    except SMTPAuthenticationError as error:
        return _classify_refusal(
            error, "the relay does not accept the node's user name and password", kind="authentication"
        )
    except SMTPResponseException as error:
        return _classify_refusal(error, "the relay refuses the mail")
    except (SMTPException, OSError, TimeoutError, ValueError) as error:
        return _classify_failure(error, relay)


async def _attempt(mail: EmailMessage, relay: Relay) -> Delivered | DeliveryFailed:
    client = SMTP(
        hostname=relay.host,
        port=relay.port,
        timeout=relay.timeout_seconds,
        use_tls=relay.tls == "from the start",
        start_tls=START_TLS[relay.tls],
        tls_context=relay.tls_context,
        local_hostname=relay.host_name,
    )
    try:
        await client.connect()
        if relay.user is not None:
            if relay.tls != "never" and client.get_transport_info("sslcontext") is None:
                return DeliveryFailed(
                    kind="authentication",
                    reason="the relay offers no TLS, and the password is not sent without",
                    again=False,
                )
            await _log_in(client, relay.user, relay.password or "")
        return await _hand_over(mail, client)
    finally:
        await _hang_up(client)


async def _log_in(client: SMTP, user: str, password: str) -> None:
    try:
        await client.login(user, password)
    except SMTPException as error:
        if isinstance(error, SMTPResponseException | SMTPTimeoutError | ConnectionError):
            raise
        raise SMTPAuthenticationError(NO_SUCH_COMMAND, error.message) from None  # it offers no way that we know


async def _hand_over(mail: EmailMessage, client: SMTP) -> Delivered | DeliveryFailed:
    sender = _addresses(mail, "From")[0]
    recipients = [*_addresses(mail, "To"), *_addresses(mail, "Cc")]
    needs_utf8 = not all([address.isascii() for address in [sender, *recipients]])
    if client.is_ehlo_or_helo_needed:
        await client.ehlo()
    if needs_utf8 and not client.supports_extension("smtputf8"):
        return DeliveryFailed(
            kind="refused", reason="the relay cannot send to addresses with such letters", again=False
        )
    data = await asyncio.to_thread(_serialise, mail, needs_utf8)  # it may be large, and others do not wait for it
    options = ["SMTPUTF8"] if needs_utf8 else []
    if client.supports_extension("size"):
        options.append(f"SIZE={len(data)}")
    encoding = "utf-8" if needs_utf8 else "ascii"
    await client.mail(sender, options=options, encoding=encoding)
    refusals: list[SMTPRecipientRefused] = []
    for recipient in dict.fromkeys(recipients):
        try:
            await client.rcpt(recipient, encoding=encoding)
        except SMTPRecipientRefused as refused:
            refusals.append(refused)
    if refusals:  # one that is final decides: trying again would not help it
        raise max(refusals, key=lambda refused: refused.code)
    code, text = await client.data(data)
    return Delivered(status=_one_line(f"{code} {text}"))


async def _hang_up(client: SMTP) -> None:
    """A dialogue that has ended well or not: what the relay says to QUIT changes nothing."""
    try:
        if client.is_connected:
            await client.quit(timeout=QUIT_SECONDS_MAX)
    except (SMTPException, OSError):
        pass
    finally:
        client.close()


def _addresses(mail: EmailMessage, header: str) -> list[str]:
    return [address for _, address in getaddresses([str(value) for value in mail.get_all(header, [])])]


def _serialise(mail: EmailMessage, with_utf8: bool) -> bytes:
    file = BytesIO()
    BytesGenerator(file, policy=MAIL_POLICY.clone(utf8=with_utf8)).flatten(mail)
    return file.getvalue()


def _classify_refusal(error: SMTPResponseException, reason: str, kind: str = "refused") -> DeliveryFailed:
    status = _one_line(f"{error.code} {error.message}")
    return DeliveryFailed(kind=kind, reason=f"{reason}: {status}", status=status, again=error.code not in _FINAL)


def _classify_failure(error: Exception, relay: Relay) -> DeliveryFailed:
    """Return what has gone wrong on the way: the first cause that we know decides."""
    place = f"{relay.host}:{relay.port}"
    for cause in _iterate_causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = f"the certificate of the relay {place} is not trusted: {cause.verify_message}"
            return DeliveryFailed(kind="invalidCertificate", reason=_one_line(reason), again=False)
        if isinstance(cause, socket.gaierror | UnicodeError):
            return DeliveryFailed(kind="nameResolution", reason=f"the relay {relay.host} is not known by name")
        if isinstance(cause, SMTPTimeoutError | TimeoutError):
            return DeliveryFailed(kind="timeout", reason=f"the relay {place} has not answered in time")
    if isinstance(error, ConnectionError | OSError):
        return DeliveryFailed(
            kind="disconnectedTransport", reason=f"no connection with the relay {place}: {_quote_response(error)}"
        )
    return DeliveryFailed(
        kind="refused", reason=f"the relay {place} cannot be used: {_quote_response(error)}", again=False
    )


def _iterate_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _quote_response(error: Exception) -> str:
    return _one_line(str(error)) or type(error).__name__


def _one_line(text: str) -> str:
    return " ".join(text.split())[:STATUS_CHARACTERS_MAX]
