"""Who asks, and what they may do: roles, sessions of browsers, and requests that other sites have made a browser send.

A browser shows a password once, at the login page, and a cookie from then on. A session ends with its user: who is
removed from the file of users, or gets another password, is out with the next request.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from demaq.gateways.security.credential_file import ROLES, Role

SESSION_SECONDS = 12 * 3600.0
IDLE_SECONDS = 2 * 3600.0
"""A session that is not used for so long ends."""
SESSIONS_MAX = 1_000
"""Of more sessions, the one that was not used for longest ends."""
TOKEN_BYTES = 32
ANONYMOUS_NAME = "anonymous"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Who asks."""

    name: str
    role: Role
    kind: Literal["open", "session", "header"]
    """Let in because no one is asked, by a cookie, or by what a header shows."""
    csrf: str
    """What forms of this user must contain."""

    def may(self, role: Role) -> bool:
        return ROLES.index(role) <= ROLES.index(self.role)


@dataclass(slots=True)
class _Session:
    name: str
    hash: str
    csrf: str
    began: float
    used: float


class Sessions:
    """The sessions of browsers. Belongs to one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_key: OrderedDict[str, _Session] = OrderedDict()

    def begin(self, name: str, hashed: str) -> str:
        """Begin a session of a user, whose password has this hash. Return the value of its cookie."""
        cookie = secrets.token_urlsafe(TOKEN_BYTES)
        now = self._clock()
        self._by_key[_key(cookie)] = _Session(name, hashed, secrets.token_urlsafe(TOKEN_BYTES), now, now)
        while len(self._by_key) > SESSIONS_MAX:
            self._by_key.popitem(last=False)
        return cookie

    def find(self, cookie: str | None) -> tuple[str, str, str] | None:
        """Return the user of a session, the hash of the password it began with, and its CSRF token."""
        if cookie is None:
            return None
        key = _key(cookie)
        session = self._by_key.get(key)
        if session is None:
            return None
        now = self._clock()
        if now - session.began > SESSION_SECONDS or now - session.used > IDLE_SECONDS:
            del self._by_key[key]
            return None
        session.used = now
        self._by_key.move_to_end(key)
        return session.name, session.hash, session.csrf

    def end(self, cookie: str | None) -> None:
        if cookie is not None:
            self._by_key.pop(_key(cookie), None)

    def __len__(self) -> int:
        return len(self._by_key)


def _key(cookie: str) -> str:
    """Return what a session is looked up by: a hash, so that how long it takes says nothing about any cookie."""
    return hmac.digest(b"demaq-session", cookie.encode("utf-8", "surrogatepass"), "sha256").hex()


def is_same_origin(headers: Mapping[str, str], scheme: str) -> bool | None:
    """Return whether a page of the console itself has made a browser send this request; None if it does not say.

    Browsers send `Sec-Fetch-Site`, and older ones `Origin`; scripts cannot change either.
    """
    site = headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin is not None:
        return origin == f"{scheme}://{headers.get('host', '')}"
    return True if site is not None else None


def is_csrf_token(shown: str | None, expected: str) -> bool:
    return shown is not None and hmac.compare_digest(shown.encode("utf-8", "replace"), expected.encode())
