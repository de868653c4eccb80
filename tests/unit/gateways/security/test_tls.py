"""TLS in both directions, and what is reported about files that do not serve."""

from __future__ import annotations

import shutil
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from demaq.errors import OperatorError
from demaq.gateways.security.certificate_dates import certificates_in, validity
from demaq.gateways.security.client_certificates import PeerCertificate
from demaq.gateways.security.secrets import Secret
from demaq.gateways.security.tls import OwnCertificate, Renewal, client_context, server_context

KEY_PASSWORD = "hunter2hunter2"


class Files:
    """An authority with a server and a client, as PEM files."""

    def __init__(self, folder: Path) -> None:
        authority, self.stranger = trustme.CA(), trustme.CA()
        self.folder = folder
        self.ca = folder / "ca.pem"
        authority.cert_pem.write_to_path(self.ca)
        self.server = self.write(authority.issue_cert("localhost"), "server")
        self.client = self.write(authority.issue_cert("shop.example.org", common_name="shop"), "client")
        self.strange_client = self.write(self.stranger.issue_cert("shop.example.org"), "strange")
        self.expired = self.write(
            authority.issue_cert(
                "localhost",
                not_before=datetime(2020, 1, 1, tzinfo=UTC),
                not_after=datetime(2021, 1, 1, tzinfo=UTC),
            ),
            "expired",
        )

    def write(self, issued: trustme.LeafCert, name: str) -> OwnCertificate:
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_bytes(b"".join([part.bytes() for part in issued.cert_chain_pems]))
        key.touch(mode=0o600)
        key.write_bytes(issued.private_key_pem.bytes())
        return OwnCertificate(certificate=certificate, key=key)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Connect both in memory. Return the client's end and the server's."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[0], ends[1]


def test_a_client_believes_the_authority_it_is_given(files: Files):
    server = server_context(files.server)

    assert shake_hands(server, client_context(ca=files.ca))[1].version() in ("TLSv1.2", "TLSv1.3")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, client_context())


def test_the_authorities_of_the_system_are_believed_unless_they_are_not_asked_for(files: Files):
    assert len(client_context(ca=files.ca, ca_only=True).get_ca_certs()) == 1
    assert len(client_context(ca=files.ca).get_ca_certs()) == len(client_context().get_ca_certs()) + 1


@pytest.mark.parametrize("must", [False, True])
def test_a_client_that_shows_a_certificate_is_known_by_it(files: Files, must: bool):
    server = server_context(files.server, files.ca, clients_must=must)
    _, end = shake_hands(server, client_context(ca=files.ca, own=files.client))

    assert PeerCertificate.of(end.getpeercert()) == PeerCertificate(("shop", "shop.example.org"))


def test_a_client_without_a_certificate_is_anonymous_or_refused(files: Files):
    client = client_context(ca=files.ca)

    _, end = shake_hands(server_context(files.server, files.ca), client)
    assert PeerCertificate.of(end.getpeercert()) is None
    with pytest.raises(ssl.SSLError):
        shake_hands(server_context(files.server, files.ca, clients_must=True), client)


def test_a_certificate_of_another_authority_is_refused(files: Files):
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server_context(files.server, files.ca), client_context(ca=files.ca, own=files.strange_client))


def test_old_versions_of_tls_are_not_spoken(files: Files):
    for context in (server_context(files.server), client_context()):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert client_context().check_hostname
    assert client_context().verify_mode == ssl.CERT_REQUIRED


