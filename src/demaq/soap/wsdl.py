"""Read a WSDL 1.1 file into an `Interface`: one port, its operations, and the schema of their messages.

Supported are SOAP 1.1 and 1.2 over HTTP with literal messages, document style and rpc style. Anything else is reported
when the program is checked, as a ProgramError with the code DQ0602, or DQ0604 for the port.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lxml import etree

from demaq.errors import ProgramError
from demaq.soap.addressing.wsdl_actions import read_actions
from demaq.soap.definitions import Definitions, read_definitions
from demaq.soap.interface import DOCUMENT, RPC, Interface, Operation, SoapBody
from demaq.soap.interface_files import refuse_interface
from demaq.soap.published_wsdl import WsdlSource, assign_names
from demaq.soap.qualified_names import BINDINGS, MIME, SOAP_1_1, WSDL, clark, local_name, resolve_name

_INPUT = "input"
_OUTPUT = "output"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedPort:
    """The elements that describe a port. Of an abstract WSDL it is a portType, with a binding if there is one."""

    service: etree._Element | None
    port: etree._Element | None
    binding: etree._Element | None
    port_type_name: str
    port_type: etree._Element


def read_interface(path: Path, port: str | None = None) -> Interface:
    """Read a WSDL file. Without a port name its only port is used."""
    definitions = read_definitions(Path(os.path.abspath(path)))
    selected = select_port(definitions, port)
    binding = selected.binding
    version = (_version(binding) if binding is not None else None) or SOAP_1_1
    reading = _BindingReader(definitions, version, binding)
    if selected.port is None:
        return reading.interface(
            service=None,
            port=local_name(selected.port_type_name),
            address=None,
            port_type=selected.port_type,
            abstract=selected.port_type_name,
        )
    address = selected.port.find(clark(BINDINGS[version], "address"))
    return reading.interface(
        service=selected.service,
        port=selected.port.get("name", ""),
        address=address.get("location") if address is not None else None,
        port_type=selected.port_type,
    )


def select_port(definitions: Definitions, name: str | None) -> SelectedPort:
    """Return the port of a name, or the only port."""
    return _select_port(definitions, name) if definitions.all("service") else _select_port_type(definitions, name)


def _select_port(definitions: Definitions, name: str | None) -> SelectedPort:
    ports = [
        (service, port)
        for service in definitions.all("service").values()
        for port in service.iterchildren(clark(WSDL, "port"))
    ]
    if name is None:
        ports = [(service, port) for service, port in ports if _speaks_soap(definitions, port)] or ports
    service, port = _choose_port(
        definitions, name, [(port.get("name", ""), (service, port)) for service, port in ports]
    )
    _, binding = definitions.named("binding", port, "binding")
    if _version(binding) is None:
        refuse_interface(f'binding "{binding.get("name")}" of port "{port.get("name")}" is not for SOAP')
    full, port_type = definitions.named("portType", binding, "type")
    return SelectedPort(service=service, port=port, binding=binding, port_type_name=full, port_type=port_type)


def _select_port_type(definitions: Definitions, name: str | None) -> SelectedPort:
    """Return a portType of an abstract WSDL as a port, in SOAP 1.1 document style unless it has a binding."""
    types = [(local_name(full), (full, element)) for full, element in definitions.all("portType").items()]
    full, port_type = _choose_port(definitions, name, types)
    bindings = [
        binding
        for binding in definitions.all("binding").values()
        if _version(binding) is not None and definitions.named("portType", binding, "type")[0] == full
    ]
    binding = bindings[0] if len(bindings) == 1 else None
    return SelectedPort(service=None, port=None, binding=binding, port_type_name=full, port_type=port_type)


def _choose_port(definitions: Definitions, name: str | None, candidates: list[tuple[str, T]]) -> T:
    file = definitions.path.name
    known = ", ".join(sorted({one for one, _ in candidates}))
    fitting = [one for known_name, one in candidates if name in (None, known_name)]
    if len(fitting) == 1:
        return fitting[0]
    if not candidates:
        raise ProgramError(f"{file} has no port at all", code="DQ0604")
    if not fitting:
        raise ProgramError(f'{file} has no port "{name}"', hint=f"it has {known}", code="DQ0604")
    if name is None:
        raise ProgramError(f"{file} has several ports: say which", hint=f"it has {known}", code="DQ0604")
    raise ProgramError(f'{file} has several ports "{name}"', hint="give them different names", code="DQ0604")


def _speaks_soap(definitions: Definitions, port: etree._Element) -> bool:
    return _version(definitions.named("binding", port, "binding")[1]) is not None


def _version(binding: etree._Element) -> str | None:
    for version, namespace in BINDINGS.items():
        if binding.find(clark(namespace, "binding")) is not None:
            return version
    return None


class _BindingReader:
    """Reads the operations of one binding, or of a portType without one."""

    def __init__(self, definitions: Definitions, version: str, binding: etree._Element | None) -> None:
        self._definitions = definitions
        self._soap = BINDINGS[version]
        self._version = version
        self._binding = binding
        self._part_types: dict[str, str] = {}

    def interface(
        self,
        *,
        service: etree._Element | None,
        port: str,
        address: str | None,
        port_type: etree._Element,
        abstract: str | None = None,
    ) -> Interface:
        operations = [
            self._operation(described, bound) for described, bound in pair_operations(port_type, self._binding)
        ]
        definitions = self._definitions
        schema = definitions.schemas.compile(self._part_types)
        others = [path for path in definitions.files.paths() if path != definitions.path]
        return Interface(
            service=service.get("name") if service is not None else None,
            port=port,
            namespace=definitions.namespace,
            address=address,
            version=self._version,
            operations=tuple(operations),
            schema=schema,
            source=WsdlSource(
                path=definitions.path,
                files=definitions.files,
                names=assign_names(definitions.path, others),
                port=port,
                port_in=definitions.find_service(service),
                binding_in=self._find_binding(port),
                version=self._version,
                port_type=abstract,
                binding=self._binding_name() if abstract is not None else None,
                operations=tuple([operation.name for operation in operations]),
            ),
        )

    def _find_binding(self, port: str) -> tuple[Path, str]:
        """Return the file and the name of the binding; a portType without one gets one with a name that is free."""
        if self._binding is not None:
            return self._definitions.find_file(self._binding)
        name = f"{port}Binding"
        while clark(self._definitions.namespace, name) in self._definitions.all("binding"):
            name = f"{name}_"
        return self._definitions.path, name

    def _binding_name(self) -> str | None:
        named = [name for name, one in self._definitions.all("binding").items() if one is self._binding]
        return named[0] if named else None

    def _operation(self, abstract: etree._Element, bound: etree._Element | None) -> Operation:
        name = abstract.get("name", "")
        if abstract.find(clark(WSDL, _INPUT)) is None:
            refuse_interface(f'operation "{name}" has no input: a port that asks its clients is not supported')
        details = bound.find(clark(self._soap, "operation")) if bound is not None else None
        style = (details.get("style") if details is not None else None) or self._style()
        if style not in (DOCUMENT, RPC):
            refuse_interface(f'operation "{name}" has the unknown style "{style}"')
        body = self._body(abstract, bound, _INPUT, style)
        assert body is not None, "it has an input"
        soap_action = details.get("soapAction") if details is not None else None
        port_type = abstract.getparent()
        assert port_type is not None, "an operation is in a portType"
        namespace = abstract.getroottree().getroot().get("targetNamespace")
        return Operation(
            name=name,
            action=soap_action,
            actions=read_actions(namespace, port_type.get("name", ""), abstract, soap_action),
            style=style,
            input=body,
            output=self._body(abstract, bound, _OUTPUT, style),
            faults=self._faults(abstract),
            headers=tuple(self._headers(bound)),
        )

    def _style(self) -> str:
        if self._binding is None:
            return DOCUMENT
        found = self._binding.find(clark(self._soap, "binding"))
        return (found.get("style") if found is not None else None) or DOCUMENT

    def _body(
        self, abstract: etree._Element, bound: etree._Element | None, direction: str, style: str
    ) -> SoapBody | None:
        side = abstract.find(clark(WSDL, direction))
        if side is None:
            return None
        name = abstract.get("name", "")
        details = self._details(bound, direction)
        if details is not None and details.get("use", "literal") != "literal":
            refuse_interface(f'operation "{name}" is {details.get("use")}, and only literal messages are supported')
        message_name, message = self._definitions.named("message", side, "message")
        parts = self._body_parts(message_name, message, bound, direction, details)
        if style == RPC:
            return self._rpc_body(name, parts, direction, details)
        if not parts:
            suffix = "" if direction == _INPUT else "Response"
            return SoapBody(element=clark(self._definitions.namespace, f"{name}{suffix}"), is_empty=True)
        if len(parts) > 1:
            refuse_interface(
                f'operation "{name}" has several parts in the Body of its {direction}: document style has one'
            )
        if parts[0].get("element") is None:
            refuse_interface(
                f'operation "{name}": part "{parts[0].get("name")}" has no element, as document style asks for'
            )
        return SoapBody(element=self._definitions.element(parts[0]))

    def _details(self, bound: etree._Element | None, direction: str) -> etree._Element | None:
        """Return the `body` element of the binding."""
        side = bound.find(clark(WSDL, direction)) if bound is not None else None
        if side is None:
            return None
        if side.find(clark(MIME, "multipartRelated")) is not None:
            refuse_interface(f"line {side.sourceline}: messages with attachments (MIME) are not supported")
        return side.find(clark(self._soap, "body"))

    def _body_parts(
        self,
        name: str,
        message: etree._Element,
        bound: etree._Element | None,
        direction: str,
        details: etree._Element | None,
    ) -> list[etree._Element]:
        parts = list(message.iterchildren(clark(WSDL, "part")))
        chosen = details.get("parts") if details is not None else None
        if chosen is not None:
            return [part for part in parts if part.get("name") in chosen.split()]
        elsewhere = [
            header.get("part")
            for header in self._header_elements(bound, direction)
            if self._definitions.named("message", header, "message")[0] == name
        ]
        return [part for part in parts if part.get("name") not in elsewhere]

    def _rpc_body(
        self, operation: str, parts: Iterable[etree._Element], direction: str, details: etree._Element | None
    ) -> SoapBody:
        namespace = details.get("namespace") if details is not None else None
        if not namespace:
            refuse_interface(f'operation "{operation}" is rpc style, and its soap:body has no namespace')
        stand_ins: dict[str, str] = {}
        for part in parts:
            name = part.get("name", "")
            if part.get("type") is None:
                refuse_interface(f'operation "{operation}": part "{name}" has no type, as rpc style asks for')
            stand_ins[name] = f"{operation}.{direction}.{name}"
            while stand_ins[name] in self._part_types:
                stand_ins[name] += "."
            self._part_types[stand_ins[name]] = resolve_name(part, part.get("type", ""))
        suffix = "" if direction == _INPUT else "Response"
        return SoapBody(element=clark(namespace, f"{operation}{suffix}"), parts=stand_ins)

    def _faults(self, abstract: etree._Element) -> dict[str, str]:
        faults: dict[str, str] = {}
        for fault in abstract.iterchildren(clark(WSDL, "fault")):
            _, message = self._definitions.named("message", fault, "message")
            part = message.find(clark(WSDL, "part"))
            if part is not None and part.get("element") is not None:
                faults[fault.get("name", "")] = self._definitions.element(part)
        return faults

    def _headers(self, bound: etree._Element | None) -> list[str]:
        found: list[str] = []
        for header in self._header_elements(bound, _INPUT):
            _, message = self._definitions.named("message", header, "message")
            for part in message.iterchildren(clark(WSDL, "part")):
                if part.get("name") == header.get("part") and part.get("element") is not None:
                    found.append(self._definitions.element(part))
        return found

    def _header_elements(self, bound: etree._Element | None, direction: str) -> list[etree._Element]:
        side = bound.find(clark(WSDL, direction)) if bound is not None else None
        return list(side.iterchildren(clark(self._soap, "header"))) if side is not None else []


def pair_operations(
    port_type: etree._Element, binding: etree._Element | None
) -> list[tuple[etree._Element, etree._Element | None]]:
    """Return the operations of the portType, each with its operation of the binding."""
    tag = clark(WSDL, "operation")
    abstract = list(port_type.iterchildren(tag))
    if binding is None:
        return [(operation, None) for operation in abstract]
    pairs: list[tuple[etree._Element, etree._Element | None]] = []
    for bound in binding.iterchildren(tag):
        named = [one for one in abstract if one.get("name") == bound.get("name")]
        fitting = [one for one in named if _input_name(one) == _input_name(bound)] or named
        if not fitting:
            refuse_interface(f'line {bound.sourceline}: the portType has no operation "{bound.get("name")}"')
        pairs.append((fitting[0], bound))
    return pairs


def _input_name(operation: etree._Element) -> str | None:
    side = operation.find(clark(WSDL, _INPUT))
    return side.get("name") if side is not None else None
