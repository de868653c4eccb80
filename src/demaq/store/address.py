"""Where a store on PostgreSQL is: an address as libpq knows it, and how to name it without its secrets."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8Dumper

from demaq.errors import StoreError

SCHEMES = ("postgresql://", "postgres://")
"""In any letters: libpq itself knows them in small ones only."""
EXAMPLE = "postgresql://user@host:5432/database"
CONNECT_SECONDS_MAX = 10
PREPARED_MAX = 200
"""All statements of a store stay prepared."""
_KEEP_ALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 25_000}
"""So that a server whose machine is gone is noticed within half a minute."""
_SECRETS = ("password", "sslpassword", "oauth_client_secret")
_WHICH = ("service", "host", "hostaddr", "port", "dbname", "user", "options")
"""What says which database and schema it is about."""
_NAME_LENGTH_MAX = 63  # PostgreSQL cuts off what is longer
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")  # pathlib makes one slash of two


def is_address(where: str | Path) -> bool:
    """Return whether a store is on a server. Raise a StoreError for what is neither an address nor a folder.

    Whatever looks like an address is no folder: it would be made, with the password in its name.
    """
    text = str(where).strip()
    if isinstance(where, str) and text.lower().startswith(SCHEMES):
        return True
    scheme = _SCHEME.match(text)
    if scheme is not None or "://" in text:
        said = "" if scheme is None or _is_known(scheme[1]) else f"; {scheme[1]}: is not known"
        raise StoreError(f"a store is a folder, or the address of a database as {EXAMPLE}{said}")
    if "=" in text and _is_conninfo(text):
        raise StoreError(f"the address of a database is written as {EXAMPLE}")
    return False


def _is_known(scheme: str) -> bool:
    return f"{scheme.lower()}://" in SCHEMES


def _is_conninfo(text: str) -> bool:
    """Return whether libpq takes it for parameters of a connection: `host=db password=…`."""
    try:
        return bool(conninfo_to_dict(text))
    except psycopg.Error:
        return any([f"{name}=" in text.replace(" ", "") for name in _SECRETS])


class Address:
    """An address that libpq understands. As text it has neither password nor options."""

    def __init__(self, text: str) -> None:
        try:
            self._parameters = conninfo_to_dict(_with_small_scheme(text))
        except psycopg.Error:
            # Not even as the cause: what libpq says about it may quote a password.
            raise StoreError(
                f"the address of the store is not one that PostgreSQL knows; it looks like {EXAMPLE}"
            ) from None

    def __str__(self) -> str:
        known = {name: str(value) for name, value in self._parameters.items()}
        user = f"{known['user']}@" if "user" in known else ""
        port = f":{known['port']}" if "port" in known else ""
        return f"postgresql://{user}{known.get('host', '')}{port}/{known.get('dbname', '')}"

    def without_secrets(self, text: str) -> str:
        for name in _SECRETS:
            secret = self._parameters.get(name)
            if secret:
                text = text.replace(str(secret), "…")
        return text

    def identity(self) -> dict[str, str]:
        """Which store it is, as far as that can be told without asking: what is left out has libpq's defaults."""
        defaults = {option.keyword.decode(): option.val for option in pq.Conninfo.get_defaults()}
        known = {name: value.decode() for name, value in defaults.items() if value is not None}
        known.update({name: str(value) for name, value in self._parameters.items()})
        known.setdefault("dbname", known.get("user", ""))
        return {name: known[name] for name in _WHICH if name in known}

    def for_others(self) -> str:
        """An address that leads there from other machines too, with what only this one knows: the password, say.

        Whoever is given it can connect without files and variables of its own. It holds secrets.
        """
        with self.connect() as connection:
            found = connection.info
            here = {"host": found.host, "port": found.port, "user": found.user, "dbname": found.dbname}
            here["password"] = found.password
        parameters = {name: value for name, value in self._parameters.items() if name not in ("service", "passfile")}
        known = {**{name: value for name, value in here.items() if value}, **parameters}
        query = "&".join([f"{name}={quote(str(value), safe='')}" for name, value in known.items()])
        return f"{SCHEMES[0]}/?{query}"

    def connect(self) -> psycopg.Connection:
        """A connection on which every statement is a transaction of its own, unless one is begun."""
        name = f"demaq, process {os.getpid()} on {socket.gethostname()}"[:_NAME_LENGTH_MAX]
        defaults = {"connect_timeout": CONNECT_SECONDS_MAX, **_KEEP_ALIVE, "application_name": name}
        connection = psycopg.connect(**{**defaults, **self._parameters}, autocommit=True)  # type: ignore[arg-type]
        # One width for all numbers: a statement is prepared once for each combination of types.
        connection.adapters.register_dumper(int, Int8Dumper)
        connection.prepared_max = PREPARED_MAX
        return connection


def _with_small_scheme(text: str) -> str:
    scheme, separator, rest = text.strip().partition("://")
    return f"{scheme.lower()}{separator}{rest}"
