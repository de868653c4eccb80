"""Who a client certificate is about. Whether it is genuine, TLS has checked before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NAME_KINDS = ("DNS", "email", "URI", "IP Address")


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """The names in the certificate of the other side, its common name first."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, certificate: Mapping[str, Any] | None) -> PeerCertificate | None:
        """Return the names in the result of `getpeercert()`; None if the peer has no certificate."""
        if not certificate:
            return None
        found = [
            value for attributes in certificate.get("subject", ()) for kind, value in attributes if kind == "commonName"
        ]
        found += [value for kind, value in certificate.get("subjectAltName", ()) if kind in _NAME_KINDS]
        if not found:
            found = [f"serial {certificate.get('serialNumber', 'unknown')}"]
        return cls(tuple(dict.fromkeys([str(name) for name in found])))
