"""Sequences of WS-ReliableMessaging 1.1 from the side that sends, for messages that are written ahead."""

from __future__ import annotations

import urllib.request
from collections.abc import Sequence
from typing import Self
from urllib.error import HTTPError

from lxml import etree

from demaq.documents import parse_document
from demaq_bench.figures import WrongResult
from demaq_bench.soap_envelopes import ANONYMOUS, RELIABILITY, EnvelopeWriter, make_headers

SECONDS_MAX = 60.0


class SourceSequence:
    """One sequence. Its messages are sent by others, in their order."""

    def __init__(self, writer: EnvelopeWriter, identifier: str) -> None:
        self._writer = writer
        self._name = f"<r:Identifier>{identifier}</r:Identifier>"
        self._newest = 0

    @classmethod
    def create(cls, writer: EnvelopeWriter) -> Self:
        """Raises WrongResult if the service refuses."""
        acks_to = f"<r:AcksTo><a:Address>{ANONYMOUS}</a:Address></r:AcksTo>"
        answer = _ask(writer, "CreateSequence", f"<r:CreateSequence>{acks_to}</r:CreateSequence>")
        return cls(writer, answer.findtext(f".//{{{RELIABILITY}}}Identifier") or "")

    def write_messages(self, action: str, bodies: Sequence[str]) -> tuple[str, ...]:
        """Return an envelope for each body, with the next numbers."""
        envelopes: list[str] = []
        for body in bodies:
            self._newest += 1
            number = f"<r:MessageNumber>{self._newest}</r:MessageNumber>"
            block = f'<r:Sequence e:mustUnderstand="1">{self._name}{number}</r:Sequence>'
            envelopes.append(self._writer.write(action, body, block))
        return tuple(envelopes)

    def end(self) -> None:
        """Close and terminate it. Raises WrongResult if not all messages were received."""
        closed = self._end("CloseSequence")
        ranges = closed.findall(f".//{{{RELIABILITY}}}AcknowledgementRange")
        received = [(each.get("Lower"), each.get("Upper")) for each in ranges]
        if received != [("1", str(self._newest))]:
            raise WrongResult(f"a sequence of {self._newest:,} messages has received {received}")
        self._end("TerminateSequence")

    def _end(self, name: str) -> etree._Element:
        last = f"<r:LastMsgNumber>{self._newest}</r:LastMsgNumber>"
        return _ask(self._writer, name, f"<r:{name}>{self._name}{last}</r:{name}>")


def _ask(writer: EnvelopeWriter, name: str, body: str) -> etree._Element:
    """Return the answer to a request about a sequence. Its signature is not verified: the service is ours."""
    action = f"{RELIABILITY}/{name}"
    data = writer.write(action, body).encode()
    request = urllib.request.Request(writer.address, data, dict(make_headers(action)))
    try:
        with urllib.request.urlopen(request, timeout=SECONDS_MAX) as response:
            return parse_document(response.read()).tree.getroot()
    except HTTPError as error:
        with error:
            said = error.read(300)
        raise WrongResult(f"{name} was answered by {error.code}: {said!r}") from None
