"""All assertions of WS-SecurityPolicy in an alternative, as the requirements of requests and of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from demaq.soap.policy.assertions import Alternative, Assertion
from demaq.soap.policy.policy_errors import PolicyProblems, name_as_written
from demaq.soap.policy.protection_assertions import PROTECTION, read_parts
from demaq.soap.policy.security_bindings import (
    ASYMMETRIC,
    TRANSPORT,
    SecurityBinding,
    read_binding,
    reads_confirmation,
)
from demaq.soap.policy.token_assertions import X509Usage, is_security, read_token, read_username_token
from demaq.soap.security.security_requirements import (
    ExchangeRequirements,
    SecurityRequirements,
    UsernameRequirement,
)

_SUPPORTING: Final = {
    "SupportingTokens": (False, False),
    "SignedSupportingTokens": (True, False),
    "EncryptedSupportingTokens": (False, True),
    "SignedEncryptedSupportingTokens": (True, True),
}
"""Whether the token is signed and whether it is encrypted."""
_OPTIONS: Final = ("Wss10", "Wss11")
_BINDINGS: Final = (ASYMMETRIC, TRANSPORT)


def read_security(
    both: Alternative, request: Alternative, answer: Alternative, problems: PolicyProblems
) -> ExchangeRequirements | None:
    """Return what assertions for both messages, for the request and for the answer require; None without any."""
    common = [one for one in both if is_security(one)]
    requests, answers = [[one for one in side if is_security(one)] for side in (request, answer)]
    if not (common or requests or answers):
        return None
    known = (*_BINDINGS, *_SUPPORTING, *_OPTIONS, *PROTECTION)
    for assertion in [*common, *requests, *answers]:
        if assertion.local not in known:
            problems.refuse(assertion)
    for assertion in [*requests, *answers]:
        if assertion.local in (*_BINDINGS, *_OPTIONS) or (assertion in answers and assertion.local in _SUPPORTING):
            problems.add(f"{name_as_written(assertion.element)} cannot be given for one message alone", assertion.at)
    binding = _read_binding(common, problems)
    username = _read_username([*common, *requests], binding, problems)
    confirms = any([reads_confirmation(one, problems) for one in common if one.local in _OPTIONS])
    return ExchangeRequirements(
        request=replace(_require(binding, [*common, *requests], True, problems), username=username),
        answer=replace(
            _require(binding, [*common, *answers], False, problems),
            signature_confirmation=confirms and binding.kind != TRANSPORT,
        ),
    )


def _require(
    binding: SecurityBinding, assertions: Sequence[Assertion], is_request: bool, problems: PolicyProblems
) -> SecurityRequirements:
    signed, encrypted = read_parts([one for one in assertions if one.local in PROTECTION], problems)
    if binding.is_entire and signed.elements:
        at = next(iter([one.at for one in assertions if one.local == "SignedElements"]))
        problems.add(
            "SignedElements cannot be combined with OnlySignEntireHeadersAndBody", at, "name headers in SignedParts"
        )
    if binding.kind == TRANSPORT:  # HTTPS protects all parts
        return SecurityRequirements(timestamp=binding.timestamp, suite=binding.suite, https=True)
    signer, reader = ("initiator", "recipient") if is_request else ("recipient", "initiator")
    signing = binding.tokens.get(f"{signer}_signs")
    decrypting = binding.tokens.get(f"{reader}_decrypts", X509Usage(to_recipient=False, to_initiator=False))
    requirements = SecurityRequirements(
        timestamp=binding.timestamp,
        signed=replace(signed, timestamp=binding.timestamp),  # a timestamp is always signed (6.2)
        encrypted=encrypted,
        suite=binding.suite,
        order=binding.order,
    )
    if binding.kind is None or signing is None:
        return requirements
    return replace(
        requirements,
        signing_tokens=signing.forms(to_recipient=is_request),
        encryption_tokens=decrypting.forms(to_recipient=is_request),
    )


def _read_binding(assertions: Sequence[Assertion], problems: PolicyProblems) -> SecurityBinding:
    found = [one for one in assertions if one.local in _BINDINGS]
    for other in found[1:]:
        problems.add(f"{name_as_written(other.element)} is a second binding", other.at, "a policy has one binding")
    return read_binding(found[0], problems) if found else SecurityBinding()


def _read_username(
    assertions: Sequence[Assertion], binding: SecurityBinding, problems: PolicyProblems
) -> UsernameRequirement | None:
    found: list[UsernameRequirement] = []
    for holder in [one for one in assertions if one.local in _SUPPORTING]:
        token = read_token(holder, problems, "UsernameToken")
        if token is None:
            continue
        if found:
            problems.add(f"{name_as_written(token.element)} is a second user", token.at, "a message has one user")
        signed, encrypted = _SUPPORTING[holder.local]
        is_by_transport = binding.kind == TRANSPORT
        found.append(
            replace(
                read_username_token(token, problems),
                signed=signed and not is_by_transport,
                encrypted=encrypted and not is_by_transport,
            )
        )
    return found[0] if found else None
