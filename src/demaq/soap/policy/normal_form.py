"""Normalise a policy: from any nesting of operators to a list of alternatives (WS-Policy 1.5, section 4.3).

    <All> <A wsp:Optional="true"/> <ExactlyOne> <B/> <C/> </ExactlyOne> </All>
becomes
    A B | A C | B | C

An assertion with a nested policy of several alternatives becomes one assertion for each of them (section 4.3.2).
"""

from __future__ import annotations

from itertools import product

from lxml import etree

from demaq.soap.policy.assertions import Alternative, Assertion
from demaq.soap.policy.policy_documents import PolicyDocument, PolicyDocuments
from demaq.soap.policy.policy_errors import name_as_written, refuse_policy
from demaq.soap.policy.policy_names import POLICY_NAMESPACES, is_operator, namespace_of
from demaq.soap.qualified_names import child_elements, clark, shorten
from demaq.source import SourceLocation

ALTERNATIVES_MAX = 512
NESTING_MAX = 60
"""How deeply operators, nested policies and references may be nested."""
WORK_MAX = 50_000
"""How many assertions all alternatives may have, and how many elements are visited, in one policy."""

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_OPERATORS = ("Policy", "All", "ExactlyOne")


class Normaliser:
    """Normalises the policies of one gateway. What they may cost is bounded for all of them together."""

    def __init__(self, documents: PolicyDocuments) -> None:
        self.documents = documents
        self._work = 0
        self._open: list[etree._Element] = []
        """What is being normalised, outermost first."""

    def normalise(self, document: PolicyDocument, policy: etree._Element) -> tuple[Alternative, ...]:
        """Return the alternatives of a policy or of an operator."""
        at = document.locate(policy)
        if not is_operator(str(policy.tag), *_OPERATORS):
            refuse_policy(f"{name_as_written(policy)} is no policy", at, "a policy has the root wsp:Policy")
        if policy in self._open:
            refuse_policy("the policy refers to itself", at)
        self._spend(1, at)
        self._open.append(policy)
        if len(self._open) > NESTING_MAX:
            refuse_policy(f"the policy is nested more than {NESTING_MAX} levels deep", at)
        try:
            parts = [self._normalise_child(document, child) for child in child_elements(policy)]
        finally:
            self._open.pop()
        _refuse_attributes(document, policy)
        if is_operator(str(policy.tag), "ExactlyOne"):
            return self._check([alternative for part in parts for alternative in part], at)
        return self.merge(parts, at)

    def merge(self, parts: list[tuple[Alternative, ...]], at: SourceLocation) -> tuple[Alternative, ...]:
        """Return the alternatives of policies that all hold."""
        merged: tuple[Alternative, ...] = ((),)
        for part in parts:
            if len(part) * len(merged) > ALTERNATIVES_MAX:
                refuse_policy(f"the policy has more than {ALTERNATIVES_MAX} alternatives", at)
            merged = self._check([left + right for left, right in product(merged, part)], at)
        return merged

    def resolve(self, document: PolicyDocument, reference: str, at: SourceLocation) -> tuple[Alternative, ...]:
        """Return the alternatives of the policy that a reference means."""
        return self.normalise(*self.documents.resolve(document, reference.strip(), at))

    def resolve_element(self, document: PolicyDocument, reference: etree._Element) -> tuple[Alternative, ...]:
        """Return the alternatives of the policy that a PolicyReference means."""
        at = document.locate(reference)
        uri = reference.get("URI")
        if uri is None:
            refuse_policy(f"{name_as_written(reference)} has no URI", at)
        if set(reference.attrib) - {"URI"}:
            refuse_policy(f"{name_as_written(reference)} has other attributes than URI", at, "a Digest is not checked")
        return self.resolve(document, uri, at)

    def _normalise_child(self, document: PolicyDocument, child: etree._Element) -> tuple[Alternative, ...]:
        name = str(child.tag)
        if is_operator(name, *_OPERATORS):
            return self.normalise(document, child)
        if is_operator(name, "PolicyReference"):
            return self.resolve_element(document, child)
        if namespace_of(name) in POLICY_NAMESPACES or not namespace_of(name):
            refuse_policy(f"{name_as_written(child)} is neither an operator nor an assertion", document.locate(child))
        return self._normalise_assertion(document, child)

    def _normalise_assertion(self, document: PolicyDocument, element: etree._Element) -> tuple[Alternative, ...]:
        at = document.locate(element)
        self._spend(1, at)
        inner = [child for child in child_elements(element) if namespace_of(str(child.tag)) in POLICY_NAMESPACES]
        if len(inner) > 1 or not all([is_operator(str(child.tag), "Policy") for child in inner]):
            refuse_policy(f"{name_as_written(element)} has something else than one nested wsp:Policy", at)
        nested = self.normalise(document, inner[0]) if inner else (None,)
        alternatives: list[Alternative] = [
            (Assertion(element=element, nested=each, locate=document.locate),) for each in nested
        ]
        return self._check([*alternatives, ()] if _is_optional(document, element) else alternatives, at)

    def _check(self, alternatives: list[Alternative], at: SourceLocation) -> tuple[Alternative, ...]:
        if len(alternatives) > ALTERNATIVES_MAX:
            refuse_policy(f"the policy has more than {ALTERNATIVES_MAX} alternatives", at)
        self._spend(sum([len(alternative) for alternative in alternatives]), at)
        return tuple(alternatives)

    def _spend(self, work: int, at: SourceLocation) -> None:
        self._work += work
        if self._work > WORK_MAX:
            refuse_policy("the policy is too large when its references and alternatives are written out", at)


def _is_optional(document: PolicyDocument, element: etree._Element) -> bool:
    for namespace in POLICY_NAMESPACES:
        written = element.get(clark(namespace, "Optional"))
        if written is not None:
            if written.strip() not in _BOOLEANS:
                refuse_policy(f'wsp:Optional is "{shorten(written)}": true or false', document.locate(element))
            return _BOOLEANS[written.strip()]
    return False


def _refuse_attributes(document: PolicyDocument, operator: etree._Element) -> None:
    """Raise ProgramError if an operator is optional or the like. A policy has a name, and may have other attributes."""
    is_policy = is_operator(str(operator.tag), "Policy")
    if [name for name in operator.attrib if not is_policy or namespace_of(str(name)) in POLICY_NAMESPACES]:
        refuse_policy(
            f"{name_as_written(operator)} has attributes that are not supported",
            document.locate(operator),
            "wsp:Optional is for assertions",
        )
