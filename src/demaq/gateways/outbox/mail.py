"""Send messages by mail, through the relay that the node's settings name."""

from __future__ import annotations

from demaq.errors import MessageError
from demaq.gateways.mail.sending import Relay, send_mail
from demaq.gateways.mail.writing import compose
from demaq.gateways.outbox.results import NotSent, Sent
from demaq.gateways.settings import Mail, Outgoing
from demaq.gateways.settings import Relay as RelaySettings
from demaq.language.endpoints import Destination
from demaq.store.protocol import StoredMessage


class MailSender:
    def __init__(self, identity: str, settings: Mail) -> None:
        """`identity` is the store's name, by which mails that come twice are known."""
        self._identity = identity
        self._sender = settings.sender
        self._relay = None if settings.relay is None else _relay(settings.relay)

    async def send(self, message: StoredMessage, to: Destination, settings: Outgoing) -> Sent | NotSent:
        given = message.properties.get("Sender")
        sender = given.text if given is not None and "@" in given.text else self._sender
        if sender is None:
            return NotSent(
                kind="routing",
                reason="the mail is from nobody: say `with Sender value …`, or set sender under [mail] in the settings",
                again=False,
            )
        try:
            mail = compose(
                message.body,
                recipient=to.address,
                sender=sender.removeprefix("mailto:"),
                message_id=f"{message.seq}@{self._identity}.demaq.invalid",
                date=message.created,
            )
        except MessageError as error:
            return NotSent(kind=error.kind, reason=error.message, again=False)
        return await send_mail(mail, self._relay)


def _relay(settings: RelaySettings) -> Relay:
    return Relay(
        host=settings.host,
        port=settings.port,
        tls=settings.tls,
        tls_context=settings.client_context(),
        user=settings.user,
        password=None if settings.password is None else settings.password.reveal(),
    )
