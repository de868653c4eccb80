"""Send messages by mail, through the relay that the node's settings name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from demaq.errors import MessageError
from demaq.gateways.http.headers import HOPS_HEADER, trace_headers
from demaq.gateways.mail.addresses import is_mailto, read_mailto
from demaq.gateways.mail.composition import compose
from demaq.gateways.mail.relay import Relay, send_mail
from demaq.gateways.outbox.delivery_results import Delivered, DeliveryFailed, refuse_recipient
from demaq.gateways.settings import MailSettings, OutgoingSettings
from demaq.gateways.settings import RelaySettings as RelaySettings
from demaq.language.endpoints import Destination
from demaq.store.epochs import Epochs
from demaq.store.protocol import StoredMessage

COMPOSE_BESIDE_CHARACTERS = 32 * 1024
"""A larger message becomes a mail in a thread, so that others do not wait."""


class MailSender:
    def __init__(
        self, epochs: Epochs, settings: MailSettings, own_addresses: Mapping[str, str | None] | None = None
    ) -> None:
        """`epochs` has the names by which mails that come twice are known; addresses are by gateway."""
        self._own_addresses = own_addresses or {}
        self._epochs = epochs
        self._sender = settings.sender
        self._relay = None if settings.relay is None else _relay(settings.relay)

    async def send(
        self, message: StoredMessage, to: Destination, settings: OutgoingSettings
    ) -> Delivered | DeliveryFailed:
        given = message.properties.get("Sender")
        sender = given.text if given is not None and "@" in given.text else self._sender
        if sender is None:
            return DeliveryFailed(
                kind="routing",
                reason="no sender: write `with Sender value …`, or set sender under [mail] in the settings",
                again=False,
            )
        try:
            write = partial(
                compose,
                message.body,
                recipient=to.address,
                sender=sender.removeprefix("mailto:"),
                message_id=f"{message.seq}@{self._epochs.epoch_name(message.seq)}.demaq.invalid",
                date=message.created,
                headers={HOPS_HEADER: str(message.hops + 1), **trace_headers()},
            )
            is_large = len(message.body) > COMPOSE_BESIDE_CHARACTERS
            mail = await asyncio.to_thread(write) if is_large else write()
            stranger = self._find_forbidden_recipient(message.queue, to.address, settings)
        except MessageError as error:
            return DeliveryFailed(kind=error.kind, reason=error.message, again=False)
        if stranger is not None:
            return refuse_recipient(message.queue, f"mailto:{stranger}")
        return await send_mail(mail, self._relay)

    def _find_forbidden_recipient(self, queue: str, address: str, settings: OutgoingSettings) -> str | None:
        """Return the first recipient that neither the gateway's endpoint nor the settings name."""
        own = self._own_addresses.get(queue)
        known = read_mailto(own).recipients if own is not None and is_mailto(own) else ()
        wanted = [each for each in read_mailto(address).recipients if each not in known]
        return next(iter([each for each in wanted if not settings.recipients.may_mail(each)]), None)


def _relay(settings: RelaySettings) -> Relay:
    return Relay(
        host=settings.host,
        port=settings.port,
        tls=settings.tls,
        tls_context=settings.client_context(),
        user=settings.user,
        password=None if settings.password is None else settings.password.reveal(),
    )
