"""WS-Addressing 1.0: correlation of answers with requests, if the request asks for it in its header.

Answers are only sent on the connection of the request: another reply address is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from lxml import etree

from demaq.soap.escaping import escape
from demaq.soap.qualified_names import shorten
from demaq.soap.refusals import CLIENT, SoapRefusal
from demaq.xml_parsers import parse_characters

ADDRESSING = "http://www.w3.org/2005/08/addressing"
ANONYMOUS = f"{ADDRESSING}/anonymous"
_NO_REPLY = f"{ADDRESSING}/none"
FAULT_ACTION = f"{ADDRESSING}/soap/fault"

ADDRESSING_HEADERS = frozenset(
    {f"{{{ADDRESSING}}}{name}" for name in ("MessageID", "To", "Action", "From", "ReplyTo", "FaultTo", "RelatesTo")}
)


class _Block(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressingHeaders:
    """The addressing headers of a request."""

    message_id: str | None
    action: str | None


def read_addressing(headers: Iterable[_Block], version: str) -> AddressingHeaders | None:
    """Return the addressing headers, or None if there are none. Raises SoapRefusal for another reply address."""
    blocks: dict[str, etree._Element] = {}
    for header in headers:
        if header.name in ADDRESSING_HEADERS:
            name = header.name.rpartition("}")[2]
            if name in blocks and name != "RelatesTo":
                raise SoapRefusal(CLIENT, f"header {name} of WS-Addressing is given twice", version=version)
            blocks[name] = parse_characters(header.text.encode())
    if not blocks:
        return None
    for name in ("ReplyTo", "FaultTo"):
        address = blocks[name].findtext(f"{{{ADDRESSING}}}Address", "").strip() if name in blocks else ANONYMOUS
        if address not in (ANONYMOUS, _NO_REPLY):
            raise SoapRefusal(
                CLIENT,
                f"{name} of WS-Addressing is {shorten(address)}: answers go back on the connection only",
                version=version,
            )
    return AddressingHeaders(message_id=_text(blocks.get("MessageID")), action=_text(blocks.get("Action")))


def make_answer_headers(request: AddressingHeaders, *, message_id: str, action: str | None = None) -> tuple[str, ...]:
    """Return the header blocks of an answer. Its default action is that of the request followed by `Response`."""
    own = action or (f"{request.action}Response" if request.action else None)
    blocks = [("MessageID", message_id), ("Action", own), ("RelatesTo", request.message_id)]
    return tuple([f'<wsa:{name} xmlns:wsa="{ADDRESSING}">{escape(text)}</wsa:{name}>' for name, text in blocks if text])


def _text(element: etree._Element | None) -> str | None:
    return (element.text or "").strip() or None if element is not None else None
