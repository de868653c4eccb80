"""The documents that policies are in: local files, with the line and column of each element.

libxml2 knows no columns, so expat reads the document once more; both see the same elements in the same order.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from lxml import etree

from demaq.soap.policy.policy_errors import name_as_written, refuse_policy
from demaq.soap.policy.policy_names import POLICY_IDS, POLICY_NAMESPACES, is_operator
from demaq.soap.qualified_names import clark, shorten
from demaq.source import Source, SourceLocation
from demaq.xml_parsers import find_start_tags, parse_file_content

FILE_BYTES_MAX = 1024 * 1024
FILES_MAX = 50
"""The most files that one policy refers to."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class PolicyDocument:
    """One parsed file."""

    def __init__(self, path: Path, root: etree._Element, data: bytes) -> None:
        self.path = path
        self.root = root
        self._source = Source(_decode(data, root.getroottree().docinfo.encoding), str(path))
        self._starts: dict[etree._Element, tuple[int, int]] = {}
        if root.getroottree().docinfo.internalDTD is None:  # expat would expand its entities
            self._starts = dict(zip(root.iter("*"), find_start_tags(data), strict=False))
        self._named: dict[str, etree._Element] | None = None

    def locate(self, element: etree._Element) -> SourceLocation:
        """Return where the name of an element is written, with its bracket."""
        line, column = self._starts.get(element, (element.sourceline or 1, 1))
        start = self._source.offset_of(line, column)
        return SourceLocation(self._source, start, start + 1 + len(name_as_written(element)))

    def find(self, reference: str) -> etree._Element | None:
        """Return the policy with an identifier `#name`, or whose attribute `Name` is the reference."""
        if self._named is None:
            self._named = self._collect()
        return self._named.get(reference)

    def _collect(self) -> dict[str, etree._Element]:
        named: dict[str, etree._Element] = {}
        for element in self.root.iter(*[clark(namespace, "Policy") for namespace in POLICY_NAMESPACES]):
            ids = {f"#{element.get(name, '').strip()}" for name in POLICY_IDS if element.get(name)}
            for name in sorted(ids | ({element.get("Name", "")} if element.get("Name") else set())):
                if name in named:
                    refuse_policy(f'two policies are called "{shorten(name)}"', self.locate(element))
                named[name] = element
        return named


class PolicyDocuments:
    """The documents of one policy, each read once."""

    def __init__(self) -> None:
        self._documents: dict[str, PolicyDocument] = {}

    def add(self, path: Path, root: etree._Element) -> PolicyDocument:
        """Add a document that was parsed before, such as a WSDL. Raises OSError."""
        key = _identify(path)
        if key not in self._documents:
            self._documents[key] = PolicyDocument(path, root, path.read_bytes())
        return self._documents[key]

    def read(self, path: Path) -> PolicyDocument:
        """Return a file. Raises OSError, etree.XMLSyntaxError, and ProgramError if it cannot be used."""
        known = self._documents.get(_identify(path))
        if known is not None:
            return known
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        return self.add_content(path, data)

    def add_content(self, path: Path, data: bytes) -> PolicyDocument:
        """Add a file by its content."""
        if len(data) > FILE_BYTES_MAX:
            refuse_policy(f"{path.name} is larger than {FILE_BYTES_MAX // 1024} KiB")
        if len(self._documents) >= FILES_MAX:
            refuse_policy(f"the policy refers to more than {FILES_MAX} files")
        try:
            root = parse_file_content(data)
        except ValueError as failure:
            refuse_policy(f"{path.name} is not well-formed: {failure}")
        document = PolicyDocument(path, root, data)
        if root.getroottree().docinfo.internalDTD is not None:
            refuse_policy("a document type declaration is not allowed", document.locate(root))
        self._documents[_identify(path)] = document
        return document

    def resolve(
        self, document: PolicyDocument, reference: str, at: SourceLocation
    ) -> tuple[PolicyDocument, etree._Element]:
        """Return the policy that a reference means, with its document."""
        for known in [document, *self._documents.values()]:
            if (known is document or not reference.startswith("#")) and (found := known.find(reference)) is not None:
                return known, found
        file, _, name = reference.partition("#")
        if not file:
            refuse_policy(
                f'no policy has the identifier "{shorten(name)}"', at, "wsu:Id, xml:id or Name names a policy"
            )
        if _URL.match(file):
            refuse_policy(
                f"{shorten(reference)} is no local file",
                at,
                "put a copy of the policy beside this file and refer to it",
            )
        return self._find_in_file(Path(os.path.normpath(document.path.parent / unquote(file))), name, at)

    def _find_in_file(self, path: Path, name: str, at: SourceLocation) -> tuple[PolicyDocument, etree._Element]:
        try:
            other = self.read(path)
        except OSError as failure:
            refuse_policy(f"{path.name} cannot be read: {failure.strerror or failure}", at)
        except etree.XMLSyntaxError as failure:
            refuse_policy(f"{path.name} is not well-formed: {failure}", at)
        found = other.find(f"#{name}") if name else other.root
        if found is None or not is_operator(str(found.tag), "Policy"):
            what = f'{path.name} has no policy "{shorten(name)}"' if name else f"{path.name} is no policy"
            refuse_policy(what, at)
        return other, found


def names_file(reference: str) -> bool:
    """Return whether a reference has a local file in it."""
    file = reference.partition("#")[0]
    return bool(file) and _URL.match(file) is None


def _identify(path: Path) -> str:
    return os.path.abspath(path)


def _decode(data: bytes, encoding: str | None) -> str:
    try:
        return data.decode(encoding or "utf-8", "replace").removeprefix("\ufeff")
    except LookupError:  # libxml2 knows encodings that Python does not
        return data.decode("latin-1")
