"""The namespaces of WS-Policy and of the assertions that are understood."""

from __future__ import annotations

from typing import Final

from demaq.soap.addressing.addressing_versions import ADDRESSING_1_0, ADDRESSING_2004
from demaq.soap.qualified_names import XML, clark, local_name
from demaq.soap.security.wss_names import WSU

POLICY_1_2: Final = "http://schemas.xmlsoap.org/ws/2004/09/policy"
POLICY_1_5: Final = "http://www.w3.org/ns/ws-policy"
POLICY_NAMESPACES: Final = (POLICY_1_2, POLICY_1_5)

RM_POLICY_1_0: Final = "http://schemas.xmlsoap.org/ws/2005/02/rm/policy"
RM_POLICY_1_1: Final = "http://docs.oasis-open.org/ws-rx/wsrmp/200702"
"""Of 1.1 and of 1.2."""
RM_TIMING: Final = "http://schemas.microsoft.com/ws-rx/wsrmp/200702"
"""The times that 1.1 has left out, as WCF writes them."""

SECURITY_POLICY_1_1: Final = "http://schemas.xmlsoap.org/ws/2005/07/securitypolicy"
SECURITY_POLICY_1_2: Final = "http://docs.oasis-open.org/ws-sx/ws-securitypolicy/200702"
SECURITY_POLICY_1_3: Final = "http://docs.oasis-open.org/ws-sx/ws-securitypolicy/200802"
"""What 1.3 has added; the rest of it is in the namespace of 1.2."""
CXF_SUITES: Final = "http://cxf.apache.org/custom/security-policy"
"""The suites with AES-GCM, which WS-SecurityPolicy does not have."""
SECURITY_POLICIES: Final = (SECURITY_POLICY_1_1, SECURITY_POLICY_1_2)

USING_ADDRESSING: Final = {
    clark("http://www.w3.org/2006/05/addressing/wsdl", "UsingAddressing"): ADDRESSING_1_0,
    clark("http://schemas.xmlsoap.org/ws/2004/08/addressing/policy", "UsingAddressing"): ADDRESSING_2004,
}
ADDRESSING_METADATA: Final = "http://www.w3.org/2007/05/addressing/metadata"

POLICY_IDS: Final = (clark(WSU, "Id"), clark(XML, "id"))


def namespace_of(name: str) -> str:
    return name[1:].partition("}")[0] if name.startswith("{") else ""


def is_operator(name: str, *locals_: str) -> bool:
    """Return whether a qualified name is one of these in a namespace of WS-Policy."""
    return namespace_of(name) in POLICY_NAMESPACES and local_name(name) in locals_
