"""One schema for all messages of an interface.

A WSDL may hold several schemas that import each other by namespace alone, some of one namespace, and files that they
include. libxml2 finds schemas by location and takes one per namespace. So each schema becomes a document in memory with
a location of its own, and each namespace a document that includes all of its schemas:

    all  -- imports -->  namespace urn:a  -- includes -->  two schemas of the WSDL, order.xsd
         -- imports -->  namespace urn:b  -- includes -->  prices.xsd

Every import of a schema is redirected to the document of its namespace. Nothing is read while a message is validated,
and nothing ever comes from the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, cast

from lxml import etree

from demaq.soap.interface_files import Files, refuse_interface
from demaq.soap.qualified_names import SOAP_ENCODING, XML, XML_SCHEMA, child_elements, clark, shorten
from demaq.xml_escaping import quoteattr
from demaq.xml_parsers import parse_characters, parse_file_content

PARTS = "urn:demaq:parts"
"""The namespace of elements for the parts of rpc messages, which no schema declares as elements."""

_SCHEME = "demaq-schema:"
_ALL = "all"
_NOT_NEEDED = (XML_SCHEMA, SOAP_ENCODING)  # often imported needlessly; a missing type is still reported
XML_ATTRIBUTES = f"""
<xs:schema xmlns:xs="{XML_SCHEMA}" targetNamespace="{XML}">
  <xs:attribute name="lang" type="xs:string"/>
  <xs:attribute name="base" type="xs:anyURI"/>
  <xs:attribute name="id" type="xs:ID"/>
  <xs:attribute name="space"><xs:simpleType><xs:restriction base="xs:NCName">
    <xs:enumeration value="default"/><xs:enumeration value="preserve"/></xs:restriction></xs:simpleType></xs:attribute>
  <xs:attributeGroup name="specialAttrs"><xs:attribute ref="xml:base"/><xs:attribute ref="xml:lang"/>
    <xs:attribute ref="xml:space"/><xs:attribute ref="xml:id"/></xs:attributeGroup>
