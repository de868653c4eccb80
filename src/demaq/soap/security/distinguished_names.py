"""Compare names of issuers as texts, which every stack writes in its own way (RFC 2253, RFC 4514, and before).

Order of the parts, blanks, upper and lower case and names of attributes differ. The comparison may be generous, because
it only selects among certificates that are known, by issuer and serial number; a signature decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_ATTRIBUTES: Final = {
    "2.5.4.3": "cn",
    "2.5.4.4": "sn",
    "2.5.4.5": "serialnumber",
    "2.5.4.6": "c",
    "2.5.4.7": "l",
    "2.5.4.8": "st",
    "2.5.4.9": "street",
    "2.5.4.10": "o",
    "2.5.4.11": "ou",
    "2.5.4.12": "t",
    "2.5.4.42": "gn",
    "2.5.4.46": "dnqualifier",
    "1.2.840.113549.1.9.1": "e",
    "0.9.2342.19200300.100.1.25": "dc",
    "0.9.2342.19200300.100.1.1": "uid",
}
_ALIASES: Final = {"s": "st", "emailaddress": "e", "email": "e", "surname": "sn", "givenname": "gn", "title": "t"}
_PART: Final = re.compile(r"""((?:[^,;+"\\]|\\.|"(?:[^"\\]|\\.)*")+)""", re.DOTALL)
_ESCAPE: Final = re.compile(r"((?:\\[0-9A-Fa-f]{2})+)|\\(.)", re.DOTALL)


def are_same_names(written: str, other: str) -> bool:
    """Return whether two texts are the same distinguished name."""
    return _parse(written) == _parse(other)


def _parse(text: str) -> list[tuple[str, str]]:
    if text.startswith("/"):  # as old functions of OpenSSL write it
        text = text[1:].replace("/", ",")
    return sorted(_parts(_PART.findall(text)))


def _parts(pieces: Iterable[str]) -> Iterable[tuple[str, str]]:
    for piece in pieces:
        name, _, value = piece.partition("=")
        key = name.strip().lower().removeprefix("oid.")
        key = _ATTRIBUTES.get(key, _ALIASES.get(key, key))
        yield key, " ".join(_unescape(value.strip()).split()).casefold()


def _unescape(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1]
    return _ESCAPE.sub(_replace, value)


def _replace(found: re.Match[str]) -> str:
    if found[1]:
        return bytes.fromhex(found[1].replace("\\", "")).decode("utf-8", "replace")
    return found[2]
