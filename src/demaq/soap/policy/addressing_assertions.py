"""`wsam:Addressing` of WS-Addressing Metadata 1.0, and `wsaw:UsingAddressing`, which was there before."""

from __future__ import annotations

from demaq.soap.addressing.addressing_versions import ADDRESSING_1_0
from demaq.soap.policy.assertions import Assertion
from demaq.soap.policy.gateway_policy import AddressingPolicy, AnswerAddresses
from demaq.soap.policy.policy_errors import PolicyProblems
from demaq.soap.policy.policy_names import ADDRESSING_METADATA, USING_ADDRESSING
from demaq.soap.qualified_names import WSDL, clark

_ANSWERS = {
    "AnonymousResponses": AnswerAddresses.ANONYMOUS,
    "NonAnonymousResponses": AnswerAddresses.ELSEWHERE,
}


def is_addressing(assertion: Assertion) -> bool:
    return assertion.name in USING_ADDRESSING or assertion.name == clark(ADDRESSING_METADATA, "Addressing")


def read_addressing(assertion: Assertion, problems: PolicyProblems) -> AddressingPolicy:
    """Return what an assertion of WS-Addressing says."""
    if assertion.name in USING_ADDRESSING:
        problems.refuse_parameters(assertion, clark(WSDL, "required"))
        for nested in assertion.nested or ():
            problems.refuse(nested)
        return AddressingPolicy(version=USING_ADDRESSING[assertion.name])
    problems.refuse_parameters(assertion)
    answers = AnswerAddresses.ANY
    for nested in assertion.nested or ():
        problems.refuse_content(nested)
        if nested.namespace != ADDRESSING_METADATA or nested.local not in _ANSWERS:
            problems.refuse(nested)
        elif answers is not AnswerAddresses.ANY and answers is not _ANSWERS[nested.local]:
            problems.add("no answer can be both anonymous and not", nested.at)  # Metadata 3.1.3
        else:
            answers = _ANSWERS[nested.local]
    return AddressingPolicy(version=ADDRESSING_1_0, answers=answers)
