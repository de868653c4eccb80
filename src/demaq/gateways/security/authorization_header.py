"""Read an `Authorization` header. Whatever is in it, this ends in credentials or in None."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

from demaq.gateways.security.passwords import PASSWORD_LENGTH_MAX
from demaq.gateways.security.secrets import Secret

HEADER_LENGTH_MAX = 4096
USER_LENGTH_MAX = 256
_HEADER = re.compile(r"([A-Za-z]{1,16}) +([!-~]+) *", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Password:
    user: str
    password: Secret


@dataclass(frozen=True, slots=True)
class Token:
    token: Secret


def credentials_in(header: str) -> Password | Token | None:
    """Return what a sender shows; None if it is none of what we know, or not well-formed."""
    if len(header) > HEADER_LENGTH_MAX:
        return None
    match = _HEADER.fullmatch(header)
    if match is None:
        return None
    scheme, value = match[1].lower(), match[2]
    if scheme == "bearer":
        return Token(Secret(value)) if _TOKEN.fullmatch(value) else None
    return _password(value) if scheme == "basic" else None


def basic_header(user: str, password: Secret) -> str:
    pair = f"{user}:{password.reveal()}".encode()
    return f"Basic {base64.b64encode(pair).decode('ascii')}"


def _password(value: str) -> Password | None:
    try:
        user, colon, password = base64.b64decode(value, validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    if _CONTROL.search(user) or _CONTROL.search(password):  # RFC 7617 forbids them
        return None
    if not colon or not 0 < len(user) <= USER_LENGTH_MAX or len(password) > PASSWORD_LENGTH_MAX:
        return None
    return Password(user, Secret(password))
