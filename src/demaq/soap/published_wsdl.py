"""The WSDL as published to clients: served ports with their policies, no other ports, and the files it references.

?wsdl              the WSDL
?wsdl=common.wsdl  a WSDL that it imports
?xsd=order.xsd     a schema that one of them references
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from lxml import etree

from demaq.soap.interface_files import Files
from demaq.soap.message_schema import XML_ATTRIBUTES
from demaq.soap.policy_attachments import PortPolicies, attach_policies, embed_policies_beside
from demaq.soap.qualified_names import BINDINGS, SOAP_1_1, WSDL, XML, XML_SCHEMA, clark, local_name

_SOAP_OVER_HTTP = "http://schemas.xmlsoap.org/soap/http"
_XML_NAME = "namespaces/xml.xsd"
"""The published name of the schema of the xml namespace, which schemas import from the network."""
_REFERENCES = [clark(XML_SCHEMA, name) for name in ("import", "include", "redefine", "override")]


@dataclass(frozen=True, slots=True, kw_only=True)
class WsdlSource:
    """The files that an interface was read from, and the port of it that is served."""

    path: Path
    files: Files
    names: Mapping[Path, str]
    """The files besides the WSDL itself, each with its published name."""
    port: str
    version: str
    port_in: tuple[Path, str]
    """The file that declares the port, and the name of its service."""
    binding_in: tuple[Path, str]
    """The file that declares the binding, and its name; for a portType without one, where it is added."""
    port_type: str | None = None
    """The portType to serve if the WSDL has no service."""
    binding: str | None = None
    """The binding of that portType, if any."""
    operations: Sequence[str]
    policies: PortPolicies = field(default_factory=PortPolicies)

    @property
    def key(self) -> tuple[Path, str, str]:
        """Return the identity of the port, whichever WSDL it was reached from."""
        return *self.port_in, self.port

    def publish(self, address: str, others: Sequence[tuple[WsdlSource, str]] = ()) -> bytes:
        """Return the WSDL with this port at the address, and other served ports at theirs."""
        return self._write(self.path, address, others)

    def publish_file(self, name: str, address: str, others: Sequence[tuple[WsdlSource, str]] = ()) -> bytes | None:
        """Return a file that the published WSDL references; None if there is none of that name."""
        for path, known in self.names.items():
            if known == name:
                return self._write(path, address, others)
        return XML_ATTRIBUTES.strip().encode() if name == _XML_NAME else None

    def _write(self, path: Path, address: str, others: Sequence[tuple[WsdlSource, str]]) -> bytes:
        root = deepcopy(self.files.root(path))
        for reference in root.iter(clark(WSDL, "import"), *_REFERENCES):
            attribute = "location" if reference.tag == clark(WSDL, "import") else "schemaLocation"
            self._turn(reference, attribute, path, address)
        ports: dict[tuple[Path, str, str], tuple[WsdlSource, str]] = {self.key: (self, address)}
        for other, place in others:
            ports.setdefault(other.key, (other, place))
        _place_ports(root, path, ports)
        if path == self.path:
            for source, place in ports.values():
                if source.port_type is not None and source.path == path:
                    binding = source.binding or source._add_binding(root, source.port_type)
                    source._add_service(root, binding, place)
        embed_policies_beside(root, [beside for beside in self.policies.beside if beside.file == path])
        self._attach_policies(root, path, [source for source, _ in ports.values()])
        return etree.tostring(root, encoding="utf-8", xml_declaration=True)

    def _attach_policies(self, root: etree._Element, path: Path, sources: Sequence[WsdlSource]) -> None:
        """Attach the policies of ports in the published files to their bindings.

        A binding is the same for all its ports, so where they have different policies, these are attached to the ports.
        """
        shown = [source for source in sources if self._shows(source)]
        for source in shown:
            policies = source.policies.attached
            sharing = [other for other in shown if other.binding_in == source.binding_in]
            owner: etree._Element | None = None
            if any([other.policies.attached != policies for other in sharing]):
                owner = source._find_port(root, path)
            elif sharing[0] is source:
                owner = source._find_binding(root, path)
            if owner is not None:
                attach_policies(owner, policies)

    def _shows(self, other: WsdlSource) -> bool:
        """Return whether a served port is in the files of this interface."""
        if other.port_type is not None:
            return other.path == self.path
        return other.port_in[0] == self.path or other.port_in[0] in self.names

    def _find_port(self, root: etree._Element, path: Path) -> etree._Element | None:
        file, service = self.port_in
        services = [one for one in root.iterchildren(clark(WSDL, "service")) if one.get("name", "") == service]
        ports = [port for one in services for port in one.iterchildren(clark(WSDL, "port"))]
        return next(iter([port for port in ports if file == path and port.get("name", "") == self.port]), None)

    def _find_binding(self, root: etree._Element, path: Path) -> etree._Element | None:
        bindings = root.iterchildren(clark(WSDL, "binding"))
        return next(iter([one for one in bindings if (path, one.get("name", "")) == self.binding_in]), None)

    def _turn(self, reference: etree._Element, attribute: str, path: Path, address: str) -> None:
        place = reference.get(attribute)
        target = self.files.path(place, path) if place else None
        if target is None and reference.tag == clark(XML_SCHEMA, "import"):
            namespace = reference.get("namespace")
            target = self._schema_of(namespace) if place else None
            if target is None and namespace == XML:
                reference.set(attribute, f"{address}?xsd={_XML_NAME}")
        if target is None:
            return
        if target == self.path:
            reference.set(attribute, f"{address}?wsdl")
        elif target in self.names:
            kind = "xsd" if self.files.root(target).tag == clark(XML_SCHEMA, "schema") else "wsdl"
            reference.set(attribute, f"{address}?{kind}={quote(self.names[target])}")

    def _schema_of(self, namespace: str | None) -> Path | None:
        """Return a local file with a schema of the namespace, for references to the network."""
        for path in self.names:
            root = self.files.root(path)
            if root.tag == clark(XML_SCHEMA, "schema") and root.get("targetNamespace") == namespace:
                return path
        return None

    def _add_binding(self, root: etree._Element, port_type: str) -> str:
        """Add a binding for SOAP 1.1 in document style; return its qualified name."""
        soap = BINDINGS[SOAP_1_1]
        name = self.binding_in[1]
        reference, declared = _reference(port_type)
        binding = etree.SubElement(
            root, clark(WSDL, "binding"), {"name": name, "type": reference}, {"soap": soap, **declared}
        )
        etree.SubElement(binding, clark(soap, "binding"), {"style": "document", "transport": _SOAP_OVER_HTTP})
        for operation in self.operations:
            self._add_operation(binding, operation, soap)
        return clark(root.get("targetNamespace"), name)

    def _add_service(self, root: etree._Element, binding: str, address: str) -> None:
        reference, declared = _reference(binding)
        soap = BINDINGS[self.version]
        service = etree.SubElement(root, clark(WSDL, "service"), {"name": f"{self.port}Service"})
        port = etree.SubElement(
            service, clark(WSDL, "port"), {"name": self.port, "binding": reference}, {"soap": soap, **declared}
        )
        etree.SubElement(port, clark(soap, "address"), {"location": address})

    def _add_operation(self, binding: etree._Element, name: str, soap: str) -> None:
        operation = etree.SubElement(binding, clark(WSDL, "operation"), {"name": name})
        etree.SubElement(operation, clark(soap, "operation"), {"soapAction": ""})
        for direction in self._directions(name):
            side = etree.SubElement(operation, clark(WSDL, direction))
            etree.SubElement(side, clark(soap, "body"), {"use": "literal"})

    def _directions(self, operation: str) -> list[str]:
        """Return the directions of an operation of the portType: input, output, or both."""
        for path in [self.path, *self.names]:
            for port_type in self.files.root(path).iter(clark(WSDL, "portType")):
                for one in port_type.iterchildren(clark(WSDL, "operation")):
                    if port_type.get("name") == local_name(self.port_type or "") and one.get("name") == operation:
                        return [side for side in ("input", "output") if one.find(clark(WSDL, side)) is not None]
        return []


def _place_ports(
    root: etree._Element, path: Path, ports: Mapping[tuple[Path, str, str], tuple[WsdlSource, str]]
) -> None:
    """Set the addresses of the ports of a file, and remove ports that are not served."""
    for service in list(root.iterchildren(clark(WSDL, "service"))):
        name = service.get("name", "")
        served = 0
        for port in list(service.iterchildren(clark(WSDL, "port"))):
            found = ports.get((path, name, port.get("name", "")))
            if found is None:
                service.remove(port)
                continue
            served += 1
            source, address = found
            tag = clark(BINDINGS[source.version], "address")
            element = port.find(tag)
            if element is None:
                element = etree.SubElement(port, tag)
            element.set("location", address)
        if not served:
            root.remove(service)


def _reference(name: str) -> tuple[str, dict[str, str]]:
    """Return a qualified name as an attribute value, and the prefix to declare for it."""
    namespace = name[1:].partition("}")[0] if name.startswith("{") else ""
    return (f"of:{local_name(name)}", {"of": namespace}) if namespace else (name, {})


def assign_names(path: Path, files: Sequence[Path]) -> dict[Path, str]:
    """Return a name for each file besides the WSDL: its path below the WSDL's folder, else its file name."""
    names: dict[Path, str] = {}
    for file in files:
        inside = file.is_relative_to(path.parent)
        name = file.relative_to(path.parent).as_posix() if inside else file.name
        while name in names.values():
            name = f"_{name}"
        names[file] = name
    return names
