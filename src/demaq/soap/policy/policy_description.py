"""Say in words what a gateway with a policy demands and sends."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from demaq.soap.addressing.addressing_versions import ADDRESSING_1_0, ADDRESSING_VERSIONS
from demaq.soap.policy.gateway_policy import AddressingPolicy, AnswerAddresses, GatewayPolicy, ReliabilityPolicy
from demaq.soap.policy.policy_names import namespace_of
from demaq.soap.qualified_names import local_name
from demaq.soap.reliability.delivery_assurance import Assurance
from demaq.soap.reliability.reliability_versions import BY_NAMESPACE
from demaq.soap.security.algorithm_suite import (
    AES128_CBC,
    AES128_GCM,
    AES256_CBC,
    AES256_GCM,
    ECDSA_SHA256,
    RSA_1_5,
    RSA_OAEP,
    RSA_OAEP_MGF1P,
    RSA_SHA1,
    RSA_SHA256,
)
from demaq.soap.security.security_requirements import (
    MessageParts,
    PasswordForm,
    ProtectionOrder,
    SecurityRequirements,
    TokenForm,
    UsernameRequirement,
)

_ALGORITHMS: Final = {
    RSA_SHA256: "RSA SHA-256",
    ECDSA_SHA256: "ECDSA SHA-256",
    RSA_SHA1: "RSA SHA-1",
    AES256_GCM: "AES-256-GCM",
    AES128_GCM: "AES-128-GCM",
    AES256_CBC: "AES-256-CBC",
    AES128_CBC: "AES-128-CBC",
    RSA_OAEP: "RSA-OAEP",
    RSA_OAEP_MGF1P: "RSA-OAEP",
    RSA_1_5: "RSA 1.5",
}
_TIMES: Final = {
    Assurance.EXACTLY_ONCE: "exactly once",
    Assurance.AT_LEAST_ONCE: "at least once",
    Assurance.AT_MOST_ONCE: "at most once",
}


def describe_policy(policy: GatewayPolicy, *, is_outgoing: bool) -> list[str]:
    """Return sentences about requests, answers, reliability and addressing, in this order."""
    requests, answers = "requests that it accepts", "answers that it sends"
    if is_outgoing:
        requests, answers = "requests that it sends", "answers that it accepts"
    lines: list[str] = []
    if policy.security is not None:
        lines += [f"{requests} {what}" for what in _describe_security(policy.security.request, is_sent=is_outgoing)]
        lines += [f"{answers} {what}" for what in _describe_security(policy.security.answer, is_sent=not is_outgoing)]
    if policy.reliability is not None:
        lines.append(_describe_reliability(policy.reliability))
    if policy.addressing is not None:
        lines.append(_describe_addressing(policy.addressing))
    return lines


def _describe_security(required: SecurityRequirements, *, is_sent: bool) -> Iterator[str]:
    if required.https:
        yield "come over HTTPS"
    if required.timestamp:
        yield "have a timestamp"
    if required.username is not None:
        yield _describe_user(required.username)
    suite = required.suite
    if required.is_signed:
        signed = [*_list_parts(required.signed), *_list_user(required.username, "signed")]
        token = _describe_token(required.signing_tokens, is_sent)
        yield f"are signed: {', '.join(signed)}, with {token}, {_name_algorithms(suite.signatures)}"
    if required.is_encrypted:
        encrypted = [*_list_parts(required.encrypted), *_list_user(required.username, "encrypted")]
        algorithms = f"{_name_algorithms(suite.data)}, {_name_algorithms(suite.key_transport)}"
        first = "before they are signed" if required.order is ProtectionOrder.ENCRYPT_BEFORE_SIGN else ""
        after = f" {first}" if required.is_signed and first else ""
        yield f"are encrypted{after}: {', '.join(encrypted)}, with {algorithms}"
    if required.signature_confirmation:
        yield "confirm the signatures of the request"


def _describe_token(forms: tuple[TokenForm, ...], is_sent: bool) -> str:
    """Return how a certificate is named: in the first form if it is sent, in any of them if it is accepted."""
    if is_sent:
        forms = forms[:1]
    elif set(forms) == set(TokenForm):
        return "X.509"
    return f"X.509 ({' or '.join([form.value for form in forms])})"


def _describe_user(username: UsernameRequirement) -> str:
    password = "a digest of the password" if username.password is PasswordForm.DIGEST else "the password as text"
    more = [name for name, is_asked in (("nonce", username.nonce), ("time", username.created)) if is_asked]
    return f"name a user, with {' and '.join([password, *more])}"


def _list_user(username: UsernameRequirement | None, protection: str) -> list[str]:
    is_asked = username is not None and (username.signed if protection == "signed" else username.encrypted)
    return ["UsernameToken"] if is_asked else []


def _list_parts(parts: MessageParts) -> Iterator[str]:
    if parts.body:
        yield "Body"
    if parts.timestamp:
        yield "Timestamp"
    yield from dict.fromkeys([_name_header(header) for header in parts.headers])
    yield from [path.path for path in parts.elements]


def _name_header(header: str) -> str:
    namespace, local = namespace_of(header), local_name(header)
    known = "addressing" if namespace in ADDRESSING_VERSIONS else "reliability" if namespace in BY_NAMESPACE else None
    if known is not None:
        return f"{known} headers" if local == "*" else f"{known} header {local}"
    return f"headers of {namespace}" if local == "*" else f"header {local} of {namespace}"


def _name_algorithms(algorithms: tuple[str, ...]) -> str:
    return " or ".join(dict.fromkeys([_ALGORITHMS.get(algorithm, algorithm) for algorithm in algorithms]))


def _describe_reliability(policy: ReliabilityPolicy) -> str:
    assurance = policy.assurance
    order = " and in order" if assurance.in_order else ""
    words = [
        f"each message is delivered {_TIMES[assurance.times]}{order} by WS-ReliableMessaging {policy.version.name}"
    ]
    if policy.inactivity_timeout is not None:
        words.append(f"a sequence ends after {_seconds(policy.inactivity_timeout)} without a message")
    if policy.retransmission_interval is not None:
        growing = ", growing" if policy.exponential_backoff else ""
        words.append(f"a message is sent again after {_seconds(policy.retransmission_interval)}{growing}")
    if policy.acknowledgement_interval is not None:
        words.append(f"acknowledgements wait at most {_seconds(policy.acknowledgement_interval)}")
    return "; ".join(words)


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():g} s"


def _describe_addressing(policy: AddressingPolicy) -> str:
    version = "1.0" if policy.version == ADDRESSING_1_0 else "of 2004/08"
    words = f"WS-Addressing {version} is required"
    return words if policy.answers is AnswerAddresses.ANY else f"{words}; answers go to {policy.answers.value}"
