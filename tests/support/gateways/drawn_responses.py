"""Responses as servers send them, in many forms and with many faults, drawn at random; nothing here reads a response."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Literal

HEAD_LIMIT = 100 * 1024
BODY_LIMIT = 20_000
"""So many bytes of a body are read in these tests."""
FAULTS = ("cut", "garbage", "mutated", "surplus", "large head", "large body", "large extension", "hang", "early")

Ending = Literal["keep", "close", "reset"]


@dataclass(frozen=True, slots=True)
class Said:
    """What a server says to one request."""

    pieces: tuple[bytes, ...]
    whole: bytes
    """What it would have been without being cut."""
    ending: Ending
    fault: str | None
    forms: frozenset[str]
    """What is special about it, to be counted."""

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)


class Drawing:
    """One response, written part by part."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._forms: set[str] = set()
        self._eol = b"\r\n"

    def draw(self) -> Said:
        chance = self._chance
        fault = chance.choice(FAULTS) if chance.random() < 0.35 else None
        if chance.random() < 0.1:
            self._eol = b"\n"
            self._forms.add("line feeds")
        ending: Ending = chance.choice(["keep", "keep", "keep", "keep", "close", "reset"])
        data = b"".join([self._interim() for _ in range(chance.choice([0, 0, 0, 0, 1, 2, 3]))])
        final, is_until_close = self._final(fault)
        data += final
        if is_until_close:
            ending = chance.choice(["close", "close", "close", "reset"])
        whole, surplus = data, b""
        match fault:
            case "cut":
                data, ending = data[: chance.randrange(len(data))], chance.choice(["close", "reset"])
            case "hang":
                data, ending = data[: chance.randrange(len(data))], "keep"
            case "garbage":
                data, ending = chance.randbytes(chance.randrange(1, 300)), "close"
            case "mutated":
                data, ending = self._mutate(data), "close"
            case "surplus" if not is_until_close:
                surplus = chance.choice(
                    [b"x", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", chance.randbytes(30) + b"x"]
                )
                surplus = surplus.lstrip(b"\r\n")
                self._forms.add("surplus")
            case "early" if ending == "keep":
                ending = "close"
        return Said(self._split(data, surplus), whole, ending, fault, frozenset(self._forms))

    def _interim(self) -> bytes:
        self._forms.add("interim")
        status = self._chance.choice([b"100 Continue", b"102 Processing", b"103 Early Hints"])
        return b"HTTP/1.1 " + status + self._eol + self._lines(self._headers()) + self._eol

    def _final(self, fault: str | None) -> tuple[bytes, bool]:
        """Return a response, and whether it lasts until the connection is closed."""
        chance = self._chance
        version = chance.choice([b"1.1", b"1.1", b"1.1", b"1.0"])
        status = chance.choice([200, 200, 202, 204, 304, 400, 404, 413, 500, 503, 599, 999])
        reason = chance.choice([b"", b" ", b" OK", b" as you like it", b" sch\xf6n", b" \xc3\xa4"])
        headers = self._headers()
        if fault == "large head":
            headers += [
                (b"X-%d" % number, b"v" * chance.randrange(3000)) for number in range(chance.choice([30, 100, 300]))
            ]
        connection = chance.choice([None, None, None, b"close", b"CLOSE", b"keep-alive", b"Keep-Alive", b"foo, close"])
        if connection is not None:
            headers.append((b"Connection", connection))
        body = chance.randbytes(chance.choice([0, 1, 5, 100, 5000]))
        if fault == "large body":
            body = chance.randbytes(chance.choice([BODY_LIMIT, BODY_LIMIT + 1, 10 * BODY_LIMIT]))
        framing = chance.choice(
            ["length", "length", "chunked", "chunked", "both", "close", "bad length", "two", "gzip"]
        )
        if fault == "large extension":
            status, framing = 200, "chunked"
        if status in (204, 304):
            framing, body = chance.choice(["none", "length", "chunked"]), b""
            self._forms.add("no body")
        self._forms.add(framing)
        length = b"%d" % len(body)
        written = body
        match framing:
            case "length":
                value = length if status not in (204, 304) else chance.choice([b"0", b"17"])
                headers.append((b"Content-Length", chance.choice([b"", b"00"]) + value))
            case "chunked" | "both":
                headers.append((b"Transfer-Encoding", chance.choice([b"chunked", b"Chunked"])))
                written = self._chunks(body, fault) if status not in (204, 304) else b""
                if framing == "both":
                    headers.append((b"Content-Length", chance.choice([length, b"3"])))
            case "bad length":
                wrong = [b"-1", b"+1", b"x", b"1x", b"", b"1.0", b"0x1", b"9" * 40, length + b", " + length + b"1"]
                headers.append((b"Content-Length", chance.choice(wrong)))
            case "two":
                headers += [(b"Content-Length", length), (b"content-length", chance.choice([length, length + b"1"]))]
            case "gzip":
                headers.append((b"Transfer-Encoding", chance.choice([b"gzip", b"gzip, chunked", b"identity"])))
        chance.shuffle(headers)
        head = b"HTTP/" + version + b" %d" % status + reason + self._eol + self._lines(headers) + self._eol
        return head + written, framing == "close"

    def _headers(self) -> list[tuple[bytes, bytes]]:
        chance = self._chance
        names = [b"Server", b"X-Y", b"x-y", b"Retry-After", b"CONTENT-TYPE", b"!#$%&'*+-.^_`|~9", b"Set-Cookie"]
        values = [b"", b"a", b"a b", b"a, b", b"text/xml; charset=utf-8", b"k\xe4se", b'"q: r"', b"a\t b"]
        return [(chance.choice(names), chance.choice(values)) for _ in range(chance.choice([0, 1, 2, 5]))]

    def _lines(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        chance = self._chance
        blanks = [b"", b" ", b" ", b" ", b"\t", b"  \t "]
        lines = bytearray()
        for name, value in headers:
            if b" " in value and b"," not in value and chance.random() < 0.3:
                self._forms.add("folded")
                value = value.replace(b" ", self._eol + chance.choice([b" ", b"\t", b"   "]), 1)
            lines += name + b":" + chance.choice(blanks) + value + chance.choice(blanks) + self._eol
        return bytes(lines)

    def _chunks(self, body: bytes, fault: str | None) -> bytes:
        chance = self._chance
        written = bytearray()
        while body:
            size = min(len(body), chance.choice([1, 2, 15, 16, 1000, 100_000]))
            written += chance.choice([b"%x", b"%X", b"0%x", b"000%x"]) % size
            written += chance.choice([b"", b"", b"", b";a", b";a=b", b' ;x="y"', b" ", b"  "])
            written += b"\r\n" + body[:size] + b"\r\n"
            body = body[size:]
        if fault == "large extension":
            self._forms.add("large extension")
            written += b"1;" + b"x" * 2_000_000 + b"\r\nx\r\n"
        written += chance.choice([b"0", b"000"]) + b"\r\n"
        if chance.random() < 0.3:
            self._forms.add("trailers")
            written += b"X-Trailer: t\r\nServer: not a header\r\n"
        return bytes(written + b"\r\n")

    def _mutate(self, data: bytes) -> bytes:
        changed, chance = bytearray(data), self._chance
        for _ in range(chance.choice([1, 1, 2, 5])):
            at = chance.randrange(len(changed))
            match chance.choice(["replace", "insert", "delete"]):
                case "replace":
                    changed[at] = chance.randrange(256)
                case "insert":
                    changed[at:at] = chance.choice([b"\r", b"\n", b"\0", b":", b" ", chance.randbytes(3)])
                case _ if len(changed) > 1:
                    del changed[at]
        return bytes(changed)

    def _split(self, data: bytes, surplus: bytes) -> tuple[bytes, ...]:
        """Return the pieces in which it is sent. What should not be there comes with the end of the response."""
        chance = self._chance
        if len(data) < 300 and chance.random() < 0.1:
            self._forms.add("byte by byte")
            points = list(range(1, len(data)))
        else:
            points = sorted(
                {chance.randrange(1, len(data)) for _ in range(chance.choice([0, 0, 1, 3, 8]) if data[1:] else 0)}
            )
        if points:
            self._forms.add("in pieces")
        cuts = [0, *points, len(data)]
        pieces = [data[start:end] for start, end in itertools.pairwise(cuts)]
        pieces[-1] += surplus
        return tuple(pieces)
