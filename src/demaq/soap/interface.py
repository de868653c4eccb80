"""The interface of a WSDL as values: the selected port, its operations, and the structure of their messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lxml import etree

from demaq.errors import MessageError
from demaq.soap.addressing.wsdl_actions import OperationActions
from demaq.soap.message_schema import PARTS, Schema
from demaq.soap.policy_attachments import PortPolicies
from demaq.soap.published_wsdl import WsdlSource
from demaq.soap.qualified_names import ENVELOPES, child_elements, clark, shorten
from demaq.soap.standalone import cut_out
from demaq.xml_parsers import parse_characters

DOCUMENT = "document"
RPC = "rpc"
_OPERATIONS_SHOWN_MAX = 10
_FAULTS = [clark(namespace, "Fault") for namespace in ENVELOPES.values()]


@dataclass(frozen=True, slots=True, kw_only=True)
class SoapBody:
    """The content of the Body of an envelope, and so of a message in a queue.

    An rpc message has one element around its parts; the whole element is the message. A message without parts has an
    empty Body; in a queue it is represented by an element named after the operation.
    """

    element: str
    is_empty: bool = False
    parts: Mapping[str, str] | None = None
    """The parts of an rpc message by name, each with the name of its element in the schema of parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation of a port."""

    name: str
    action: str | None
    """The value of `SOAPAction`."""
    actions: OperationActions
    """The values of the header `Action` of WS-Addressing."""
    style: str
    input: SoapBody
    output: SoapBody | None
    """None for a one-way operation."""
    faults: Mapping[str, str]
    """The elements of declared faults, by the name of the fault."""
    headers: Sequence[str]
    """Elements that the binding puts into the header of a request."""

    @property
    def is_one_way(self) -> bool:
        return self.output is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """One port of a WSDL."""

    service: str | None
    port: str
    namespace: str | None
    """The target namespace of the WSDL."""
    address: str | None
    version: str
    """The version of SOAP: 1.1 or 1.2."""
    operations: Sequence[Operation]
    schema: Schema = field(repr=False)
    source: WsdlSource = field(repr=False)
    """The files of the interface."""

    def operation(self, body: str | None, action: str | None = None) -> Operation:
        """Return the operation that a request asks for: by the element in its Body, then by the action."""
        fitting = [one for one in self.operations if _in_envelope(one.input) == body]
        if len(fitting) > 1:
            fitting = [one for one in fitting if action and _has_action(one, action)] or fitting
        if len(fitting) > 1:
            names = ", ".join([one.name for one in fitting])
            raise MessageError("schemaViolation", f"{_describe(body)} may be {names}; the action has to say which")
        if not fitting:
            raise MessageError(
                "schemaViolation", f"port {self.port} has no operation for {_describe(body)}{self._known_operations()}"
            )
        return fitting[0]

    def operation_of_message(self, element: str, action: str | None = None) -> Operation:
        """Return the operation that a message in an outgoing gateway asks for."""
        for one in self.operations:
            if one.input.is_empty and one.input.element == element:
                return one
        return self.operation(element, action)

    def with_policies(self, policies: PortPolicies) -> Interface:
        """Return the interface of a gateway with these policies, which are in what is published of it."""
        return replace(self, source=replace(self.source, policies=policies))

    def publish(self, address: str, others: Sequence[tuple[Interface, str]] = ()) -> bytes:
        """Return the WSDL for clients at `?wsdl`: its port at our address, other served ports at theirs.

        Each port has its policies.
        """
        return self.source.publish(address, [(other.source, place) for other, place in others])

    def publish_file(self, name: str, address: str, others: Sequence[tuple[Interface, str]] = ()) -> bytes | None:
        """Return a file that the served WSDL references as `?wsdl=NAME` or `?xsd=NAME`; None if there is none."""
        return self.source.publish_file(name, address, [(other.source, place) for other, place in others])

    def check_input(self, tree: etree._ElementTree, operation: Operation | None = None) -> None:
        """Raises MessageError unless a message is a valid request. Headers and attachments are not validated."""
        root = tree.getroot()
        if operation is None:
            operation = self.operation_of_message(str(root.tag))
        self._check(root, operation.input)

    def check_output(self, tree: etree._ElementTree, operation: Operation | None = None) -> None:
        """Raises MessageError unless a message is a valid answer of this operation, or of any if none is given."""
        root = tree.getroot()
        candidates = self.operations if operation is None else (operation,)
        outputs = [one.output for one in candidates if one.output is not None]
        fitting = next(iter([output for output in outputs if output.element == root.tag]), None)
        if fitting is None:
            known = ", ".join(sorted({output.element for output in outputs})) or "nothing at all"
            raise MessageError("schemaViolation", f"{shorten(str(root.tag))} is no answer; expected is {known}")
        self._check(root, fitting)

    def check_answer(self, tree: etree._ElementTree, operation: Operation) -> None:
        """Raises MessageError unless a message is an output, a declared fault, or a SOAP fault."""
        root = tree.getroot()
        if root.tag in operation.faults.values():
            self._check(root, SoapBody(element=str(root.tag)))
        elif root.tag not in _FAULTS:
            self.check_output(tree, operation)

    def _check(self, root: etree._Element, body: SoapBody) -> None:
        if root.tag != body.element:
            raise MessageError("schemaViolation", f"{shorten(str(root.tag))} instead of {body.element}")
        if body.is_empty:
            return
        violation = self.schema.violation(root) if body.parts is None else self._rpc_violation(root, body.parts)
        if violation is not None:
            raise MessageError("schemaViolation", violation)

    def _rpc_violation(self, root: etree._Element, parts: Mapping[str, str]) -> str | None:
        children = child_elements(root, len(parts) + 1)
        names = [str(child.tag) for child in children]
        if sorted(names) != sorted(parts):  # in any order: clients differ in it
            expected = ", ".join(parts) or "no part"
            found = shorten(", ".join(names)) or "no part"
            return f"line {root.sourceline}: {shorten(str(root.tag))} has {found}; expected is {expected}"
        for child, name in zip(children, names, strict=True):
            violation = self._part_violation(child, name, parts[name])
            if violation is not None:
                return violation
        return None

    def _part_violation(self, part: etree._Element, name: str, stands_for: str) -> str | None:
        copy = parse_characters(cut_out(part).encode())
        copy.tag = clark(PARTS, stands_for)
        violation = self.schema.violation(copy)
        if violation is None:
            return None
        reason = violation.partition(": ")[2].replace(clark(PARTS, stands_for), name)
        return f"line {part.sourceline}: part {name}: {reason}"

    def _known_operations(self) -> str:
        known = [f"{one.name} ({_describe(_in_envelope(one.input))})" for one in self.operations]
        more = f" and {len(known) - _OPERATIONS_SHOWN_MAX} more" if len(known) > _OPERATIONS_SHOWN_MAX else ""
        return f"; it has {', '.join(known[:_OPERATIONS_SHOWN_MAX])}{more}" if known else "; it has none at all"


def _in_envelope(body: SoapBody) -> str | None:
    return None if body.is_empty else body.element


def _has_action(operation: Operation, action: str) -> bool:
    return action == operation.action or operation.actions.accepts(action)


def _describe(body: str | None) -> str:
    return "an empty Body" if body is None else f"a Body with {shorten(body)}"
