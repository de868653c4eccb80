"""WS-Policy for gateways: what a policy demands, as one value.

It does no I/O but reading local files. What is not implemented is refused, never ignored.
"""

from demaq.soap.policy.gateway_policy import AddressingPolicy, AnswerAddresses, GatewayPolicy, ReliabilityPolicy
from demaq.soap.policy.policy_description import describe_policy
from demaq.soap.policy.policy_publication import collect_port_policies
from demaq.soap.policy.statement_policies import combine_policies, read_extension_policy, read_policy_text
from demaq.soap.policy.wsdl_policies import read_interface_policy

__all__ = [
    "AddressingPolicy",
    "AnswerAddresses",
    "GatewayPolicy",
    "ReliabilityPolicy",
    "collect_port_policies",
    "combine_policies",
    "describe_policy",
    "read_extension_policy",
    "read_interface_policy",
    "read_policy_text",
]
