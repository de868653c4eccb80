"""Choose from the alternatives of a policy the first that is implemented."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from demaq.errors import ProgramError
from demaq.soap.policy.addressing_assertions import is_addressing, read_addressing
from demaq.soap.policy.assertions import Alternative, Assertion
from demaq.soap.policy.gateway_policy import AddressingPolicy, GatewayPolicy, ReliabilityPolicy, merge_addressing
from demaq.soap.policy.normal_form import ALTERNATIVES_MAX
from demaq.soap.policy.policy_errors import PolicyProblems, name_as_written, refuse_policy
from demaq.soap.policy.policy_names import RM_POLICY_1_0, RM_POLICY_1_1
from demaq.soap.policy.reliability_assertions import read_reliability
from demaq.soap.policy.security_policy import read_security
from demaq.soap.policy.token_assertions import is_security
from demaq.source import SourceLocation


def choose_policy(
    both: Sequence[Alternative],
    at: SourceLocation,
    request: Sequence[Alternative] = ((),),
    answer: Sequence[Alternative] = ((),),
) -> GatewayPolicy:
    """Return what the first alternative demands that is implemented. Raises ProgramError if there is none."""
    return choose_alternative(both, at, request, answer)[0]


def choose_alternative(
    both: Sequence[Alternative],
    at: SourceLocation,
    request: Sequence[Alternative] = ((),),
    answer: Sequence[Alternative] = ((),),
) -> tuple[GatewayPolicy, Alternative]:
    """Return what the first alternative demands that is implemented, and its assertions for the whole exchange.

    `both` are alternatives for the whole exchange, `request` and `answer` for one message besides. Raises ProgramError
    with what is wrong with the alternative that has the fewest problems, the first of these if there are several.
    """
    if len(both) * len(request) * len(answer) > ALTERNATIVES_MAX:
        refuse_policy(f"the policy has more than {ALTERNATIVES_MAX} alternatives", at)
    least: PolicyProblems | None = None
    for for_both, for_request, for_answer in product(both, request, answer):
        problems = PolicyProblems()
        policy = read_alternative(for_both, for_request, for_answer, problems)
        if not problems.errors:
            return policy, for_both
        if least is None or len(problems.errors) < len(least.errors):
            least = problems
    if least is None:
        refuse_policy("the policy has no alternative, so nothing can fulfil it", at)
    raise combine_errors(least.errors)


def combine_errors(errors: Sequence[ProgramError]) -> ProgramError:
    """Return the first error, with the others."""
    first = errors[0]
    first.others = tuple(errors[1:])
    return first


def read_alternative(
    both: Alternative, request: Alternative, answer: Alternative, problems: PolicyProblems
) -> GatewayPolicy:
    """Return what one alternative demands. What is not supported becomes a problem."""
    for assertion in [*request, *answer]:
        if not is_security(assertion):
            problems.refuse(assertion, "for single messages only what is signed and encrypted can be given")
    for assertion in both:
        if not (is_security(assertion) or is_addressing(assertion) or is_reliability(assertion)):
            problems.refuse(assertion)
    reliability = _read_reliability([one for one in both if is_reliability(one)], problems)
    addressing = _read_addressing([one for one in both if is_addressing(one)], problems)
    if addressing is None and reliability is not None:  # its headers are of no use without
        addressing = AddressingPolicy(version=reliability.version.addressing, is_implied=True)
    return GatewayPolicy(
        reliability=reliability, addressing=addressing, security=read_security(both, request, answer, problems)
    )


def is_reliability(assertion: Assertion) -> bool:
    return assertion.namespace in (RM_POLICY_1_0, RM_POLICY_1_1) and assertion.local == "RMAssertion"


def _read_reliability(assertions: Sequence[Assertion], problems: PolicyProblems) -> ReliabilityPolicy | None:
    read = [read_reliability(assertion, problems) for assertion in assertions]
    for assertion, policy in zip(assertions[1:], read[1:], strict=True):
        if policy != read[0]:
            problems.add(f"{name_as_written(assertion.element)} is given twice, differently", assertion.at)
    return read[0] if read else None


def _read_addressing(assertions: Sequence[Assertion], problems: PolicyProblems) -> AddressingPolicy | None:
    merged: AddressingPolicy | None = None
    for assertion in assertions:
        policy = read_addressing(assertion, problems)
        try:
            merged = merge_addressing(merged, policy)
        except ValueError as error:
            problems.add(f"{name_as_written(assertion.element)} {error}", assertion.at)
    return merged
