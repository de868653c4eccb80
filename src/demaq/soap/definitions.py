"""The components of a WSDL 1.1 document and of the documents it imports, by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lxml import etree

from demaq.soap.interface_files import Files, refuse_interface
from demaq.soap.message_schema import InterfaceSchemas
from demaq.soap.qualified_names import (
    WSDL,
    WSDL_2,
    XML_SCHEMA,
    child_elements,
    clark,
    local_name,
    resolve_name,
    shorten,
)

_NAMED = ("message", "portType", "binding", "service")


@dataclass(slots=True)
class Definitions:
    """All definitions in the files of an interface."""

    path: Path
    files: Files
    schemas: InterfaceSchemas
    namespace: str | None = None
    read: list[Path] = field(default_factory=list)
    """The WSDL files, the main one first."""
    _parts: dict[str, dict[str, etree._Element]] = field(default_factory=lambda: {kind: {} for kind in _NAMED})

    def all(self, kind: str) -> dict[str, etree._Element]:
        """Return all components of a kind: message, portType, binding or service."""
        return self._parts[kind]

    def named(self, kind: str, at: etree._Element, attribute: str) -> tuple[str, etree._Element]:
        """Return the component that an attribute refers to, with its qualified name."""
        written = at.get(attribute)
        if not written:
            refuse_interface(f"line {at.sourceline}: {local_name(str(at.tag))} has no {attribute}")
        name = resolve_name(at, written)
        found = self._parts[kind].get(name)
        if found is None and ":" not in written:  # without prefix although the default namespace is that of WSDL
            name = clark(self.namespace, written.strip())
            found = self._parts[kind].get(name)
        if found is None:
            refuse_interface(f'line {at.sourceline}: there is no {kind} "{written}"')
        return name, found

    def find_service(self, service: etree._Element | None) -> tuple[Path, str]:
        """Return the file that declares a service, and its name there; without services the WSDL itself."""
        return self.find_file(service) if service is not None else (self.path, "")

    def find_file(self, component: etree._Element) -> tuple[Path, str]:
        """Return the file that declares a component, and its name there."""
        root = component.getroottree().getroot()
        return next(iter([path for path in self.read if self.files.root(path) is root])), component.get("name", "")

    def element(self, part: etree._Element) -> str:
        """Return the qualified name of the element of a part. Without prefix it is never in the namespace of WSDL."""
        written = part.get("element", "")
        name = resolve_name(part, written)
        if ":" not in written and part.nsmap.get(None) == WSDL:
            name = written.strip()
        if not self.schemas.declares(name):
            refuse_interface(f'line {part.sourceline}: no schema declares element "{written}"')
        return name


def read_definitions(path: Path) -> Definitions:
    """Read a WSDL file and all its imports. Raises ProgramError with the code DQ0602."""
    files = Files()
    definitions = Definitions(path, files, InterfaceSchemas(files))
    root = files.root(path)
    if root.tag == clark(WSDL_2, "description"):
        refuse_interface("it is a WSDL 2.0 document, and WSDL 1.1 is what is supported")
    if root.tag != clark(WSDL, "definitions"):
        refuse_interface(f"it is no WSDL document: its root is {shorten(str(root.tag))}")
    definitions.namespace = root.get("targetNamespace")
    _add_file(definitions, path, root)
    return definitions


def _add_file(definitions: Definitions, path: Path, root: etree._Element) -> None:
    waiting = [(path, root)]
    while waiting:
        path, root = waiting.pop()
        if path in definitions.read:
            continue
        definitions.read.append(path)
        if root.tag == clark(XML_SCHEMA, "schema"):  # an old way to import a schema
            definitions.schemas.add(root, path)
        elif root.tag != clark(WSDL, "definitions"):
            refuse_interface(f"{path.name} is imported and no WSDL document: its root is {shorten(str(root.tag))}")
        _add_parts(definitions, root)
        for types in root.iterchildren(clark(WSDL, "types")):
            for schema in types.iterchildren(clark(XML_SCHEMA, "schema")):
                definitions.schemas.add(schema, path)
        waiting += reversed([_read_import(definitions, one, path) for one in root.iterchildren(clark(WSDL, "import"))])


def _add_parts(definitions: Definitions, root: etree._Element) -> None:
    namespace = root.get("targetNamespace")
    for child in child_elements(root):
        kind = local_name(str(child.tag))
        if kind in _NAMED and child.tag == clark(WSDL, kind):
            definitions.all(kind).setdefault(clark(namespace, child.get("name", "")), child)


def _read_import(definitions: Definitions, reference: etree._Element, path: Path) -> tuple[Path, etree._Element]:
    place = reference.get("location")
    if not place:
        refuse_interface(f"{path.name}: line {reference.sourceline}: an import has no location")
    target = definitions.files.path(place, path)
    if target is None:
        refuse_interface(f"{path.name}: {place} is not a local file; import a local copy")
    return target, definitions.files.root(target, path)
