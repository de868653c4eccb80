"""Authenticate and authorise senders.

Deciding is quick, except for a password that was not seen recently: that costs a tenth of a second on purpose. So a
password that was right is remembered for a while, as a keyed hash that is of no use outside this process; and a
server asks `decide`, which computes slow hashes in threads, a few at a time.

Failures are answered late, by how many came from the address or about the user recently. From an
address that guesses passwords, passwords are not checked at all for a while. Others do not wait: valid tokens and
certificates, passwords that are remembered, and senders at other addresses, however many others guess.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol

from demaq.gateways.security.authorization_header import Password, Token, credentials_in
from demaq.gateways.security.client_certificates import PeerCertificate
from demaq.gateways.security.credential_file import TOKENS, USERS, CredentialFile, Entry, Role
from demaq.gateways.security.passwords import password_hash, password_matches
from demaq.gateways.security.throttle import Throttle, network_of
from demaq.gateways.security.tokens import token_hash

AuthKind = Literal["basic", "bearer", "certificate"]
AUTH_KINDS: tuple[AuthKind, ...] = ("basic", "bearer", "certificate")
Reason = Literal["missing", "malformed", "wrong", "expired", "otherGateway", "certificate", "slowed", "busy"]

REMEMBERED_SECONDS = 300.0
"""A password that was right and is not used for so long is checked again."""
REMEMBERED_MAX = 10_000
HASHES_AT_ONCE = 2
HASHES_WAITING_MAX = 64
"""Further passwords are not looked at: 64 take seconds, and senders that wait longer have disconnected."""
HASHES_PER_ADDRESS_MAX = 8
"""So many of them for one address, so that it does not keep the others waiting."""
ANSWER_DELAY_SECONDS_MAX = 10.0
ANSWERS_HELD_MAX = 1_000
"""So many answers to failures are held back at once; further ones go out at once and cost nothing."""
REALM = "demaq"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A sender that may send."""

    name: str
    kind: Literal["none", "basic", "bearer", "certificate"]
    role: Role | None = None
    hash: str = field(default="", repr=False, compare=False)
    """Of the password or token, by which it is noticed that it was changed."""


