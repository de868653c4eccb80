"""The actions of an operation: declared in the WSDL, or the default pattern (Metadata 4.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lxml import etree

from demaq.soap.addressing.addressing_versions import ADDRESSING, ADDRESSING_2004
from demaq.soap.qualified_names import WSDL, clark

_DECLARED = tuple(
    [
        clark(namespace, "Action")
        for namespace in (
            "http://www.w3.org/2007/05/addressing/metadata",  # wsam: Metadata 1.0
            "http://www.w3.org/2006/05/addressing/wsdl",  # wsaw: its candidate recommendation, which most tools write
            ADDRESSING,
            ADDRESSING_2004.namespace,
        )
    ]
)
"""The attributes that declare an action, the most recent one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationActions:
    """The values of the header `Action` for the messages of an operation."""

    input: str
    output: str | None
    """None for a one-way operation."""
    faults: Mapping[str, str]
    """By the name of the fault."""
    others: Sequence[str] = ()
    """Actions that are accepted besides that of the input, because the WSDL declares none."""

    def accepts(self, action: str) -> bool:
        """Return whether a request of the operation may have this action."""
        return action == self.input or action in self.others


def read_actions(
    namespace: str | None, port_type: str, operation: etree._Element, soap_action: str | None
) -> OperationActions:
    """Return the actions of an operation of a portType in this target namespace."""
    name = operation.get("name", "")
    sides = {side: operation.find(clark(WSDL, side)) for side in ("input", "output")}
    is_one_way = sides["output"] is None
    default_input = _join(namespace, port_type, _name_of(sides["input"], name if is_one_way else f"{name}Request"))
    declared = _declared(sides["input"])
    return OperationActions(
        input=declared or soap_action or default_input,  # Metadata 4.4.1
        output=None
        if is_one_way
        else _declared(sides["output"]) or _join(namespace, port_type, _name_of(sides["output"], f"{name}Response")),
        faults={
            fault.get("name", ""): _declared(fault) or _join(namespace, port_type, name, "Fault", fault.get("name", ""))
            for fault in operation.iterchildren(clark(WSDL, "fault"))
        },
        others=() if declared or not soap_action else (default_input,),
    )


def _join(namespace: str | None, *names: str) -> str:
    """Return an action of the default pattern (Metadata 4.4.4)."""
    base = namespace or ""
    delimiter = ":" if base.lower().startswith("urn:") else "/"
    return delimiter.join([base.removesuffix(delimiter), *names])


def _name_of(side: etree._Element | None, default: str) -> str:
    """Return the name of an input or output; WSDL 1.1, 2.4.5, has the defaults."""
    return (side.get("name") if side is not None else None) or default


def _declared(side: etree._Element | None) -> str | None:
    if side is None:
        return None
    return next(iter([value for value in [side.get(name) for name in _DECLARED] if value]), None)
