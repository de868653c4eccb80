"""What a client has to make of the bytes that a server sends, as RFC 9110 and 9112 say: all at once, and slowly.

Where they leave it open, the choices of the client are listed in `read_response`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tests.support.gateways.drawn_responses import Ending

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([0-9]{3})(?: [\t \x21-\x7e\x80-\xff]*)?")
_FIELD_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*", re.DOTALL)
_FIELD_VALUE = re.compile(rb"[\t \x21-\x7e\x80-\xff]*")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]+)[ \t]*(?:;[\t \x21-\x7e\x80-\xff]*)?")


class Wrong(Exception):
    """The bytes are no response."""


class Incomplete(Exception):
    """A response needs more bytes."""


@dataclass(frozen=True, slots=True)
class Expected:
    outcome: Literal["response", "error", "timeout"]
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    is_cut: bool = False
    is_reusable: bool = False
    """Whether the next request goes over the same connection."""


def read_response(data: bytes, ending: Ending, head_limit: int, body_limit: int) -> Expected:
    """Return what becomes of a request. Choices where the RFCs leave one:

    - a length that is given twice is an error, even if it is the same (RFC 9112, 6.3 allows to use it),
    - a line may end with a line feed alone, except in chunks (RFC 9112, 2.2),
    - blanks after the size of a chunk are ignored, but a tab after `chunked` is an error,
    - more than the limits allow is an error in a head, and cut in a body.
    """
    try:
        return _read(data, ending, head_limit, body_limit)
    except Wrong:
        return Expected("error")
    except Incomplete:
        return Expected("timeout" if ending == "keep" else "error")


def _read(data: bytes, ending: Ending, head_limit: int, body_limit: int) -> Expected:
    rest, head_bytes, status = data, 0, 100
    while status < 200:  # RFC 9110, 15.2: any number of interim responses
        version, status, fields, rest = _read_head(rest)
        head_bytes += sum([len(name) + len(value) + 4 for name, value in fields])
        if head_bytes > head_limit:
            raise Wrong
        if status < 100 or status == 101:
            raise Wrong
    headers: dict[str, str] = {}
    if re.search(rb"(?i)\ntransfer-encoding:[ \t]*[^\r\n]*[^ \t\r\n][ ]*\t", data[: len(data) - len(rest)]):
        raise Wrong
    for name, value in fields:
        known, text = name.decode("ascii").lower(), value.decode("latin-1")
        headers[known] = f"{headers[known]}, {text}" if known in headers else text
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    options = [option.strip().lower() for option in headers.get("connection", "").split(",")]
    persists = "close" not in options and (version == 1 or "keep-alive" in options)  # RFC 9112, 9.3
    # RFC 9112, 6.3, in its order
    if coding is not None and coding.lower() != "chunked":
        raise Wrong  # no other coding was asked for (RFC 9110, 10.1.4)
    if length is not None and not re.fullmatch("[0-9]{1,19}", length, re.ASCII):
        raise Wrong
    if status in (204, 304):
        body = b""
    elif coding is not None:
        body, rest = _read_chunks(rest, body_limit)
    elif length is not None:
        body, rest = rest[: int(length)], rest[int(length) :]
        if len(body) < int(length) and len(body) <= body_limit:
            raise Incomplete
    else:
        body, rest, persists = rest, b"", False
        if len(body) <= body_limit and ending == "keep":
            raise Incomplete
        if len(body) <= body_limit and ending == "reset":
            raise Wrong
    if coding is not None and (length is not None or version == 0):
        persists = False  # RFC 9112, 6.1
    if len(body) > body_limit:
        return Expected("response", status, tuple(headers.items()), b"", True)
    is_reusable = persists and not rest and ending == "keep"
    return Expected("response", status, tuple(headers.items()), body, False, is_reusable)


def _read_head(data: bytes) -> tuple[int, int, list[tuple[bytes, bytes]], bytes]:
    """Return minor version, status, fields, and what follows."""
    lines: list[bytes] = []
    rest = data
    while True:
        line, feed, rest = rest.partition(b"\n")
        if not feed:
            raise Incomplete
        line = line.removesuffix(b"\r")
        if not line:
            break
        if line[:1] in (b" ", b"\t") and len(lines) > 1:  # RFC 9112, 5.2
            lines[-1] += b" " + line.lstrip(b" \t")
        else:
            lines.append(line)
    if not lines:
        raise Wrong
    matched = _STATUS_LINE.fullmatch(lines[0])
    if matched is None:
        raise Wrong
    fields: list[tuple[bytes, bytes]] = []
    for line in lines[1:]:
        field = _FIELD_LINE.fullmatch(line)
        if field is None or not _FIELD_VALUE.fullmatch(field[2]):
            raise Wrong
        fields.append((field[1], field[2]))
    return int(matched[1]), int(matched[2]), fields, rest


def _read_chunks(data: bytes, body_limit: int) -> tuple[bytes, bytes]:
    body, rest = bytearray(), data
    while True:
        line, feed, rest = rest.partition(b"\r\n")
        if not feed:
            raise Incomplete
        matched = _CHUNK_LINE.fullmatch(line)
        if matched is None:
            raise Wrong
        if len(line) > 1_000_000:
            raise Wrong  # no extension is so long
        size = int(matched[1], 16)
        if size == 0:
            break
        body += rest[:size]
        if len(body) > body_limit:
            return bytes(body), rest
        if len(rest) < size + 2:
            raise Incomplete
        if rest[size : size + 2] != b"\r\n":
            raise Wrong
        rest = rest[size + 2 :]
    while True:  # trailers, which are ignored (RFC 9112, 7.1.2)
        line, feed, rest = rest.partition(b"\r\n")
        if not feed:
            raise Incomplete
        if not line:
            return bytes(body), rest
