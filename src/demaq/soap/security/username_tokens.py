"""UsernameTokens: a user with a password as text, as a digest, or without one (UsernameToken Profile 1.1)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from lxml import etree

from demaq.soap.qualified_names import child_elements, clark
from demaq.soap.security.element_writer import RandomBytes, add_element, encode_base64, ensure_id
from demaq.soap.security.header_reader import decode_base64, only_child, optional_child, text_of
from demaq.soap.security.security_faults import failed_authentication, invalid_token, unsupported_token
from demaq.soap.security.security_requirements import PasswordForm, UsernameRequirement
from demaq.soap.security.timestamps import check_created, format_time, parse_time
from demaq.soap.security.verification_settings import VerificationSettings
from demaq.soap.security.wss_names import BASE64, PASSWORD_DIGEST, PASSWORD_TEXT, WSSE, WSU

NONCE_BYTES: Final = 16
NONCE_BYTES_MAX: Final = 256
USER_CHARACTERS_MAX: Final = 256
PASSWORD_CHARACTERS_MAX: Final = 4_096
_KNOWN: Final = frozenset(
    {clark(WSSE, "Username"), clark(WSSE, "Password"), clark(WSSE, "Nonce"), clark(WSU, "Created")}
)


@dataclass(frozen=True, slots=True)
class UserCredential:
    """A user and the password, as the sender of a message knows them."""

    user: str
    password: str = field(repr=False)


class UserDirectory(Protocol):
    """The users that a receiver knows. How long an answer takes must not depend on what is wrong."""

    def check_password(self, user: str, password: str) -> bool:
        """Return whether a user exists and has this password."""
        ...

    def password_of(self, user: str) -> str | None:
        """Return the password of a user, without which a digest cannot be checked; None if it is not known."""
        ...


class UserPasswords:
    """Users with passwords in memory."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = dict(passwords)

    def check_password(self, user: str, password: str) -> bool:
        expected = self._passwords.get(user)
        is_same = hmac.compare_digest(_hash(expected or ""), _hash(password))
        return is_same and expected is not None

    def password_of(self, user: str) -> str | None:
        return self._passwords.get(user)

    def __repr__(self) -> str:
        return f"UserPasswords({len(self._passwords)} users)"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticatedUser:
    """A user whose password was right, or of whom none was asked."""

    user: str
    replay_key: str | None
    """Identifies nonce and time; None if there is no nonce."""
    expires: datetime | None
    """When the token is no longer accepted; None if it does not say when it was made."""


def write_username_token(
    security: etree._Element,
    requirement: UsernameRequirement,
    credential: UserCredential,
    now: datetime,
    random: RandomBytes,
) -> etree._Element:
    """Add a UsernameToken to a header."""
    nonce, created = random(NONCE_BYTES), format_time(now)
    token = add_element(security, WSSE, "UsernameToken")
    ensure_id(token, random)
    add_element(token, WSSE, "Username", credential.user)
    if requirement.password is PasswordForm.TEXT:
        add_element(token, WSSE, "Password", credential.password, Type=PASSWORD_TEXT)
    elif requirement.password is PasswordForm.DIGEST:
        digest = make_digest(
            nonce if requirement.nonce else b"", created if requirement.created else "", credential.password
        )
        add_element(token, WSSE, "Password", encode_base64(digest), Type=PASSWORD_DIGEST)
    if requirement.nonce:
        add_element(token, WSSE, "Nonce", encode_base64(nonce), EncodingType=BASE64)
    if requirement.created:
        add_element(token, WSU, "Created", created)
    return token


def check_username_token(
    token: etree._Element,
    requirement: UsernameRequirement,
    users: UserDirectory,
    now: datetime,
    settings: VerificationSettings,
) -> AuthenticatedUser:
    """Return the user of a token. Raises SoapRefusal, the same for an unknown user and a wrong password."""
    if not _KNOWN.issuperset([str(child.tag) for child in child_elements(token)]):
        raise unsupported_token("a UsernameToken has something else than Username, Password, Nonce and Created")
    user = text_of(only_child(token, clark(WSSE, "Username"))).strip()
    if not user or len(user) > USER_CHARACTERS_MAX:
        raise invalid_token("the name in a UsernameToken is empty or too long", "authentication")
    nonce, created = _read_nonce(token, requirement), _read_created(token, requirement)
    expires = check_created(parse_time(created), now, settings) if created else None
    _check_password(token, user, requirement.password, nonce or b"", created or "", users)
    key = None
    if nonce is not None:
        key = "nonce:" + hashlib.sha256(b"\0".join([nonce, (created or "").encode(), user.encode()])).hexdigest()
    return AuthenticatedUser(user=user, replay_key=key, expires=expires)


def make_digest(nonce: bytes, created: str, password: str) -> bytes:
    """Return the digest that the profile defines, which uses SHA-1."""
    return hashlib.sha1(nonce + created.encode() + password.encode(), usedforsecurity=False).digest()


def _check_password(
    token: etree._Element, user: str, form: PasswordForm, nonce: bytes, created: str, users: UserDirectory
) -> None:
    element = optional_child(token, clark(WSSE, "Password"))
    if form is PasswordForm.NONE:
        return
    if element is None:
        raise invalid_token("a UsernameToken has no password", "authentication")
    kind = element.get("Type", PASSWORD_TEXT)
    if kind != (PASSWORD_TEXT if form is PasswordForm.TEXT else PASSWORD_DIGEST):
        raise invalid_token(f"the password of a UsernameToken is not given as {form.value}", "authentication")
    given = text_of(element)
    if len(given) > PASSWORD_CHARACTERS_MAX:
        raise failed_authentication()
    if form is PasswordForm.TEXT:
        is_right = users.check_password(user, given)
    else:
        password = users.password_of(user)
        expected = make_digest(nonce, created, password if password is not None else "unknown")
        is_right = hmac.compare_digest(expected, decode_base64(element, "a digest")) and password is not None
    if not is_right:
        raise failed_authentication()


def _read_nonce(token: etree._Element, requirement: UsernameRequirement) -> bytes | None:
    element = optional_child(token, clark(WSSE, "Nonce"))
    if element is None:
        if requirement.nonce:
            raise invalid_token("a UsernameToken has no Nonce", "authentication")
        return None
    if element.get("EncodingType", BASE64) != BASE64:
        raise unsupported_token("a Nonce is not in base64")
    nonce = decode_base64(element, "a Nonce")
    if not nonce or len(nonce) > NONCE_BYTES_MAX:
        raise invalid_token("a Nonce is empty or too long", "authentication")
    return nonce


def _read_created(token: etree._Element, requirement: UsernameRequirement) -> str | None:
    element = optional_child(token, clark(WSU, "Created"))
    if element is None:
        if requirement.created:
            raise invalid_token("a UsernameToken has no Created", "authentication")
        return None
    return text_of(element).strip()


def _hash(text: str) -> bytes:
    """Return something of the same length for all texts, for a comparison that takes the same time."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
