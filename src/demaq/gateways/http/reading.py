"""Read a request: its body within bounds, the encoding it is in, and what its headers say."""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import Iterable, Mapping

from starlette.requests import ClientDisconnect, Request

from demaq.gateways.http.answers import Refusal
from demaq.language.system_properties import HEADER

HEADER_CHARACTERS_MAX = 1000
"""A longer header is no property."""
KEY_CHARACTERS_MAX = 255
NOT_PROPERTIES = frozenset(
    [
        "accept",
        "accept-charset",
        "accept-encoding",
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "idempotency-key",
        "keep-alive",
        "prefer",
        "proxy-authorization",
        "proxy-connection",
        "soapaction",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ]
)
"""Headers that are about the connection, are said elsewhere, or are secret."""
_BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)
_PARAMETER = re.compile(r';\s*([A-Za-z0-9*_-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;\s]*)')
_WAIT = re.compile(r"wait\s*=\s*(\d{1,6})")


async def read_body(request: Request, bytes_max: int, seconds_max: float) -> bytes:
    """The whole body. Raises a Refusal where it is too large or takes too long."""
    announced = request.headers.get("content-length")
    if announced is not None and announced.isdecimal() and int(announced[:20]) > bytes_max:
        raise _too_large(bytes_max)
    try:
        async with asyncio.timeout(seconds_max):
            return await _read(request, bytes_max)
    except TimeoutError:
        raise Refusal(
            408, f"the request was not there after {seconds_max:g} seconds", {"Connection": "close"}
        ) from None
    except ClientDisconnect:
        raise Refusal(400, "the request ended too early") from None


async def _read(request: Request, bytes_max: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > bytes_max:
            raise _too_large(bytes_max)
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _too_large(bytes_max: int) -> Refusal:
    return Refusal(413, f"a message for this gateway has at most {bytes_max:,} bytes", {"Connection": "close"})


def media_type(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


def expect_xml(request: Request) -> None:
    """Raises a Refusal for a body that says it is something else than XML, or is packed."""
    kind = media_type(request.headers.get("content-type"))
    if kind and kind not in ("application/xml", "text/xml") and not kind.endswith("+xml"):
        raise Refusal(415, f"the body is {kind}, and messages are XML; send it as application/xml")
    packed = request.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity"):
        raise Refusal(415, f"the body is packed with {packed}; send it plain", {"Accept-Encoding": "identity"})


def text_of(body: bytes, content_type: str | None) -> bytes | str:
    """The body, as text where its content type names an encoding: that counts more than what the document says."""
    charset = _parameters(content_type).get("charset")
    if charset is None or body.startswith(_BOMS) or charset.lower() in ("utf-8", "utf8"):
        return body
    try:
        return body.decode(codecs.lookup(charset).name)
    except LookupError:
        raise Refusal(415, f"the encoding {charset[:40]!r} is not known") from None
    except (UnicodeError, ValueError):
        raise Refusal(400, f"the body is not in {charset[:40]}, as its content type says") from None


def header_properties(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers as properties of the message: `demaq:header.Content-Language`."""
    return {
        HEADER + "-".join([word.capitalize() for word in name.split("-")]): value
        for name, value in headers
        if name not in NOT_PROPERTIES and len(value) <= HEADER_CHARACTERS_MAX and value.isprintable()
    }


def idempotency_key(headers: Mapping[str, str]) -> str | None:
    """What makes a repeated request harmless. Raises a Refusal where it cannot be used."""
    key = headers.get("idempotency-key")
    if key is None:
        return None
    key = key.strip().strip('"')
    if not key or len(key) > KEY_CHARACTERS_MAX or not key.isascii() or not key.isprintable():
        raise Refusal(400, f"an Idempotency-Key has from 1 to {KEY_CHARACTERS_MAX} characters of ASCII")
    return key


def prefers_no_answer(headers: Mapping[str, str]) -> bool:
    return "respond-async" in _preferences(headers)


def wait_seconds(headers: Mapping[str, str], longest: float) -> float:
    """How long the sender wants to wait for an answer, but no longer than this."""
    found = _WAIT.search(headers.get("prefer", "").lower())
    return min(float(found[1]), longest) if found else longest


def _preferences(headers: Mapping[str, str]) -> list[str]:
    return [word.strip().lower() for word in re.split("[,;]", headers.get("prefer", ""))]


def _parameters(content_type: str | None) -> dict[str, str]:
    found = _PARAMETER.findall(content_type or "")
    return {name.lower(): value.strip('"') for name, value in found}
