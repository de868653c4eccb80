"""What a console is given by the process that starts it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from demaq.gateways.security.authentication import AuthKind
from demaq.gateways.security.credential_file import Role
from demaq.gateways.security.origins import is_loopback
from demaq.gateways.settings import IncomingSettings

LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """For which store, who is let in, and by which names the console is known."""

    store: str
    auth: tuple[AuthKind, ...] = ()
    """How operators show who they are; empty if no one is asked."""
    users: Path = Path("users")
    tokens: Path = Path("tokens")
    certificates: tuple[str, ...] = ()
    open_role: Role = "read"
    """What everyone may do if no one is asked."""
    host_names: tuple[str, ...] = LOCAL_NAMES
    """The names in `Host` by which a console is known that asks no one. A site whose name is changed to our address
    while a browser shows it (DNS rebinding) sends another one."""
    is_https: bool = False
    others: tuple[str, ...] = ()
    """Stores of other nodes, into which conversations are followed."""

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str)

    @staticmethod
    def from_json(text: str) -> ConsoleSettings:
        known: dict[str, Any] = json.loads(text)
        for name in ("users", "tokens"):
            known[name] = Path(known[name])
        for name in ("auth", "certificates", "host_names", "others"):
            known[name] = tuple(known[name])
        return ConsoleSettings(**known)


def make_console_settings(
    store: str, incoming: IncomingSettings, host: str, *, is_https: bool = False, others: Sequence[str] = ()
) -> ConsoleSettings:
    """Return the settings of a console that listens at a host, by those of the node's gateways.

    Client certificates have no roles, so they let no one in here.
    """
    auth = tuple([kind for kind in incoming.auth if kind != "certificate"])
    is_local = is_loopback(host)
    return ConsoleSettings(
        store=store,
        auth=auth,
        users=incoming.users.absolute(),
        tokens=incoming.tokens.absolute(),
        open_role="administer" if is_local else "read",
        host_names=(*LOCAL_NAMES, f"[{host}]" if ":" in host else host) if is_local else (),
        is_https=is_https,
        others=tuple(others),
    )


def may_serve_unasked(incoming: IncomingSettings, host: str) -> bool:
    """Return whether a node serves a console that its operator has not asked for."""
    return is_loopback(host) or bool({"basic", "bearer"} & set(incoming.auth))
