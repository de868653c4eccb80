"""Authentication of senders of mail, by name and password."""

from __future__ import annotations

from collections.abc import Iterable

from demaq.errors import OperatorError
from demaq.gateways.mail.smtp_session import Authenticate
from demaq.gateways.security.authentication import Authenticator, Identity
from demaq.gateways.security.authorization_header import basic_header
from demaq.gateways.security.secrets import Secret
from demaq.gateways.settings import Settings


def guarded_mailboxes(settings: Settings, queues: Iterable[str]) -> list[str]:
    """Return the gateways whose senders must authenticate. Raises an OperatorError if they could not."""
    guarded = [queue for queue in queues if settings.incoming(queue).auth]
    for queue in guarded:
        if "basic" not in settings.incoming(queue).auth:
            raise OperatorError(f'gateway {queue} gets mail, whose senders show passwords: auth is "basic" or "none"')
        if settings.tls.own is None:
            raise OperatorError(f"gateway {queue} asks senders of mail for passwords, and the node has no certificate")
    return guarded


def authentication(authenticator: Authenticator, guarded: list[str]) -> Authenticate | None:
    """Return a check of credentials, which must be valid for all these gateways: the recipient is not known yet."""
    if not guarded:
        return None

    async def may_send(name: str, password: str, peer: str) -> bool:
        shown = basic_header(name, Secret(password))
        for queue in guarded:
            found = await authenticator.decide(queue, shown, None, peer)
            if not isinstance(found, Identity):
                await authenticator.hold(found)
                return False
        return True

    return may_send
