"""The algorithm suites of WS-SecurityPolicy (1.2, section 6.1) that are implemented, and those of CXF with AES-GCM.

The specification lets suites with `Sha256` digest with SHA-256 and sign with SHA-1. Implementations such as WCF and
Metro sign with SHA-256 then, and so do we.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from demaq.soap.policy.assertions import Assertion
from demaq.soap.policy.policy_errors import PolicyProblems, name_as_written
from demaq.soap.policy.policy_names import CXF_SUITES, SECURITY_POLICIES
from demaq.soap.qualified_names import clark
from demaq.soap.security.algorithm_suite import (
    AES128_CBC,
    AES128_GCM,
    AES256_CBC,
    AES256_GCM,
    RSA_1_5,
    RSA_OAEP_MGF1P,
    RSA_SHA1,
    RSA_SHA256,
    SHA1,
    SHA256,
    AlgorithmSuite,
)

_DATA: Final = {"Basic128": AES128_CBC, "Basic256": AES256_CBC}
_DIGESTS: Final = {"": (RSA_SHA1, SHA1), "Sha256": (RSA_SHA256, SHA256)}
_TRANSPORTS: Final = {"": RSA_OAEP_MGF1P, "Rsa15": RSA_1_5}

SUITES: Final[Mapping[str, AlgorithmSuite]] = {
    f"{basic}{digest}{transport}": AlgorithmSuite(
        signatures=(signature_algorithm,),
        digests=(digest_algorithm,),
        data=(data,),
        key_transport=(transport_algorithm,),
    )
    for basic, data in _DATA.items()
    for digest, (signature_algorithm, digest_algorithm) in _DIGESTS.items()
    for transport, transport_algorithm in _TRANSPORTS.items()
}
"""Those of WS-SecurityPolicy, such as Basic256, Basic256Sha256 and Basic128Sha256Rsa15."""

GCM_SUITES: Final[Mapping[str, AlgorithmSuite]] = {
    name: AlgorithmSuite(signatures=(RSA_SHA1,), digests=(SHA1,), data=(data,), key_transport=(RSA_OAEP_MGF1P,))
    for name, data in {"Basic128GCM": AES128_GCM, "Basic256GCM": AES256_GCM}.items()
}

_BY_NAME: Final = {
    **{clark(namespace, name): suite for namespace in SECURITY_POLICIES for name, suite in SUITES.items()},
    **{clark(CXF_SUITES, name): suite for name, suite in GCM_SUITES.items()},
}
_HINT: Final = "supported are " + ", ".join([*SUITES, *GCM_SUITES])


def read_suite(assertion: Assertion, problems: PolicyProblems) -> AlgorithmSuite:
    """Return the suite of an AlgorithmSuite assertion."""
    problems.refuse_parameters(assertion)
    found: list[AlgorithmSuite] = []
    for nested in assertion.nested or ():
        problems.refuse_content(nested)
        if nested.name in _BY_NAME:
            found.append(_BY_NAME[nested.name])
        else:
            problems.refuse(nested, _HINT)
    if not assertion.nested or len(found) > 1:
        problems.add(f"{name_as_written(assertion.element)} does not name one suite", assertion.at, _HINT)
    return found[0] if found else AlgorithmSuite()
