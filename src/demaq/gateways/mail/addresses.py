"""Mail addresses: how they are compared, and how `mailto:` names them.

mailto:orders@example.org
mailto:a@example.org,b@example.org?subject=New%20order&cc=c@example.org
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from demaq.errors import MessageError, OperatorError
from demaq.masking import mask_address

ADDRESS_CHARACTERS_MAX = 254
"""Longer ones cannot be sent (RFC 5321, 4.5.3.1.3)."""
ADDRESSES_MAX = 100
"""How many recipients one mail may have: every mail server takes so many (RFC 5321, 4.5.3.1.8)."""

_SCHEME = "mailto:"
_FORBIDDEN = r"\s@<>(),:;\"\\\[\]\x00-\x1f\x7f-\x9f\ud800-\udfff"
_ADDRESS = re.compile(rf"[^{_FORBIDDEN}]+@[^{_FORBIDDEN}]+")
_QUOTED = re.compile(r'"([^"\\\s@]+)"')
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailto:
    """Whom a mail goes to, and what it is about where that is said."""

    to: tuple[str, ...]
    cc: tuple[str, ...] = ()
    subject: str | None = None

    @property
    def recipients(self) -> tuple[str, ...]:
        """Return all recipients of the mail, each once."""
        return tuple(dict.fromkeys([*self.to, *self.cc]))


def is_mailto(uri: str) -> bool:
    """Return whether an endpoint or a recipient is for mail."""
    return uri[: len(_SCHEME)].lower() == _SCHEME


def read_mailto(uri: str) -> Mailto:
    """Return the parts of a `mailto:`. Raises a MessageError of kind routing if it is none."""
    if not is_mailto(uri):
        raise _make_error(f"{_shorten(uri)} is no mail address: it must begin with mailto:")
    names, _, options = uri[len(_SCHEME) :].partition("?")
    to = list(_addresses(names))
    cc: list[str] = []
    subject = None
    for option in [option for option in options.split("&") if option]:
        name, _, value = option.partition("=")
        if name.lower() == "to":
            to += _addresses(value)
        elif name.lower() == "cc":
            cc += _addresses(value)
        elif name.lower() == "subject":
            subject = expect_one_line("the subject", unquote(value))
        else:
            raise _make_error(
                f"{_shorten(name)} is no part of a mailto: address that can be used: there are to, cc, subject"
            )
    if not to:
        raise _make_error(f"{_shorten(uri)} names no recipient")
    if len(to) + len(cc) > ADDRESSES_MAX:
        raise _make_error(f"the mail has more than {ADDRESSES_MAX} recipients")
    return Mailto(to=tuple(to), cc=tuple(cc), subject=subject)


def expect_address(text: str) -> str:
    """Return the address as it is sent: its domain in letters that every mail server knows."""
    if not _ADDRESS.fullmatch(text) or len(text) > ADDRESS_CHARACTERS_MAX:
        raise _make_error(f"{_shorten(text)} is no mail address")
    local, _, domain = text.rpartition("@")
    return f"{local}@{_ascii_domain(domain)}"


def expect_one_line(what: str, text: str) -> str:
    """Return a value of a header. Line breaks in it would begin another header of the sender's choice."""
    if _CONTROL.search(text):
        raise _make_error(f"{what} of a mail must be one line without control characters")
    return text


def normalise_address(address: str) -> str:
    """Return the normal form of an address: without quotes, in lower case, with the domain in ASCII."""
    local, _, domain = address.strip().rpartition("@")
    quoted = _QUOTED.fullmatch(local)
    return f"{(quoted.group(1) if quoted else local).casefold()}@{_ascii_domain(domain)}"


def remove_detail(address: str) -> str:
    """Return the address without what follows a plus sign: `orders+x@example.org` is `orders@example.org`."""
    local, _, domain = address.rpartition("@")
    return f"{local.partition('+')[0] or local}@{domain}"


def queues_by_address(endpoints: Mapping[str, str]) -> dict[str, str]:
    """Return the queue of each address, from the endpoints of incoming gateways."""
    found: dict[str, str] = {}
    for queue, endpoint in endpoints.items():
        try:
            addresses = read_mailto(endpoint).recipients
        except MessageError as error:
            raise OperatorError(f"queue {queue}: {error.message}") from None
        for address in map(normalise_address, addresses):
            if found.setdefault(address, queue) != queue:
                raise OperatorError(f"queues {found[address]} and {queue} have the same mail address {address}")
    return found


def _addresses(names: str) -> list[str]:
    return [expect_address(unquote(name).strip()) for name in names.split(",") if name]


def _ascii_domain(domain: str) -> str:
    try:
        return domain.encode("idna").decode("ascii").lower() if len(domain) <= ADDRESS_CHARACTERS_MAX else domain
    except UnicodeError:
        return domain.casefold()


def _make_error(reason: str) -> MessageError:
    return MessageError("routing", reason)


def _shorten(text: str) -> str:
    masked = mask_address(text) if "://" in text else text
    shortened = masked if len(masked) <= 80 else f"{masked[:79]}…"
    return '"' + _CONTROL.sub("�", shortened) + '"'
