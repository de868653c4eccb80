"""Keys for signatures, made anew for each run: one of the service, one of its only client."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from demaq.soap.security import OwnKey, read_own_key

KEY_BITS = 2048
VALID = timedelta(days=2)
SETTINGS = """
[node]
security_key = "service.key"
security_certificate = "service.pem"
security_trusted = ["client.pem"]
"""


def make_keys(folder: Path) -> tuple[Path, OwnKey]:
    """Write the files of a service. Return its settings, and the key that it trusts."""
    key, certificate = _make_pair("service")
    (folder / "service.key").touch(mode=0o600)
    (folder / "service.key").write_bytes(key)
    (folder / "service.pem").write_bytes(certificate)
    key, certificate = _make_pair("client")
    (folder / "client.pem").write_bytes(certificate)
    settings = folder / "settings.toml"
    settings.write_text(SETTINGS, encoding="utf-8")
    return settings, read_own_key(key, certificate)


def _make_pair(name: str) -> tuple[bytes, bytes]:
    """Return a key and a certificate that it has issued itself, as PEM."""
    key = rsa.generate_private_key(65537, KEY_BITS)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, certificate.public_bytes(encoding)
