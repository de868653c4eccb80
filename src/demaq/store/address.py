"""The address of a store on PostgreSQL, a URI of libpq, and its name without secrets.

psycopg is imported by those who need it: it takes a fifth of the start of a process, and most stores are folders.
"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from demaq.errors import StoreError

if TYPE_CHECKING:
    import psycopg

SCHEMES = ("postgresql://", "postgres://")
"""Case-insensitive here; libpq knows them in lower case only."""
EXAMPLE = "postgresql://user@host:5432/database"
CONNECT_SECONDS_MAX = 10
PREPARED_MAX = 200
"""More than a store has statements, so that all stay prepared."""
_KEEP_ALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 25_000}
"""So that the failure of the server's machine is noticed within half a minute."""
_SECRETS = ("password", "sslpassword", "oauth_client_secret")
_WHICH = ("service", "host", "hostaddr", "port", "dbname", "user", "options")
"""The parameters that identify the database and schema."""
_NAME_LENGTH_MAX = 63  # PostgreSQL truncates longer names
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")  # pathlib makes one slash of two


def is_address(where: str | Path) -> bool:
    """Return whether a store is on a server. Raises StoreError if it is neither a valid address nor a folder.

    What looks like an address is never a folder: the folder would be created, with the password in its name.
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
    """Return whether the text is a connection string of libpq: `host=db password=…`."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        return bool(conninfo_to_dict(text))
    except psycopg.Error:
        return any([f"{name}=" in text.replace(" ", "") for name in _SECRETS])


class Address:
    """A URI of libpq. `str` returns it without password and options."""

    def __init__(self, text: str) -> None:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        try:
            self._parameters = conninfo_to_dict(_lower_scheme(text))
        except psycopg.Error:
            # Without the cause: the message of libpq may quote a password.
            raise StoreError(
                f"the address of the store is not one that PostgreSQL knows; it looks like {EXAMPLE}"
            ) from None

    def __str__(self) -> str:
        known = {name: str(value) for name, value in self._parameters.items()}
        user = f"{known['user']}@" if "user" in known else ""
        port = f":{known['port']}" if "port" in known else ""
        return f"postgresql://{user}{known.get('host', '')}{port}/{known.get('dbname', '')}"

    def remove_secrets(self, text: str) -> str:
        for name in _SECRETS:
            secret = self._parameters.get(name)
            if secret:
                text = text.replace(str(secret), "…")
        return text

    def identity(self) -> dict[str, str]:
        """Return the parameters that identify the store, with libpq's defaults, without connecting."""
        from psycopg import pq

        defaults = {option.keyword.decode(): option.val for option in pq.Conninfo.get_defaults()}
        known = {name: value.decode() for name, value in defaults.items() if value is not None}
        known.update({name: str(value) for name, value in self._parameters.items()})
        known.setdefault("dbname", known.get("user", ""))
        return {name: known[name] for name in _WHICH if name in known}

    def for_others(self) -> str:
        """Return an address that is valid on other machines, without their files and environment. It holds secrets."""
        with self.connect() as connection:
            found = connection.info
            here = {"host": found.host, "port": found.port, "user": found.user, "dbname": found.dbname}
            here["password"] = found.password
        parameters = {name: value for name, value in self._parameters.items() if name not in ("service", "passfile")}
        known = {**{name: value for name, value in here.items() if value}, **parameters}
        query = "&".join([f"{name}={quote(str(value), safe='')}" for name, value in known.items()])
        return f"{SCHEMES[0]}/?{query}"

    def connect(self) -> psycopg.Connection:
        """Return a new connection in autocommit mode."""
        import psycopg
        from psycopg.types.numeric import Int8Dumper

        name = f"demaq, process {os.getpid()} on {socket.gethostname()}"[:_NAME_LENGTH_MAX]
        defaults = {"connect_timeout": CONNECT_SECONDS_MAX, **_KEEP_ALIVE, "application_name": name}
        connection = psycopg.connect(**{**defaults, **self._parameters}, autocommit=True)  # type: ignore[arg-type]
        # One type for all integers: a statement is prepared once for each combination of types.
        connection.adapters.register_dumper(int, Int8Dumper)
        connection.prepared_max = PREPARED_MAX
        return connection


def _lower_scheme(text: str) -> str:
    scheme, separator, rest = text.strip().partition("://")
    return f"{scheme.lower()}{separator}{rest}"
