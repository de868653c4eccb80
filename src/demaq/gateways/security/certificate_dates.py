"""From when until when a certificate is valid.

Python's `ssl` reads that only from certificates of a connection, so we read it from the file: the dates stand at a
fixed place near the beginning of a certificate (RFC 5280, section 4.1).
"""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime

_PEM = re.compile(r"-----BEGIN (?:TRUSTED )?CERTIFICATE-----.+?-----END (?:TRUSTED )?CERTIFICATE-----", re.DOTALL)
_VERSION, _UTC_TIME, _GENERALIZED_TIME = 0xA0, 0x17, 0x18


def certificates_in(text: str) -> list[bytes]:
    """Return the certificates of a PEM file, in DER."""
    found: list[bytes] = []
    for pem in _PEM.findall(text):
        try:
            found.append(ssl.PEM_cert_to_DER_cert(pem.replace("TRUSTED ", "")))
        except ValueError:
            continue
    return found


def validity(certificate: bytes) -> tuple[datetime, datetime] | None:
    """Return the first and the last moment of a certificate in DER; None if that is none."""
    try:
        _, whole, _ = _element(certificate)
        _, signed, _ = _element(whole)
        tag, _, rest = _element(signed)
        if tag == _VERSION:
            _, _, rest = _element(rest)  # the serial number
        for _ in ("signature", "issuer"):
            _, _, rest = _element(rest)
        tag, dates, _ = _element(rest)
        first_tag, first, rest = _element(dates)
        last_tag, last, _ = _element(rest)
        return _time(first_tag, first), _time(last_tag, last)
    except (IndexError, ValueError):
        return None


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Return the tag and the content of the first element, and what follows it."""
    tag, length, start = data[0], data[1], 2
    if length & 0x80:
        start = 2 + (length & 0x7F)
        length = int.from_bytes(data[2:start], "big")
    if start + length > len(data):
        raise ValueError("cut off")
    return tag, data[start : start + length], data[start + length :]


def _time(tag: int, content: bytes) -> datetime:
    text = content.decode("ascii")
    if tag == _UTC_TIME:  # two digits of a year mean 1950 to 2049
        text = ("19" if text[:2] >= "50" else "20") + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError("no time")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
