"""RMAssertion of WS-RM Policy 1.0, and of 1.1 and 1.2, which share a namespace."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from lxml import etree

from demaq.soap.policy.assertions import Assertion
from demaq.soap.policy.gateway_policy import ReliabilityPolicy
from demaq.soap.policy.policy_errors import PolicyProblems, name_as_written
from demaq.soap.policy.policy_names import RM_POLICY_1_0, RM_POLICY_1_1, RM_TIMING, namespace_of
from demaq.soap.qualified_names import local_name, shorten
from demaq.soap.reliability.delivery_assurance import EXACTLY_ONCE_IN_ORDER, Assurance, DeliveryAssurance
from demaq.soap.reliability.reliability_versions import RELIABILITY_1_0, RELIABILITY_1_1

_IN_ORDER: Final = "InOrder"
_ASSURANCES: Final = {assurance.value: assurance for assurance in Assurance}
_BACKOFF: Final = "ExponentialBackoff"
_TIMES: Final = {
    "InactivityTimeout": "inactivity_timeout",
    "BaseRetransmissionInterval": "retransmission_interval",
    "AcknowledgementInterval": "acknowledgement_interval",
}
_TIMING_NAMESPACE: Final = {RM_POLICY_1_0: RM_POLICY_1_0, RM_POLICY_1_1: RM_TIMING}


def read_reliability(assertion: Assertion, problems: PolicyProblems) -> ReliabilityPolicy:
    """Return what an RMAssertion says."""
    times, has_backoff = _read_times(assertion, problems)
    version = RELIABILITY_1_0 if assertion.namespace == RM_POLICY_1_0 else RELIABILITY_1_1
    return ReliabilityPolicy(
        version=version,
        assurance=_read_nested(assertion, problems),
        exponential_backoff=has_backoff,
        inactivity_timeout=times.get("inactivity_timeout"),
        retransmission_interval=times.get("retransmission_interval"),
        acknowledgement_interval=times.get("acknowledgement_interval"),
    )


def _read_times(assertion: Assertion, problems: PolicyProblems) -> tuple[dict[str, timedelta], bool]:
    times: dict[str, timedelta] = {}
    has_backoff = False
    for name in assertion.attributes:
        problems.add(f"the attribute {shorten(local_name(name))} of an RMAssertion is not supported", assertion.at)
    for child in assertion.parameters:
        local = local_name(str(child.tag))
        is_timing = namespace_of(str(child.tag)) == _TIMING_NAMESPACE[assertion.namespace]
        if is_timing and local in _TIMES:
            times[_TIMES[local]] = _read_milliseconds(assertion, child, problems)
        elif is_timing and local == _BACKOFF:
            has_backoff = True
        else:
            problems.add(f"{name_as_written(child)} of an RMAssertion is not supported", assertion.locate(child))
    return times, has_backoff


def _read_milliseconds(assertion: Assertion, element: etree._Element, problems: PolicyProblems) -> timedelta:
    written = element.get("Milliseconds", "").strip()
    if not (written.isascii() and written.isdecimal() and len(written) <= 12 and int(written) > 0):
        problems.add(
            f'{name_as_written(element)} has no number of milliseconds, but "{shorten(written)}"',
            assertion.locate(element),
            'write Milliseconds="60000"',
        )
        return timedelta()
    return timedelta(milliseconds=int(written))


def _read_nested(assertion: Assertion, problems: PolicyProblems) -> DeliveryAssurance:
    found = [one for one in assertion.nested or () if one.name == f"{{{RM_POLICY_1_1}}}DeliveryAssurance"]
    for nested in assertion.nested or ():
        if nested.namespace == RM_POLICY_1_1 and nested.local in ("SequenceSTR", "SequenceTransportSecurity"):
            problems.refuse(nested, "a sequence is not tied to a security token or to a connection")
        elif nested not in found or assertion.namespace == RM_POLICY_1_0 or nested is not found[0]:
            problems.refuse(nested)
    return _read_assurance(found[0], problems) if found else EXACTLY_ONCE_IN_ORDER


def _read_assurance(assertion: Assertion, problems: PolicyProblems) -> DeliveryAssurance:
    problems.refuse_parameters(assertion)
    times: list[Assurance] = []
    in_order = False
    for nested in assertion.nested or ():
        problems.refuse_content(nested)
        if nested.namespace == RM_POLICY_1_1 and nested.local in _ASSURANCES:
            times.append(_ASSURANCES[nested.local])
        elif nested.namespace == RM_POLICY_1_1 and nested.local == _IN_ORDER:
            in_order = True
        else:
            problems.refuse(nested)
    if len(times) != 1:
        problems.add(
            f"{name_as_written(assertion.element)} says {len(times)} times how often a message is delivered, not once",
            assertion.at,
            "give one of ExactlyOnce, AtLeastOnce and AtMostOnce in its wsp:Policy",
        )
    return DeliveryAssurance(times[0] if times else Assurance.EXACTLY_ONCE, in_order)