def test_a_renewed_certificate_is_shown_and_one_that_does_not_serve_is_not(
    files: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    def put(own: OwnCertificate, key: OwnCertificate) -> None:
        for source, name in ((own.certificate, "node.pem"), (key.key, "node.key")):
            assert source is not None
            shutil.copy(source, tmp_path / f"new {name}")
            (tmp_path / f"new {name}").replace(tmp_path / name)

    def shown() -> bytes | None:
        return shake_hands(server, client)[0].getpeercert(binary_form=True)

    def certificate(own: OwnCertificate) -> bytes:
        return certificates_in(own.certificate.read_text())[0]

    put(files.server, files.server)
    own = OwnCertificate(certificate=tmp_path / "node.pem", key=tmp_path / "node.key")
    server, client = server_context(own), client_context(ca=files.ca)
    client.check_hostname = False
    renewal = Renewal(server, own)

    put(files.client, files.client)
    renewal.renew()
    assert shown() == certificate(files.client)
    put(files.server, files.client)  # a certificate with the key of another
    renewal.renew()
    renewal.renew()
    assert shown() == certificate(files.client)
    assert len(caplog.records) == 1
    put(files.server, files.server)
    renewal.renew()
    assert shown() == certificate(files.server)


# --- files that do not serve -----------------------------------------------------------------------------------------


def refusal(own: OwnCertificate, **more: object) -> str:
    with pytest.raises(OperatorError) as error:
        server_context(own, **more)  # type: ignore[arg-type]  # passed on
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_file_that_is_missing_is_one_line(files: Files):
    missing = files.folder / "missing.pem"

    assert refusal(OwnCertificate(certificate=missing)) == f"{missing}: No such file or directory"
    assert refusal(OwnCertificate(certificate=files.server.certificate, key=missing)) == (
        f"{missing}: No such file or directory"
    )
    assert refusal(files.server, client_ca=missing) == f"{missing}: No such file or directory"


def test_a_file_with_something_else_in_it_is_one_line(files: Files):
    assert files.server.key is not None
    assert "there is no certificate in it" in refusal(OwnCertificate(certificate=files.server.key))
    assert "there is no key in it" in refusal(OwnCertificate(certificate=files.server.certificate))
    assert "there is no certificate in it" in refusal(files.server, client_ca=files.server.key)


def test_the_key_of_another_certificate_is_one_line(files: Files):
    mixed = OwnCertificate(certificate=files.server.certificate, key=files.client.key)

    assert refusal(mixed) == f"{mixed.key}: this is not the key of the certificate in {mixed.certificate}"


def test_an_expired_certificate_is_one_line_with_its_date(files: Files):
    assert refusal(files.expired) == (
        f"{files.expired.certificate}: the certificate has expired on 2021-01-01 00:00:00 UTC"
    )
    assert "is not valid before" in refusal(files.expired, now=datetime(2019, 1, 1, tzinfo=UTC))
    server_context(files.expired, now=datetime(2020, 6, 1, tzinfo=UTC))


def test_a_key_that_others_may_read_is_refused_with_the_way_forward(files: Files, tmp_path: Path):
    key = tmp_path / "open key.pem"
    assert files.server.key is not None
    key.write_bytes(files.server.key.read_bytes())
    key.chmod(0o644)

    said = refusal(OwnCertificate(certificate=files.server.certificate, key=key))
    assert said == f"{key}: others may read or change it; chmod 600 '{key}'"


def test_an_encrypted_key_needs_its_password_and_no_prompt_asks_for_it(files: Files, tmp_path: Path):
    assert files.server.key is not None
    key = tmp_path / "encrypted.key"
    key.touch(mode=0o600)
    loaded = load_pem_private_key(files.server.key.read_bytes(), None)
    encryption = BestAvailableEncryption(KEY_PASSWORD.encode())
    key.write_bytes(loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))

    def own(password: Secret | None) -> OwnCertificate:
        return OwnCertificate(certificate=files.server.certificate, key=key, key_password=password)

    server_context(own(Secret(KEY_PASSWORD)))
    assert refusal(own(None)) == f"{key}: the key is encrypted; say where its password is with key_password"
    assert refusal(own(Secret("wrong"))) == f"{key}: the key cannot be read; perhaps its password is another one"


def test_a_certificate_that_is_cut_off_is_one_line(files: Files, tmp_path: Path):
    cut = tmp_path / "cut.pem"
    lines = files.server.certificate.read_text().splitlines()
    cut.write_text("\n".join([lines[0], lines[1], "-----END CERTIFICATE-----"]))

    assert "cannot be read" in refusal(OwnCertificate(certificate=cut, key=files.server.key))
    assert "cannot be read" in refusal(files.server, client_ca=cut)


def test_the_dates_of_a_certificate_are_those_that_others_read(files: Files):
    from cryptography import x509

    for path in (files.ca, files.server.certificate, files.expired.certificate):
        for der in certificates_in(path.read_text()):
            known = x509.load_der_x509_certificate(der)
            assert validity(der) == (known.not_valid_before_utc, known.not_valid_after_utc)
    assert validity(b"") is validity(b"\x30\x82") is validity(b"\x30\x03\x02\x01") is None


def test_dates_beyond_2049_are_read(files: Files):
    far = datetime.now(UTC).replace(microsecond=0) + timedelta(days=365 * 60)
    issued = files.stranger.issue_cert("localhost", not_after=far)

    dates = validity(certificates_in(issued.cert_chain_pems[0].bytes().decode())[0])
    assert dates is not None
    assert dates[1] == far
