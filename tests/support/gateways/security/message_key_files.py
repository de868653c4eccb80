"""The files of keys, certificates and users of a client and a service, and the settings that name them."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from demaq.gateways.security.secrets import Secret
from demaq.gateways.settings import MessageSecuritySettings
from tests.support.soap.security_parties import NOW, make_certificate, private_pem

USER, PASSWORD = "ann", "hunter2:hunter2 wörd"


class WallClock:
    """A time of day that a test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def go_on(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class MessageKeyFiles:
    """Writes the files of both sides into one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificates = {name: self.write_pair(name) for name in ("client", "service")}
        self.users = self.write_private("users", f"# who may send\n\n{USER}:{PASSWORD}\n".encode())

    def write_pair(
        self, name: str, *, of: str | None = None, kind: str = "rsa2048", password: bytes | None = None, **certificate
    ) -> x509.Certificate:
        """Write NAME.key and NAME.pem, of another party if `of` says so. Return the certificate."""
        made = make_certificate(of or name, kind=kind, **certificate)
        self.write_private(f"{name}.key", private_pem(of or name, kind, password))
        self.write_certificates(f"{name}.pem", made)
        return made

    def write_private(self, name: str, data: bytes, mode: int = 0o600) -> Path:
        path = self.folder / name
        path.touch(mode=0o600)
        path.chmod(0o600)
        path.write_bytes(data)
        path.chmod(mode)
        return path

    def write_certificates(self, name: str, *certificates: x509.Certificate) -> Path:
        path = self.folder / name
        path.write_bytes(b"".join([certificate.public_bytes(Encoding.PEM) for certificate in certificates]))
        return path

    def service(self, **changes) -> MessageSecuritySettings:
        """Return the settings of the service, which trusts the client."""
        given = {
            "key": self.folder / "service.key",
            "certificate": self.folder / "service.pem",
            "trusted": (self.folder / "client.pem",),
            "users": self.users,
        }
        return MessageSecuritySettings(**{**given, **changes})

    def client(self, **changes) -> MessageSecuritySettings:
        """Return the settings of the client, which trusts the service and encrypts for it."""
        given = {
            "key": self.folder / "client.key",
            "certificate": self.folder / "client.pem",
            "trusted": (self.folder / "service.pem",),
            "partner": self.folder / "service.pem",
            "user": USER,
            "password": Secret(PASSWORD),
        }
        return MessageSecuritySettings(**{**given, **changes})
