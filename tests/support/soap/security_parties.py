"""Two parties that exchange secured envelopes: keys are made once for each run, never stored."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from lxml import etree

from demaq.soap.security import (
    ElementPath,
    MessageParts,
    OwnKey,
    Protection,
    SecurityRequirements,
    TrustStore,
    UserCredential,
    UserPasswords,
    Verification,
    VerifiedEnvelope,
    read_own_key,
    secure,
    verify,
)

NOW = datetime(2026, 5, 1, 12, 0, 0, 123456, UTC)
PASSWORD = "pass <&> wörd"
USER = UserCredential("ann", PASSWORD)
WSA = "http://www.w3.org/2005/08/addressing"
SOAP = {"1.1": "http://schemas.xmlsoap.org/soap/envelope/", "1.2": "http://www.w3.org/2003/05/soap-envelope"}
NAMESPACES = {
    "wsse": "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd",
    "wsu": "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd",
    "wsse11": "http://docs.oasis-open.org/wss/oasis-wss-wssecurity-secext-1.1.xsd",
    "ds": "http://www.w3.org/2000/09/xmldsig#",
    "xenc": "http://www.w3.org/2001/04/xmlenc#",
    "wsa": WSA,
    "s": SOAP["1.1"],
    "s12": SOAP["1.2"],
}
CARD = ElementPath(path="//o:card", namespaces=(("o", "urn:orders"),))
BODY_SIGNED = SecurityRequirements(
    timestamp=True, signed=MessageParts(body=True, timestamp=True, headers=(f"{{{WSA}}}*",))
)
FULL = SecurityRequirements(
    timestamp=True,
    signed=MessageParts(body=True, timestamp=True, headers=(f"{{{WSA}}}*",)),
    encrypted=MessageParts(body=True, headers=(f"{{{WSA}}}MessageID",)),
)


def make_envelope(version: str = "1.1", text: str = "17") -> bytes:
    return (
        f'<soapenv:Envelope xmlns:soapenv="{SOAP[version]}" xmlns:t="urn:types"><soapenv:Header>'
        f'<a:Action xmlns:a="{WSA}">urn:order</a:Action><a:MessageID xmlns:a="{WSA}">urn:1</a:MessageID>'
        '<x:trace xmlns:x="urn:trace">unsigned</x:trace></soapenv:Header>'
        '<soapenv:Body><order xmlns="urn:orders" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        f'xsi:type="t:order"><item no="1">{text}</item><card>4711 0815</card></order></soapenv:Body></soapenv:Envelope>'
    ).encode()


def canonical(data: bytes) -> bytes:
    """Return an envelope so that two with the same content are equal."""
    return etree.tostring(etree.fromstring(data), method="c14n", exclusive=True)


class MemoryReplayCache:
    """Remembers keys as long as they are wanted."""

    def __init__(self) -> None:
        self.keys: dict[str, datetime] = {}

    def remember(self, keys: Mapping[str, datetime]) -> bool:
        if not self.keys.keys().isdisjoint(keys):
            return False
        self.keys.update(keys)
        return True


def make_private_key(name: str, kind: str = "rsa2048") -> rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey:
    """Return the key of a name, the same in the whole run."""
    return _generate(name, kind)


@functools.cache
def _generate(name: str, kind: str) -> rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey:
    if kind.startswith("rsa"):
        return rsa.generate_private_key(65537, int(kind[3:]))
    return ec.generate_private_key({"ec256": ec.SECP256R1(), "ec192": ec.SECP192R1()}[kind])


def make_certificate(
    name: str,
    *,
    kind: str = "rsa2048",
    issuer: str | None = None,
    issuer_kind: str = "rsa2048",
    days: tuple[int, int] = (-10, 10),
    usage: Mapping[str, bool] | None = None,
    purposes: tuple[x509.ObjectIdentifier, ...] = (),
    ca: bool = False,
    path_length: int | None = None,
    extensions: tuple[tuple[x509.ExtensionType, bool], ...] = (),
    subject_key: bool = True,
) -> x509.Certificate:
    """Return a certificate, issued by itself or by another name."""
    key = make_private_key(name, kind)
    signer = make_private_key(issuer, issuer_kind) if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer or name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + timedelta(days=days[0]))
        .not_valid_after(NOW + timedelta(days=days[1]))
    )
    if ca:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
    if subject_key:
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    if usage is not None:
        builder = builder.add_extension(_usage(usage), critical=True)
    if purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(signer, hashes.SHA256())


def make_own_key(name: str, certificate: x509.Certificate, kind: str = "rsa2048") -> OwnKey:
    return read_own_key(private_pem(name, kind), certificate.public_bytes(serialization.Encoding.PEM))


def private_pem(name: str, kind: str = "rsa2048", password: bytes | None = None) -> bytes:
    protection = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return make_private_key(name, kind).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection
    )


@functools.cache
def client_certificate() -> x509.Certificate:
    return make_certificate("client")


@functools.cache
def service_certificate() -> x509.Certificate:
    return make_certificate("service")


@functools.cache
def client_key() -> OwnKey:
    return make_own_key("client", client_certificate())


@functools.cache
def service_key() -> OwnKey:
    return make_own_key("service", service_certificate())


def make_protection(requirements: SecurityRequirements, **changes) -> Protection:
    """Return what the client needs to send a request."""
    given = {"own_key": client_key(), "partner": service_certificate(), "credential": USER, **changes}
    return Protection(requirements=requirements, **given)


def make_verification(requirements: SecurityRequirements, **changes) -> Verification:
    """Return what the service needs to verify a request."""
    given = {
        "own_keys": (service_key(),),
        "trust": TrustStore(certificates=[client_certificate()]),
        "users": UserPasswords({USER.user: USER.password}),
        **changes,
    }
    return Verification(requirements=requirements, **given)


def send(requirements: SecurityRequirements, version: str = "1.1", envelope: bytes | None = None, **changes) -> bytes:
    """Return a request as the client sends it."""
    data = envelope if envelope is not None else make_envelope(version)
    return secure(data, make_protection(requirements, **changes), now=NOW, random=secrets.token_bytes).data


def receive(data: bytes, requirements: SecurityRequirements, *, now: datetime = NOW, **changes) -> VerifiedEnvelope:
    """Return what the service accepts."""
    replays = changes.pop("replays", None) or MemoryReplayCache()
    call = {name: changes.pop(name) for name in ("is_https", "request_signatures") if name in changes}
    verification = make_verification(requirements, **changes)
    return verify(data, verification, now=now, random=secrets.token_bytes, replays=replays, **call)


def _name(name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Test, Inc."),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _usage(usage: Mapping[str, bool]) -> x509.KeyUsage:
    names = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
        *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**{name: usage.get(name, False) for name in names})
