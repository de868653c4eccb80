"""The policies of the gateways of a checked program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from demaq.language.program.program import Gateway, Program

if TYPE_CHECKING:
    from demaq.soap.policy import GatewayPolicy
    from demaq.soap.policy_attachments import PortPolicies


def read_gateway_policy(gateway: Gateway) -> GatewayPolicy:
    """Return what the `using` clauses of a gateway and the WSDL together demand. Raises ProgramError and OSError."""
    from demaq.soap.policy import combine_policies, read_extension_policy, read_interface_policy

    own = {
        extension: read_extension_policy(extension, path) if path is not None else None
        for extension, path in gateway.extensions
    }
    interface = read_interface_policy(gateway.interface, gateway.port) if gateway.interface is not None else None
    return combine_policies(own, interface)


def collect_published_policies(gateway: Gateway) -> PortPolicies:
    """Return what the published WSDL of a gateway has to say of its policies besides what it says itself.

    `Interface.with_policies` takes it. Raises ProgramError and OSError.
    """
    from demaq.soap.policy import collect_port_policies
    from demaq.soap.policy_attachments import PortPolicies

    if gateway.interface is None:
        return PortPolicies()
    return collect_port_policies(dict(gateway.extensions), gateway.interface, gateway.port)


def describe_gateway_policies(program: Program) -> Mapping[str, Sequence[str]]:
    """Return for each gateway with a `using` clause what it demands and sends, in words."""
    gateways = {
        name: (queue.gateway, queue.kind == "outgoingGateway")
        for name, queue in program.queues.items()
        if queue.gateway is not None and queue.gateway.extensions
    }
    if not gateways:
        return {}  # most have none: nothing of SOAP is imported for them
    from demaq.soap.policy import describe_policy

    return {
        name: describe_policy(read_gateway_policy(gateway), is_outgoing=is_outgoing)
        for name, (gateway, is_outgoing) in gateways.items()
    }
