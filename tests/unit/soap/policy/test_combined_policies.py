"""The policy of a gateway: its `using` clauses and its WSDL together."""

from __future__ import annotations

import pytest

from demaq.errors import ProgramError
from demaq.soap.addressing.addressing_versions import ADDRESSING_1_0, ADDRESSING_2004
from demaq.soap.policy import AddressingPolicy, AnswerAddresses, GatewayPolicy, combine_policies
from demaq.soap.policy.gateway_policy import DEFAULT_RELIABILITY
from tests.support.soap.policies import asymmetric, nested, read, suite

SECURITY, RELIABILITY = "WS-Security", "WS-ReliableMessaging"
SIGNED = "<sp:SignedParts><sp:Body/></sp:SignedParts>"
RELIABLE_1_0, RELIABLE_1_1 = "<wsrm:RMAssertion/>", "<wsrmp:RMAssertion/>"
ADDRESSED = nested("wsam:Addressing")
ANONYMOUS = nested("wsam:Addressing", "<wsam:AnonymousResponses/>")
ELSEWHERE = nested("wsam:Addressing", "<wsam:NonAnonymousResponses/>")


def combine(*, interface: str | None = None, **contents: str | None) -> GatewayPolicy:
    """Return the policy of a gateway with these policies in files (None without a file) and in its WSDL."""
    names = {"security": SECURITY, "reliability": RELIABILITY}
    own = {names[name]: read(content) if content is not None else None for name, content in contents.items()}
    return combine_policies(own, read(interface) if interface is not None else None)


@pytest.mark.parametrize("order", [("security", "reliability"), ("reliability", "security")])
@pytest.mark.parametrize(
    ("security", "reliability", "expected"),
    [
        (SIGNED, RELIABLE_1_0, AddressingPolicy(version=ADDRESSING_2004)),
        (SIGNED + ADDRESSED, RELIABLE_1_0, AddressingPolicy(version=ADDRESSING_1_0)),
        (SIGNED + ANONYMOUS, RELIABLE_1_1, AddressingPolicy(version=ADDRESSING_1_0, answers=AnswerAddresses.ANONYMOUS)),
        (SIGNED + ANONYMOUS, None, AddressingPolicy(version=ADDRESSING_1_0, answers=AnswerAddresses.ANONYMOUS)),
        (
            SIGNED + ADDRESSED,
            RELIABLE_1_0 + ELSEWHERE,
            AddressingPolicy(version=ADDRESSING_1_0, answers=AnswerAddresses.ELSEWHERE),
        ),
    ],
)
def test_what_a_policy_says_of_addressing_holds_whatever_the_order_of_clauses(order, security, reliability, expected):
    contents = {"security": security, "reliability": reliability}
    assert combine(**{name: contents[name] for name in order}).addressing == expected


def test_what_the_wsdl_says_of_addressing_holds_too():
    found = combine(security=SIGNED + ANONYMOUS, interface="<wsaw:UsingAddressing/>")
    assert found.addressing == AddressingPolicy(version=ADDRESSING_1_0, answers=AnswerAddresses.ANONYMOUS)
    assert combine(interface=ADDRESSED) == GatewayPolicy(addressing=AddressingPolicy(version=ADDRESSING_1_0))


def test_what_an_extension_that_is_not_used_implies_of_addressing_does_not_hold():
    found = combine(security=None, interface=SIGNED + RELIABLE_1_0)
    assert found == GatewayPolicy(security=read(SIGNED).security)
    used = combine(reliability=None, interface=SIGNED + RELIABLE_1_0)
    assert used == read(RELIABLE_1_0)


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        (
            {"security": SIGNED + ANONYMOUS, "reliability": RELIABLE_1_1 + ELSEWHERE},
            "the policy of WS-ReliableMessaging wants answers to other addresses than another policy of the gateway",
        ),
        (
            {
                "security": SIGNED + ADDRESSED,
                "interface": '<a:UsingAddressing xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing/policy"/>',
            },
            "the policy of WS-Security is of another version of WS-Addressing than another policy of the gateway",
        ),
        ({"reliability": RELIABLE_1_1, "interface": RELIABLE_1_0}, "is not that of the interface"),
        ({"security": SIGNED, "interface": asymmetric(suite())}, "is not that of the interface"),
        ({"security": None, "interface": asymmetric(suite())}, "WS-Security needs a policy"),
    ],
)
def test_policies_that_disagree_are_refused(contents, words):
    with pytest.raises(ProgramError, match=words):
        combine(**contents)


def test_reliability_without_any_policy_is_the_usual_one():
    assert combine(reliability=None) == GatewayPolicy(
        reliability=DEFAULT_RELIABILITY, addressing=AddressingPolicy(version=ADDRESSING_1_0)
    )
