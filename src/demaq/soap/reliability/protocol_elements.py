"""Read what elements of WS-ReliableMessaging hold: identifiers, numbers, lifetimes. What is invalid is refused."""

from __future__ import annotations

import re

from lxml import etree

from demaq.soap.qualified_names import local_name, shorten
from demaq.soap.refusals import CLIENT, SoapRefusal
from demaq.soap.reliability.lifetimes import read_lifetime
from demaq.soap.reliability.reliability_versions import ReliabilityVersion

IDENTIFIER_CHARACTERS_MAX = 1_000
UNSIGNED_LONG_MAX = 2**64 - 1
_NUMBER = re.compile(r"\+?[0-9]{1,20}", re.ASCII)


class ElementReader:
    """Reads children of one element. All methods raise SoapRefusal."""

    def __init__(self, element: etree._Element, version: ReliabilityVersion, soap: str | None) -> None:
        self.element = element
        self.version = version
        self.soap = soap

    def refuse(self, reason: str) -> SoapRefusal:
        """Return the error for this element."""
        name = local_name(str(self.element.tag))
        return SoapRefusal(CLIENT, f"{name} of WS-ReliableMessaging {reason}", version=self.soap)

    def child(self, name: str) -> etree._Element | None:
        """Return the only child with a name, or None."""
        found = self.element.findall(self.version.tag(name))
        if len(found) > 1:
            raise self.refuse(f"has several {name} elements")
        return found[0] if found else None

    def text(self, name: str) -> str | None:
        """Return the text of a child, or None if there is no such child."""
        child = self.child(name)
        return (child.text or "").strip() if child is not None else None

    def identifier(self) -> str:
        """Return the identifier of the sequence."""
        text = self.text("Identifier")
        if not text:
            raise self.refuse("has no Identifier")
        if len(text) > IDENTIFIER_CHARACTERS_MAX or any([character.isspace() for character in text]):
            raise self.refuse(f"has the Identifier {shorten(text)}, which is no URI or too long")
        return text

    def number(self, name: str) -> int | None:
        """Return the number in a child, or None if there is no such child."""
        text = self.text(name)
        return self.parse_number(name, text) if text is not None else None

    def parse_number(self, name: str, text: str, lowest: int = 1) -> int:
        """Return a number of XML Schema's type unsignedLong."""
        if not _NUMBER.fullmatch(text.strip()) or not lowest <= int(text) <= UNSIGNED_LONG_MAX:
            raise self.refuse(f"has {name} {shorten(text)}, which is no number from {lowest} on")
        return int(text)

    def lifetime(self) -> float | None:
        """Return the seconds in the child `Expires`; None if it never does."""
        text = self.text("Expires")
        try:
            return read_lifetime(text) if text is not None else None
        except ValueError as error:
            raise self.refuse(f"has Expires {shorten(text or '')}: {error}") from None
