"""Make a key and a certificate for each of the two nodes, in the folder `keys` beside this file.

Run it with the Python of the project: .venv/bin/python make_keys.py. What is there already is kept.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

VALID = timedelta(days=365)


def make_pair(folder: Path, name: str) -> None:
    """Write NAME.key, which only its owner may read, and NAME.pem."""
    key_file, certificate_file = folder / f"{name}.key", folder / f"{name}.pem"
    if key_file.exists() and certificate_file.exists():
        return
    key = rsa.generate_private_key(public_exponent=65537, key_size=3072)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    key_file.touch(mode=0o600)
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "keys"
    target.mkdir(mode=0o700, exist_ok=True)
    for party in ("buyer", "supplier"):
        make_pair(target, party)
    print(f"keys and certificates are in {target}")
