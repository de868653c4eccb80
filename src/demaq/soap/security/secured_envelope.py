"""An envelope as a tree, with its security header, and notes about elements that survive when it is parsed anew.

Decrypted text is put into the text of the envelope, which is then parsed again: moved into a tree, elements may change
their prefixes, which breaks signatures. Elements that have been noted, such as those that were signed, are found again
by processing instructions with an unpredictable name, which are in the text only for that moment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from lxml import etree

from demaq.documents import parse_document
from demaq.errors import MessageError
from demaq.soap.envelope import HEADERS_MAX, OUR_ROLES, ROLE_ATTRIBUTES, detect_version, find_header_and_body
from demaq.soap.qualified_names import ENVELOPES, child_elements, clark
from demaq.soap.refusals import CLIENT, SoapRefusal
from demaq.soap.security.security_faults import failed_decryption, invalid_security
from demaq.soap.security.wss_names import SECURITY


class SecuredEnvelope:
    """An envelope while its security header is processed."""

    def __init__(self, data: bytes) -> None:
        """Raises SoapRefusal for anything but an envelope."""
        self._notes: dict[str, list[etree._Element]] = defaultdict(list)
        self._parse(data)

    def note(self, note: str, element: etree._Element) -> None:
        """Remember something about an element, also after it is parsed again."""
        if element not in self._notes[note]:
            self._notes[note].append(element)

    def noted(self, note: str) -> list[etree._Element]:
        """Return the elements with a note."""
        return self._notes.get(note, [])

    def is_within(self, element: etree._Element, note: str) -> bool:
        """Return whether an element or one around it has a note."""
        noted = self.noted(note)
        return element in noted or any([around in noted for around in element.iterancestors()])

    def find_security(self) -> etree._Element | None:
        """Return the security header for this node. Raises SoapRefusal if there are several (section 5)."""
        found = [block for block in self.header_blocks() if block.tag == SECURITY and self.is_for_us(block)]
        if len(found) > 1:
            raise invalid_security("there are several security headers for this node")
        return found[0] if found else None

    def is_for_us(self, block: etree._Element | None) -> bool:
        """Return whether a header block is for this node; None is the Body, which is."""
        name = clark(ENVELOPES[self.version], ROLE_ATTRIBUTES[self.version])
        return block is None or block.get(name, "").strip() in OUR_ROLES[self.version]

    def header_blocks(self) -> list[etree._Element]:
        return child_elements(self.header) if self.header is not None else []

    def replace_with_text(self, replacements: Iterable[tuple[etree._Element, bytes]], token: str) -> None:
        """Put texts in the place of elements, and parse the envelope again.

        What comes into the place of an element has its notes. `token` is an unpredictable name. All elements of the old
        tree that are not noted are invalid afterwards. Raises SoapRefusal if the result is not well-formed.
        """
        pairs = list(replacements)
        replaced = [element for element, _ in pairs]
        inherited = [[note for note, noted in self._notes.items() if element in noted] for element in replaced]
        notes = [(note, element) for note, noted in self._notes.items() for element in noted if element not in replaced]
        for number, (_, element) in enumerate(notes):
            element.insert(0, etree.ProcessingInstruction(token, f"n{number}"))
        for number, element in enumerate(replaced):
            place = etree.ProcessingInstruction(token, f"r{number}")
            place.tail = element.tail
            parent = element.getparent()
            if parent is None:
                raise failed_decryption()  # an ancestor of it, or the envelope, is replaced as well
            parent.replace(element, place)
        data = etree.tostring(self.root, encoding="utf-8")
        for number, (_, text) in enumerate(pairs):
            data = data.replace(f"<?{token} r{number}?>".encode(), b"".join(_surround(text, token, number)))
        try:
            self._parse(data)
        except MessageError:
            raise failed_decryption() from None
        self._find_again(token, [note for note, _ in notes], inherited)

    def _parse(self, data: bytes) -> None:
        try:
            tree = parse_document(data).tree
            version = detect_version(tree)
        except SoapRefusal:
            raise
        except MessageError as error:
            raise SoapRefusal(CLIENT, error.message, kind=error.kind) from None
        if version is None:
            raise SoapRefusal(CLIENT, "the message is no SOAP envelope")
        self.version = version
        self.root = tree.getroot()
        self.header, self.body = find_header_and_body(self.root, version)
        if self.header is not None and len(child_elements(self.header, HEADERS_MAX + 1)) > HEADERS_MAX:
            raise SoapRefusal(CLIENT, f"the Header has more than {HEADERS_MAX} blocks", version=version)

    def _find_again(self, token: str, notes: list[str], inherited: list[list[str]]) -> None:
        """Find noted elements, and those that came into the place of others, by their processing instructions."""
        self._notes = defaultdict(list)
        found: Iterable[Any] = self.root.iter(etree.ProcessingInstruction)
        marks: dict[str, etree._Element] = {str(mark.text): mark for mark in found if mark.target == token}
        expected = len(notes) + 2 * len(inherited)
        if len(marks) != expected:
            raise failed_decryption()
        for number, note in enumerate(notes):
            parent = marks[f"n{number}"].getparent()
            assert parent is not None, "it was put into an element"
            self.note(note, parent)
        for number, own in enumerate(inherited):
            begin, end = marks[f"b{number}"], marks[f"e{number}"]
            if begin.getparent() is not end.getparent():  # the text closes an element that it has not opened
                raise failed_decryption()
            for note in own:
                for element in _elements_between(begin, end):
                    self.note(note, element)
        for mark in marks.values():
            _remove(mark)


def is_blank(text: str | None) -> bool:
    return text is None or not text.strip()


def _surround(text: bytes, token: str, number: int) -> tuple[bytes, bytes, bytes]:
    return f"<?{token} b{number}?>".encode(), text, f"<?{token} e{number}?>".encode()


def _elements_between(begin: etree._Element, end: etree._Element) -> list[etree._Element]:
    found = []
    for sibling in begin.itersiblings():
        if sibling is end:
            break
        if isinstance(sibling.tag, str):
            found.append(sibling)
    return found


def _remove(mark: etree._Element) -> None:
    """Remove a processing instruction and keep the text after it."""
    parent, before = mark.getparent(), mark.getprevious()
    assert parent is not None, "it is inside of the envelope"
    if mark.tail:
        if before is not None:
            before.tail = (before.tail or "") + mark.tail
        else:
            parent.text = (parent.text or "") + mark.tail
    mark.tail = None
    parent.remove(mark)