CONSOLE = "/console"
"""In place of a gateway: the console and the HTTP API, for which a role is needed."""
ANONYMOUS = Identity(name="", kind="none")
"""The sender if authentication is off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """A refused sender: what to answer, and after how many seconds."""

    status: Literal[401, 403, 429]
    reason: Reason
    message: str
    www_authenticate: str | None = None
    delay_seconds: float = 0.0
    retry_after_seconds: int | None = None


class IncomingSecurity(Protocol):
    """What the settings of an incoming gateway say about security."""

    @property
    def auth(self) -> tuple[AuthKind, ...]: ...

    @property
    def users(self) -> Path: ...

    @property
    def tokens(self) -> Path: ...

    @property
    def certificates(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class _SlowCheck:
    """A password that only its hash can tell right or wrong."""

    key: bytes
    password: Password
    entry: Entry | None
    hash: str = field(repr=False)

    def matches(self) -> bool:
        """Return whether the password is right, after a tenth of a second."""
        return password_matches(self.password.password.reveal(), self.hash)


class Authenticator:
    """Decides for all incoming gateways of a node. Belongs to one thread."""

    def __init__(
        self,
        gateways: Mapping[str, IncomingSecurity],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._gateways = dict(gateways)
        self._clock = clock
        self._now = now
        self.failures: Counter[tuple[str, Reason]] = Counter()
        """How many senders were refused, by gateway and reason."""
        self._user_files: dict[Path, CredentialFile] = {}
        self._token_files: dict[Path, CredentialFile] = {}
        for gateway in self._gateways.values():
            if "basic" in gateway.auth and gateway.users not in self._user_files:
                self._user_files[gateway.users] = CredentialFile(gateway.users, USERS, clock)
            if "bearer" in gateway.auth and gateway.tokens not in self._token_files:
                self._token_files[gateway.tokens] = CredentialFile(gateway.tokens, TOKENS, clock)
        self._remembered = _Remembered(clock)
        self._failing_addresses = Throttle(clock)
        self._failing_users = Throttle(clock)
        self._guessing_addresses = Throttle(clock)
        # Unknown users take as long as known ones: names cannot be found out by timing.
        self._dummy_hash = password_hash(secrets.token_urlsafe()) if self._user_files else ""
        self._pool: ThreadPoolExecutor | None = None
        self._hashing: dict[bytes, asyncio.Future[bool]] = {}
        self._hashing_for: Counter[str] = Counter()
        self._held = 0

    def check(
        self, queue: str, authorization: str | None, certificate: PeerCertificate | None, address: str
    ) -> Identity | Denied:
        """Return the identity of a sender, or a refusal. Takes a tenth of a second for a password not seen recently."""
        found = self._look(queue, authorization, certificate, address)
        if not isinstance(found, _SlowCheck):
            return found
        return self._conclude(queue, found, found.matches(), address)

    async def decide(
        self, queue: str, authorization: str | None, certificate: PeerCertificate | None, address: str
    ) -> Identity | Denied:
        """Return the same as `check`, without blocking the event loop."""
        found = self._look(queue, authorization, certificate, address)
        if not isinstance(found, _SlowCheck):
            return found
        matches = self._hashing.get(found.key)  # many connections begin at once with the same password
        if matches is None:
            network = network_of(address)
            is_busy = len(self._hashing) >= HASHES_WAITING_MAX
            if is_busy or self._hashing_for[network] >= HASHES_PER_ADDRESS_MAX:
                return self._throttle(queue, "busy", 1.0)
            matches = self._start(found, network)
        # A caller that is cancelled does not cancel the check for the others.
        return self._conclude(queue, found, await asyncio.shield(matches), address)

    async def hold(self, denied: Denied) -> None:
        """Wait as long as an answer should, unless very many are waiting."""
        if denied.delay_seconds <= 0 or self._held >= ANSWERS_HELD_MAX:
            return
        self._held += 1
        try:
            await asyncio.sleep(denied.delay_seconds)
        finally:
            self._held -= 1

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    # --- what is shown -----------------------------------------------------------------------------------------------

    def _look(
        self, queue: str, authorization: str | None, certificate: PeerCertificate | None, address: str
    ) -> Identity | Denied | _SlowCheck:
        gateway = self._gateways[queue]
        if not gateway.auth:
            return ANONYMOUS
        if certificate is not None and "certificate" in gateway.auth:
            name = _accepted_name(certificate, gateway.certificates)
            if name is not None:
                return Identity(name=name, kind="certificate")
            if authorization is None or gateway.auth == ("certificate",):
                return self._deny(queue, address, "certificate", "this certificate may not send here", status=403)
        if gateway.auth == ("certificate",):
            return self._deny(queue, address, "missing", "send with a client certificate", status=403)
        if authorization is None:
            return self._deny(queue, address, "missing", "say who you are")
        shown = credentials_in(authorization)
        if isinstance(shown, Token) and "bearer" in gateway.auth:
            return self._token(queue, gateway, shown, address)
        if isinstance(shown, Password) and "basic" in gateway.auth:
            return self._password(queue, gateway, shown, address)
        return self._deny(queue, address, "malformed", "these credentials are not of a kind that is taken here")

    def _token(self, queue: str, gateway: IncomingSecurity, shown: Token, address: str) -> Identity | Denied:
        # The hash is looked up, not the token: how long that takes says nothing about any token.
        hashed = token_hash(shown.token.reveal())
        entry = self._token_files[gateway.tokens].by_hash(hashed)
        if entry is None or not hmac.compare_digest(entry.hash, hashed):
            return self._deny(queue, address, "wrong", "this token is not known")
        return self._admit(queue, entry, "bearer", address)

    def _password(
        self, queue: str, gateway: IncomingSecurity, shown: Password, address: str
    ) -> Identity | Denied | _SlowCheck:
        file = self._user_files[gateway.users]
        key = self._remembered.key(gateway.users, shown)
        entry = self._remembered.get(key)
        if entry is not None and file.holds(entry):
            return self._admit(queue, entry, "basic", address)
        wait = self._guessing_addresses.remaining_seconds(network_of(address))
        if wait > 0:
            return self._throttle(queue, "slowed", wait)
        entry = file.by_name(shown.user)
        return _SlowCheck(key, shown, entry, entry.hash if entry is not None else self._dummy_hash)

    def _conclude(self, queue: str, check: _SlowCheck, matches: bool, address: str) -> Identity | Denied:
        entry = check.entry
        if entry is None or not matches:
            self._guessing_addresses.note_failure(network_of(address))
            delay = self._failing_users.note_failure(check.password.user)
            return self._deny(queue, address, "wrong", "this is not a user and their password", delay=delay)
        self._remembered.put(check.key, entry)
        return self._admit(queue, entry, "basic", address)

    def _admit(self, queue: str, entry: Entry, kind: Literal["basic", "bearer"], address: str) -> Identity | Denied:
        if entry.has_expired(self._now()):
            return self._deny(queue, address, "expired", "these credentials have expired")
        if queue == CONSOLE and entry.role is None:
            said = "these credentials are for gateways, and not for the console"
            return self._deny(queue, address, "otherGateway", said, status=403)
        if queue != CONSOLE and entry.queues is not None and queue not in entry.queues:
            return self._deny(queue, address, "otherGateway", "these credentials are not for this gateway", status=403)
        return Identity(name=entry.name, kind=kind, role=entry.role, hash=entry.hash)

    def find_role(self, queue: str, name: str, hashed: str) -> Role | None:
        """Return the role that a user has now; None if they are removed, expired or have another password."""
        entry = self._user_files[self._gateways[queue].users].by_name(name)
        if entry is None or entry.hash != hashed or entry.has_expired(self._now()):
            return None
        return entry.role

    # --- what is answered --------------------------------------------------------------------------------------------

    def _deny(
        self,
        queue: str,
        address: str,
        reason: Reason,
        message: str,
        *,
        status: Literal[401, 403] = 401,
        delay: float = 0.0,
    ) -> Denied:
        self.failures[queue, reason] += 1
        if reason != "missing":  # many clients show their credentials only when they are asked for them
            delay = max(delay, self._failing_addresses.note_failure(network_of(address)))
        delay = min(delay, ANSWER_DELAY_SECONDS_MAX)
        challenge = _challenge(self._gateways[queue].auth) if status == 401 else None
        return Denied(status=status, reason=reason, message=message, www_authenticate=challenge, delay_seconds=delay)

    def _throttle(self, queue: str, reason: Literal["slowed", "busy"], seconds: float) -> Denied:
        self.failures[queue, reason] += 1
        message = "too many attempts; try again later"
        return Denied(status=429, reason=reason, message=message, retry_after_seconds=math.ceil(seconds))

    # --- slow hashes -------------------------------------------------------------------------------------------------

    def _start(self, check: _SlowCheck, network: str) -> asyncio.Future[bool]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(HASHES_AT_ONCE, thread_name_prefix="demaq-passwords")
        matches = asyncio.get_running_loop().run_in_executor(self._pool, check.matches)
        self._hashing[check.key] = matches
        self._hashing_for[network] += 1

        def done(_: object) -> None:
            del self._hashing[check.key]
            self._hashing_for[network] -= 1
            if not self._hashing_for[network]:
                del self._hashing_for[network]

        matches.add_done_callback(done)
        return matches


class _Remembered:
    """Passwords that were right recently, known by a hash with a key that only this process has."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._entries: OrderedDict[bytes, tuple[Entry, float]] = OrderedDict()

    def key(self, file: Path, shown: Password) -> bytes:
        text = f"{file}\0{shown.user}\0{shown.password.reveal()}"
        return hmac.digest(self._secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256)

    def get(self, key: bytes) -> Entry | None:
        entry, until = self._entries.get(key, (None, 0.0))
        if entry is None:
            return None
        now = self._clock()
        if now >= until:
            del self._entries[key]
            return None
        self._entries[key] = (entry, now + REMEMBERED_SECONDS)
        self._entries.move_to_end(key)
        return entry

    def put(self, key: bytes, entry: Entry) -> None:
        self._entries[key] = (entry, self._clock() + REMEMBERED_SECONDS)
        self._entries.move_to_end(key)
        while len(self._entries) > REMEMBERED_MAX:
            self._entries.popitem(last=False)


def _accepted_name(certificate: PeerCertificate, accepted: tuple[str, ...]) -> str | None:
    """Return the name by which a certificate is let in: if none are listed, any that the authority has signed."""
    if not accepted:
        return certificate.names[0]
    return next(iter([name for name in certificate.names if name in accepted]), None)


def _challenge(auth: tuple[AuthKind, ...]) -> str:
    schemes = {"basic": f'Basic realm="{REALM}", charset="UTF-8"', "bearer": f'Bearer realm="{REALM}"'}
    return ", ".join([schemes[kind] for kind in auth if kind in schemes])
