"""Collect the element names that the schema or the interface of a queue allows in its messages, with namespaces.

Global elements are in the schema's target namespace; local ones only if the schema says `qualified`.
"""

from __future__ import annotations

from pathlib import Path

from lxml import etree

from demaq.errors import ProgramError
from demaq.language.analysis.missed_names import Vocabulary
from demaq.language.analysis.shapes import ElementName
from demaq.language.namespaces import XS
from demaq.xml_parsers import parse_file

_REFERENCES = ("include", "import", "redefine", "override")


def read_schema_names(path: Path) -> Vocabulary | None:
    """Return the elements of a schema and of those it includes and imports; None if it cannot be read."""
    reader = _SchemaReader()
    reader.read_file(path, "")
    return reader.vocabulary() if reader.roots else None


def read_interface_names(path: Path, port: str | None) -> Vocabulary | None:
    """Return the elements of the requests that a port of a WSDL takes; None if it cannot be read."""
    from demaq.soap.definitions import read_definitions  # imported only for programs with an interface
    from demaq.soap.wsdl import read_interface

    try:
        interface = read_interface(path, port)
        files = read_definitions(path.absolute()).files
    except ProgramError:
        return None  # another check reports why
    reader = _SchemaReader()
    for file in files.paths():
        root = files.root(file)
        for schema in root.iter(f"{{{XS}}}schema"):
            if schema is not root:  # a file is read where it is referenced
                reader.read_schema(schema, file, "")
    roots: set[ElementName] = set()
    for operation in interface.operations:
        roots.add(_split(operation.input.element))
        reader.elements.update([_split(part) for part in operation.input.parts or ()])
    return Vocabulary(frozenset(roots), None if reader.is_open else frozenset(reader.elements | roots))


class _SchemaReader:
    def __init__(self) -> None:
        self.roots: set[ElementName] = set()
        self.elements: set[ElementName] = set()
        self.is_open = False
        """Whether other elements can occur as well."""
        self._seen: set[tuple[Path, str]] = set()

    def vocabulary(self) -> Vocabulary:
        return Vocabulary(frozenset(self.roots), None if self.is_open else frozenset(self.elements))

    def read_file(self, path: Path, namespace: str) -> None:
        if (path, namespace) in self._seen:
            return
        self._seen.add((path, namespace))
        try:
            root = parse_file(path).getroot()
        except (OSError, etree.XMLSyntaxError):
            self.is_open = True
        else:
            self.read_schema(root, path, namespace)

    def read_schema(self, root: etree._Element, path: Path, namespace: str) -> None:
        """Read a schema. An included schema without target namespace takes on that of the including one."""
        target = root.get("targetNamespace") or namespace
        default = root.get("elementFormDefault", "unqualified")
        for element in root.iter(f"{{{XS}}}element"):
            name = element.get("name")
            if name is None:
                continue
            is_global = element.getparent() is root
            if is_global:
                self.roots.add((target, name))
            is_qualified = is_global or element.get("form", default) == "qualified"
            self.elements.add((target if is_qualified else "", name))
            self.is_open |= _takes_anything(element)
        self.is_open |= next(root.iter(f"{{{XS}}}any"), None) is not None
        for kind in _REFERENCES:
            for reference in root.iterchildren(f"{{{XS}}}{kind}"):
                place = reference.get("schemaLocation")
                if place is not None:
                    self.read_file((path.parent / place).resolve(), "" if kind == "import" else target)


def _takes_anything(element: etree._Element) -> bool:
    """Return whether an element has the type that allows any content."""
    written = element.get("type")
    if written is not None:
        return written.rpartition(":")[2] == "anyType"
    kinds = [etree.QName(child).localname for child in element.iterchildren(etree.Element)]
    return element.get("substitutionGroup") is None and not {"complexType", "simpleType"} & set(kinds)


def _split(name: str) -> ElementName:
    found = etree.QName(name)
    return found.namespace or "", found.localname
