"""The WSDL as clients get it from us: the port at our own address, and the files it is made of found there too.

?wsdl              the WSDL
?wsdl=common.wsdl  a WSDL that it imports
?xsd=order.xsd     a schema that one of them names
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lxml import etree

from demaq.gateways.soap.files import Files
from demaq.gateways.soap.names import BINDINGS, SOAP_1_1, WSDL, XML_SCHEMA, clark, local_name

_SOAP_OVER_HTTP = "http://schemas.xmlsoap.org/soap/http"
_REFERENCES = [clark(XML_SCHEMA, name) for name in ("import", "include", "redefine", "override")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an interface was read from, and which port of it we serve."""

    path: Path
    files: Files
    names: Mapping[Path, str]
    """The files besides the WSDL itself, each with the name under which clients find it."""
    port: str
    version: str
    port_type: str | None = None
    """The portType to serve where the WSDL has no service."""
    binding: str | None = None
    """The binding of that portType, if there is one."""
    operations: Sequence[str]

    def served(self, address: str) -> bytes:
        return self._written(self.path, address)

    def companion(self, name: str, address: str) -> bytes | None:
        for path, known in self.names.items():
            if known == name:
                return self._written(path, address)
        return None

    def _written(self, path: Path, address: str) -> bytes:
        root = deepcopy(self.files.root(path))
        for reference in root.iter(clark(WSDL, "import"), *_REFERENCES):
            attribute = "location" if reference.tag == clark(WSDL, "import") else "schemaLocation"
            self._turn(reference, attribute, path, address)
        for port in root.iter(clark(WSDL, "port")):
            if port.get("name") == self.port:
                self._set_address(port, address)
        if self.port_type is not None and path == self.path:
            binding = self.binding or self._add_binding(root, self.port_type)
            self._add_service(root, binding, address)
        return etree.tostring(root, encoding="utf-8", xml_declaration=True)

    def _turn(self, reference: etree._Element, attribute: str, path: Path, address: str) -> None:
        place = reference.get(attribute)
        target = self.files.path(place, path) if place else None
        if target is None:
            return
        if target == self.path:
            reference.set(attribute, f"{address}?wsdl")
        elif target in self.names:
            kind = "xsd" if self.files.root(target).tag == clark(XML_SCHEMA, "schema") else "wsdl"
            reference.set(attribute, f"{address}?{kind}={quote(self.names[target])}")

    def _set_address(self, port: etree._Element, address: str) -> None:
        tag = clark(BINDINGS[self.version], "address")
        element = port.find(tag)
        if element is None:
            element = etree.SubElement(port, tag)
        element.set("location", address)

    def _add_binding(self, root: etree._Element, port_type: str) -> str:
        """SOAP 1.1 with documents. Answers its full name."""
        soap = BINDINGS[SOAP_1_1]
        name = f"{self.port}Binding"
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
        """Whether an operation of the portType is asked, answered, or both."""
        for path in [self.path, *self.names]:
            for port_type in self.files.root(path).iter(clark(WSDL, "portType")):
                for one in port_type.iterchildren(clark(WSDL, "operation")):
                    if port_type.get("name") == local_name(self.port_type or "") and one.get("name") == operation:
                        return [side for side in ("input", "output") if one.find(clark(WSDL, side)) is not None]
        return []


def _reference(name: str) -> tuple[str, dict[str, str]]:
    """A full name as an attribute has it, and the prefix to declare for that."""
    namespace = name[1:].partition("}")[0] if name.startswith("{") else ""
    return (f"of:{local_name(name)}", {"of": namespace}) if namespace else (name, {})


def served_names(path: Path, files: Sequence[Path]) -> dict[Path, str]:
    """A name for each file besides the WSDL: its path from the WSDL's folder if it lies there, else its own name."""
    names: dict[Path, str] = {}
    for file in files:
        inside = file.is_relative_to(path.parent)
        name = file.relative_to(path.parent).as_posix() if inside else file.name
        while name in names.values():
            name = f"_{name}"
        names[file] = name
    return names