</xs:schema>"""


class Schema:
    """Validates documents, one at a time, because lxml keeps the errors in the schema itself."""

    def __init__(self, schema: etree.XMLSchema) -> None:
        self._schema = schema
        self._lock = Lock()

    def violation(self, root: etree._Element) -> str | None:
        """Return what is wrong with a document, or None."""
        with self._lock:
            if self._schema.validate(root):
                return None
            first = cast(Any, self._schema.error_log)[0]
            return f"line {first.line}: {shorten(first.message)}"


@dataclass(slots=True)
class _Source:
    """A schema being assembled: a copy whose references are redirected to locations in memory."""

    location: str
    file: Path
    root: etree._Element


@dataclass(slots=True)
class InterfaceSchemas:
    """The schemas of an interface: those in the WSDL files, and all that they include and import."""

    files: Files
    _sources: list[_Source] = field(default_factory=list)
    _members: dict[str | None, list[str]] = field(default_factory=dict)
    _known: dict[tuple[Path, str | None], str] = field(default_factory=dict)
    _elements: set[str] = field(default_factory=set)

    def add(self, root: etree._Element, file: Path) -> None:
        """Add a schema of a WSDL file."""
        self._collect(root, file, root.get("targetNamespace"), is_member=True)

    def declares(self, element: str) -> bool:
        """Return whether some schema declares a global element of that name."""
        return element in self._elements

    def compile(self, part_types: Mapping[str, str]) -> Schema:
        """Return all schemas compiled as one, with an element in the namespace PARTS for each part, by its type."""
        documents = {_XML_LOCATION: XML_ATTRIBUTES}
        for namespace in self._members:
            documents[self._location(namespace)] = self._namespace_document(namespace)
        for source in self._sources:
            self._turn_imports(source)
            documents[source.location] = etree.tostring(source.root, encoding="unicode")
        everything = self._everything(part_types).encode()
        try:
            root = parse_file_content(everything, _InMemory(documents), base_url=f"{_SCHEME}{_ALL}")
            return Schema(etree.XMLSchema(root))
        except (etree.XMLSyntaxError, etree.XMLSchemaParseError) as failure:
            refuse_interface(f"its schema cannot be used: {self._reason(failure)}")

    def _collect(self, root: etree._Element, file: Path, namespace: str | None, *, is_member: bool) -> str:
        location = f"{_SCHEME}{len(self._sources) + 1}"
        # with the namespaces of the enclosing WSDL
        copy = parse_characters(etree.tostring(root, encoding="utf-8", with_tail=False))
        self._sources.append(_Source(location, file, copy))
        if is_member:
            self._members.setdefault(namespace, []).append(location)
        for child in child_elements(copy):
            if child.tag == clark(XML_SCHEMA, "element"):
                self._elements.add(clark(namespace, child.get("name", "")))
            elif child.tag == clark(XML_SCHEMA, "include"):
                self._include(child, file, namespace, is_member=True)
                copy.remove(child)  # the document of the namespace includes it
            elif child.tag in (clark(XML_SCHEMA, "redefine"), clark(XML_SCHEMA, "override")):
                child.set("schemaLocation", self._include(child, file, namespace, is_member=False))
            elif child.tag == clark(XML_SCHEMA, "import"):
                self._import_schema(child, file)
        return location

    def _include(self, reference: etree._Element, file: Path, namespace: str | None, *, is_member: bool) -> str:
        path = self._local(reference, file)
        if path is None:
            refuse_interface(
                f"{file.name}: schema {reference.get('schemaLocation')} is not a local file; include a local copy"
            )
        root = self._schema_root(path, file)
        own = root.get("targetNamespace")
        if own not in (None, namespace):
            refuse_interface(f"{file.name}: {path.name} is a schema of {own}, which has to be imported, not included")
        return self._collect_once(root, path, namespace, is_member=is_member)

    def _import_schema(self, reference: etree._Element, file: Path) -> None:
        path = self._local(reference, file)
        if path is None:
            return  # by namespace alone, or from the network: there may be another schema of that namespace
        root = self._schema_root(path, file)
        namespace = root.get("targetNamespace")
        if namespace != reference.get("namespace"):
            refuse_interface(f"{file.name} imports {path.name} as {reference.get('namespace')}, and it is {namespace}")
        self._collect_once(root, path, namespace, is_member=True)

    def _collect_once(self, root: etree._Element, path: Path, namespace: str | None, *, is_member: bool) -> str:
        if (path, namespace) not in self._known:
            self._known[path, namespace] = f"{_SCHEME}{len(self._sources) + 1}"  # before reading: imports may be cyclic
            self._collect(root, path, namespace, is_member=is_member)
        return self._known[path, namespace]

    def _local(self, reference: etree._Element, file: Path) -> Path | None:
        place = reference.get("schemaLocation")
        return self.files.path(place, file) if place else None

    def _schema_root(self, path: Path, named_in: Path) -> etree._Element:
        root = self.files.root(path, named_in)
        if root.tag != clark(XML_SCHEMA, "schema"):
            refuse_interface(
                f"{path.name}, named in {named_in.name}, is no schema: its root is {shorten(str(root.tag))}"
            )
        return root

    def _turn_imports(self, source: _Source) -> None:
        for reference in child_elements(source.root):
            if reference.tag != clark(XML_SCHEMA, "import"):
                continue
            namespace = reference.get("namespace")
            place = reference.get("schemaLocation")
            if place is not None:
                del reference.attrib["schemaLocation"]
            if namespace in self._members:
                reference.set("schemaLocation", self._location(namespace))
            elif namespace == XML:
                reference.set("schemaLocation", _XML_LOCATION)
            elif place is not None and namespace not in _NOT_NEEDED:
                refuse_interface(f"{source.file.name}: schema {place} is not a local file; import a local copy")

    def _location(self, namespace: str | None) -> str:
        return f"{_SCHEME}namespace-{list(self._members).index(namespace)}"

    def _namespace_document(self, namespace: str | None) -> str:
        target = f" targetNamespace={quoteattr(namespace)}" if namespace else ""
        includes = "".join([f'<xs:include schemaLocation="{member}"/>' for member in self._members[namespace]])
        return f'<xs:schema xmlns:xs="{XML_SCHEMA}"{target}>{includes}</xs:schema>'

    def _everything(self, part_types: Mapping[str, str]) -> str:
        imports = "".join([_import(namespace, self._location(namespace)) for namespace in self._members])
        parts = "".join([_part_element(name, type_name) for name, type_name in part_types.items()])
        return f'<xs:schema xmlns:xs="{XML_SCHEMA}" targetNamespace="{PARTS}">{imports}{parts}</xs:schema>'

    def _reason(self, failure: etree.XMLSyntaxError | etree.XMLSchemaParseError) -> str:
        text = str(failure).splitlines()[0] if str(failure) else "it is no valid schema"
        for entry in cast(Iterable[Any], failure.error_log):
            place = next(iter([source for source in self._sources if source.location == entry.filename]), None)
            return f"{place.file.name}: {entry.message}" if place is not None else str(entry.message)
        return text


_XML_LOCATION = f"{_SCHEME}xml"


class _InMemory(etree.Resolver):
    """Resolves the documents in memory for libxml2, and nothing else."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        self._documents = documents

    def resolve(self, system_url: str, public_id: str, context: Any) -> Any:  # type: ignore[override]  # stubs: old
        text = self._documents.get(system_url, "<notHere/>")
        return self.resolve_string(text, context, base_url=system_url)


def _import(namespace: str | None, location: str) -> str:
    name = f" namespace={quoteattr(namespace)}" if namespace else ""
    return f'<xs:import{name} schemaLocation="{location}"/>'


def _part_element(name: str, type_name: str) -> str:
    namespace, _, local = type_name.rpartition("}")
    declared = f" xmlns:t={quoteattr(namespace[1:])}" if namespace else ""
    reference = f"t:{local}" if namespace else local
    return f"<xs:element name={quoteattr(name)} nillable='true' type={quoteattr(reference)}{declared}/>"
