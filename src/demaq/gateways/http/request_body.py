"""Read a request: its body within bounds, the encoding it is in, and what its headers say."""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import Iterable, Mapping

from starlette.datastructures import Headers
from starlette.requests import Request

from demaq.encodings import encoding_named
from demaq.gateways.http.http_protocol import WHOLE
from demaq.gateways.http.responses import Refusal
from demaq.gc_tuning import note_received_bytes
from demaq.system_properties import HEADER
from demaq.xml_bounds import Marks, count_marks, tree_bytes

HEADER_CHARACTERS_MAX = 1000
"""A longer header is no property."""
KEY_CHARACTERS_MAX = 255
HELD_BYTES_MAX = 512_000_000
"""So much of unfinished requests is held at once, and so much of those that are read and stored, with their trees."""
LARGE_TREE_BYTES = 10_000_000
"""A request that takes more has to fit."""
TEXTS = 3
"""How often a body is there as text while it is read."""
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
        "demaq-hops",
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
_WAIT = re.compile(r"wait\s*=\s*\"?([0-9]{1,6})\"?")


class Unfinished(Refusal):
    """A request whose sender was gone before all of it was there: the answer has no receiver, and nothing was sent."""


class Held:
    """How many bytes of requests are being received: all senders together share what there may be."""

    def __init__(self, bytes_max: int = HELD_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self.bytes = 0
        self.trees = 0
        """What bodies that are all there take, and their trees."""

    def add(self, count: int) -> None:
        if self.bytes + count > self._bytes_max:
            raise _refuse_memory()
        self.bytes += count

    def reserve(self, body: bytes | str) -> Reservation:
        """Return the memory that it takes to read a body, before it is parsed. Raises a Refusal if that is too much.

        A large one has to fit, unless it is the only one. Small ones may take as much again: they do not wait for it.
        """
        marks = count_marks(body)
        count = tree_bytes(marks) + TEXTS * len(body)
        self.expect_room(count)
        return Reservation(self, count, marks)

    def pass_through(self, count: int) -> None:
        """Let so much come that is all there at once. Raises a Refusal if that is too much."""
        self.add(count)
        self.bytes -= count
        note_received_bytes(count)

    def expect_room(self, count: int, own: int = 0) -> None:
        """Raise a Refusal if there is no room for so much, of which the caller has some already."""
        bytes_max = self._bytes_max if count > LARGE_TREE_BYTES else 2 * self._bytes_max
        if self.trees + count > bytes_max and self.trees - own > LARGE_TREE_BYTES:
            raise _refuse_memory()


class Reservation:
    """Memory for one body. Must be given back."""

    def __init__(self, held: Held, count: int, marks: Marks) -> None:
        self.marks = marks
        """Those of the body."""
        self._held = held
        self._count = count
        held.trees += count

    def double(self) -> int:
        """Take as much again, and return how much it was. Raises a Refusal if that is too much."""
        count = self._count
        self._held.expect_room(count, count)
        self._held.trees += count
        self._count += count
        return count

    def keep(self, count: int) -> None:
        """Give back all but so much."""
        kept = min(count, self._count)
        self._held.trees -= self._count - kept
        self._count = kept


def _refuse_memory() -> Refusal:
    return Refusal(503, "too much is being sent at once", {"Retry-After": "1", "Connection": "close"})


async def read_body(request: Request, bytes_max: int, seconds_max: float, held: Held | None = None) -> bytes:
    """Return the whole body. Raises a Refusal if it is too large or takes too long."""
    held = held or Held()
    announced = request.headers.get("content-length")
    if announced is not None and announced.isdecimal() and int(announced[:20]) > bytes_max:
        raise _refuse_size(bytes_max)
    try:
        if WHOLE in request.scope["state"]:  # no other request has to wait for it
            return await _read(request, bytes_max, held)
        async with asyncio.timeout(seconds_max):
            return await _read(request, bytes_max, held)
    except TimeoutError:
        raise Refusal(
            408, f"the request was not there after {seconds_max:g} seconds", {"Connection": "close"}
        ) from None


async def _read(request: Request, bytes_max: int, held: Held) -> bytes:
    pieces: list[bytes] = []
    size = 0
    try:
        is_over = False
        while not is_over:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise Unfinished(400, "the request ended too early")
            piece = message.get("body", b"")
            is_over = not message.get("more_body", False)
            if size + len(piece) > bytes_max:
                raise _refuse_size(bytes_max)
            held.add(len(piece))
            size += len(piece)
            pieces.append(piece)
    finally:
        held.bytes -= size
        note_received_bytes(size)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _refuse_size(bytes_max: int) -> Refusal:
    return Refusal(413, f"a message for this gateway has at most {bytes_max:,} bytes", {"Connection": "close"})


def media_type(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


def expect_xml(headers: Mapping[str, str]) -> None:
    """Raises a Refusal for a body that says it is something else than XML, or is packed."""
    kind = media_type(headers.get("content-type"))
    if kind and kind not in ("application/xml", "text/xml") and not kind.endswith("+xml"):
        raise Refusal(415, f"the body is {kind}, and messages are XML; send it as application/xml")
    packed = headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity"):
        raise Refusal(415, f"the body is packed with {packed}; send it plain", {"Accept-Encoding": "identity"})


def text_of(body: bytes, content_type: str | None) -> bytes | str:
    """Return the body, as text if its content type names an encoding, which overrides that of the document."""
    if content_type is None or ";" not in content_type:
        return body
    charset = _parameters(content_type).get("charset")
    if charset is None or body.startswith(_BOMS) or charset.lower() in ("utf-8", "utf8"):
        return body
    encoding = encoding_named(charset)
    if encoding is None:
        raise Refusal(415, f"the encoding {charset[:40]!r} is not known")
    try:
        return body.decode(encoding)
    except UnicodeError:
        raise Refusal(400, f"the body is not in {charset[:40]}, as its content type says") from None


def header_properties(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return headers as properties of the message: `demaq:header.Content-Language`."""
    joined: dict[str, str] = {}
    for name, value in headers:
        if name not in NOT_PROPERTIES:
            joined[name] = f"{joined[name]}, {value}" if name in joined else value  # RFC 9110, 5.3
    return {
        HEADER + "-".join([word.capitalize() for word in name.split("-")]): value
        for name, value in joined.items()
        if len(value) <= HEADER_CHARACTERS_MAX and value.isprintable()
    }


def idempotency_key(headers: Mapping[str, str]) -> str | None:
    """Return what makes a repeated request harmless. Raises a Refusal if it cannot be used."""
    key = headers.get("idempotency-key")
    if key is None:
        return None
    key = key.strip().strip('"')
    if not key or len(key) > KEY_CHARACTERS_MAX or not key.isascii() or not key.isprintable():
        raise Refusal(400, f"an Idempotency-Key has from 1 to {KEY_CHARACTERS_MAX} characters of ASCII")
    return key


def prefers_no_answer(headers: Headers) -> bool:
    return "respond-async" in _preferences(headers)


def wait_seconds(headers: Headers, longest: float) -> float:
    """Return how long the sender wants to wait for an answer, but no longer than this."""
    found = [match[1] for match in map(_WAIT.fullmatch, _preferences(headers)) if match is not None]
    return min(float(found[0]), longest) if found else longest


def _preferences(headers: Headers) -> list[str]:
    return [word.strip().lower() for line in headers.getlist("prefer") for word in re.split("[,;]", line)]


def _parameters(content_type: str) -> dict[str, str]:
    found = _PARAMETER.findall(content_type)
    return {name.lower(): value.strip('"') for name, value in found}
