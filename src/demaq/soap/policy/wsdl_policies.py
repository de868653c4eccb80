"""The policies that are attached to a port of a WSDL (WS-PolicyAttachment 1.5, section 4).

A policy holds for all messages of the port, for those of an operation, or for one message, depending on where it is
attached. A gateway has one policy, so all operations must come to the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from lxml import etree

from demaq.soap.definitions import Definitions, read_definitions
from demaq.soap.policy.assertions import Alternative, Assertion
from demaq.soap.policy.gateway_policy import GatewayPolicy
from demaq.soap.policy.normal_form import Normaliser
from demaq.soap.policy.policy_choice import choose_policy
from demaq.soap.policy.policy_documents import PolicyDocument, PolicyDocuments
from demaq.soap.policy.policy_errors import refuse_policy
from demaq.soap.policy.policy_names import POLICY_NAMESPACES, USING_ADDRESSING, is_operator
from demaq.soap.qualified_names import WSDL, child_elements, clark
from demaq.soap.wsdl import pair_operations, select_port
from demaq.source import SourceLocation

_REQUIRED = clark(WSDL, "required")


def read_interface_policy(path: Path, port: str | None = None) -> GatewayPolicy | None:
    """Return what a WSDL demands of the messages of a port; None if it has no policy. Raises ProgramError."""
    return _PortPolicyReader(read_definitions(Path(os.path.normpath(path)))).read(port)


class _PortPolicyReader:
    """Reads the policies of one port."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._documents = PolicyDocuments()
        self._normaliser = Normaliser(self._documents)
        self._attached: SourceLocation | None = None
        """Where the first policy is attached."""

    def read(self, name: str | None) -> GatewayPolicy | None:
        port = select_port(self._definitions, name)
        endpoint = self._merge([port.service, port.port, port.binding, port.port_type])
        chosen: GatewayPolicy | None = None
        for abstract, bound in pair_operations(port.port_type, port.binding):
            policy = self._read_operation(endpoint, abstract, bound)
            if chosen is not None and policy != chosen:
                refuse_policy(
                    f'operation "{abstract.get("name")}" has another policy than those before it',
                    self._document_of(abstract).locate(abstract),
                    "a gateway has one policy for all operations of its port",
                )
            chosen = policy
        return chosen if self._attached is not None else None

    def _read_operation(
        self, endpoint: tuple[Alternative, ...], abstract: etree._Element, bound: etree._Element | None
    ) -> GatewayPolicy:
        operation = self._merge([abstract, bound])
        request = self._merge(self._message_elements("input", abstract, bound))
        answer = self._merge(self._message_elements("output", abstract, bound))
        fault = self._merge(self._message_elements("fault", abstract, bound))
        at = self._attached
        if at is None:
            return GatewayPolicy()
        if fault not in (((),), answer):
            refuse_policy(f'a fault of operation "{abstract.get("name")}" has another policy than its output', at)
        return choose_policy(self._normaliser.merge([endpoint, operation], at), at, request, answer)

    def _message_elements(
        self, side: str, abstract: etree._Element, bound: etree._Element | None
    ) -> Iterator[etree._Element]:
        """Yield the elements that describe a message: in the portType, in the binding, and the message itself."""
        for element in abstract.iterchildren(clark(WSDL, side)):
            yield element
            yield self._definitions.named("message", element, "message")[1]
        if bound is not None:
            yield from bound.iterchildren(clark(WSDL, side))

    def _merge(self, elements: Iterable[etree._Element | None]) -> tuple[Alternative, ...]:
        """Return the alternatives of everything that is attached to these elements."""
        parts = [part for element in elements if element is not None for part in self._attachments(element)]
        return self._normaliser.merge(parts, self._attached) if self._attached is not None else ((),)

    def _attachments(self, element: etree._Element) -> Iterator[tuple[Alternative, ...]]:
        references = [
            uri for namespace in POLICY_NAMESPACES for uri in element.get(clark(namespace, "PolicyURIs"), "").split()
        ]
        children = [child for child in child_elements(element) if _is_attachment(child)]
        if not references and not children:
            return
        document = self._document_of(element)
        at = document.locate(element)
        self._attached = self._attached or at
        yield from [self._normaliser.resolve(document, reference, at) for reference in references]
        for child in children:
            if is_operator(str(child.tag), "PolicyReference"):
                yield self._normaliser.resolve_element(document, child)
            elif is_operator(str(child.tag), "Policy"):
                yield self._normaliser.normalise(document, child)
            else:
                yield ((Assertion(element=child, locate=document.locate),),)

    def _document_of(self, element: etree._Element) -> PolicyDocument:
        path, _ = self._definitions.find_file(element)
        try:
            return self._documents.add(path, element.getroottree().getroot())
        except OSError as failure:
            refuse_policy(f"{path.name} cannot be read: {failure.strerror or failure}")


def _is_attachment(child: etree._Element) -> bool:
    """Return whether an element is a policy, a reference to one, or the WSDL extension of WS-Addressing if required."""
    if str(child.tag) in USING_ADDRESSING:
        return child.get(_REQUIRED, "").strip() in ("true", "1")
    return is_operator(str(child.tag), "Policy", "PolicyReference")
