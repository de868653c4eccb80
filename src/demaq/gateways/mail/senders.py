"""Who may send mail to a node: a gateway that asks senders who they are asks them here for a name and a password."""

from __future__ import annotations

from collections.abc import Iterable

from demaq.errors import OperatorError
from demaq.gateways.mail.smtp_session import Authenticate
from demaq.gateways.security.authentication import Authenticator, Identity
from demaq.gateways.security.authorization_header import basic_header
from demaq.gateways.security.secrets import Secret
from demaq.gateways.settings import Settings


def guarded_mailboxes(settings: Settings, queues: Iterable[str]) -> list[str]:
    """Those of the gateways whose senders must say who they are. Raises an OperatorError if they could not."""
    guarded = [queue for queue in queues if settings.incoming(queue).auth]
    for queue in guarded:
        if "basic" not in settings.incoming(queue).auth:
            raise OperatorError(f'gateway {queue} gets mail, whose senders show passwords: auth is "basic" or "none"')
        if settings.tls.own is None:
            raise OperatorError(f"gateway {queue} asks senders of mail for passwords, and the node has no certificate")
    return guarded


def authentication(authenticator: Authenticator, guarded: list[str]) -> Authenticate | None:
    """Lets in who may send to all of these gateways: the question comes before the address of a mail is known."""
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
