"""Clients that others wrote use a secured service of a running node: gSOAP, zeep, and the npm package soap.

Each signs, encrypts or names a user as far as it can, and checks the answers as far as it can.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
import xmlsec
import zeep
from cryptography.hazmat.primitives.serialization import Encoding
from zeep.wsse import utils
from zeep.wsse.signature import BinarySignature, MemorySignature
from zeep.wsse.username import UsernameToken

from tests.processes.gateways.test_reliable_service import seen, wsdl
from tests.processes.gateways.test_secured_service import PASSWORD, Party, error_kinds, service
from tests.support.soap.foreign_tools import node_modules
from tests.support.soap.gsoap_programs import GsoapClient, build_gsoap_client
from tests.support.soap.interoperable_policies import (
    ENCRYPTED_INCLUDED,
    ENCRYPTED_RSA_1_5,
    SIGNED_ADDRESSED,
    SIGNED_BODY_AND_TIME,
    SIGNED_NEVER_INCLUDED,
    USER_DIGEST,
    USER_TEXT,
    make_certificates,
)
from tests.support.soap.security_parties import private_pem

pytestmark = [pytest.mark.slow, pytest.mark.sampled]
SCRIPT = Path(__file__).parents[2] / "support" / "soap" / "node_security" / "client.js"
CLIENT = "CN=client,O=Test\\, Inc.,C=DE"
SOAPS = pytest.mark.parametrize("soap", ["1.1", "1.2"])


@contextmanager
def run_service(folder: Path, text: str, soap: str = "1.1") -> Iterator[Party]:
    """Run a secured service, with the files of its client beside it."""
    with service(folder, text, make_certificates(), soap) as party:
        (folder / "client.key").write_bytes(private_pem("client"))
        (folder / "stranger.key").write_bytes(private_pem("stranger"))
        (folder / "stranger.pem").write_bytes(party.certificates["stranger"].public_bytes(Encoding.PEM))
        yield party


def wait_for_order_and_note(party: Party, sender: str, orders: int, notes: list[str]) -> None:
    """Wait until the application has seen orders of a sender, and notes."""
    party.here.wait_for("remarks", orders + len(notes))
    assert sorted(seen(party.here)) == sorted([sender] * orders + notes)


# gSOAP


@pytest.fixture(scope="module")
def gsoap_client(tmp_path_factory: pytest.TempPathFactory) -> GsoapClient:
    return build_gsoap_client(tmp_path_factory.mktemp("gsoap"), wsdl("1.2"), "1.1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (USER_DIGEST, "user"),
        (USER_DIGEST, "soap12 user"),
        (USER_TEXT, "text"),
        (SIGNED_ADDRESSED, "sign"),
        (SIGNED_ADDRESSED, "soap12 sign"),
        (SIGNED_NEVER_INCLUDED, "sign known"),
        # With SOAP 1.2, gSOAP takes every padding of AES-CBC for text in the body (2.8.124).
        (ENCRYPTED_RSA_1_5, "sign encrypt issuer"),
        (ENCRYPTED_INCLUDED, "sign encrypt"),
    ],
)
def test_gsoap_uses_a_secured_service_and_accepts_its_answers(tmp_path, gsoap_client, text, words):
    with run_service(tmp_path, text, "1.2" if "soap12" in words else "1.1") as party:
        files = [tmp_path / name for name in ("client.key", "client.pem", "service.pem")]
        address = f"{party.here.address}/shop"
        lines = gsoap_client.run(address, f"{words} order", 3, files)
        assert [line for line in lines if line != "verified"] == ["answer 1 to 1", "answer 2 to 2", "answer 3 to 3"]
        assert lines.count("verified") == (3 if "sign" in words else 0)
        gsoap_client.run(address, f"{words} note", 2, files)
        wait_for_order_and_note(party, CLIENT if "sign" in words else "ann", 3, ["1", "2"])
        assert error_kinds(party.here) == []


def test_gsoap_is_refused_with_the_certificate_of_a_stranger_and_reads_why(tmp_path, gsoap_client):
    with run_service(tmp_path, SIGNED_ADDRESSED) as party:
        files = [tmp_path / name for name in ("stranger.key", "stranger.pem", "service.pem")]
        with pytest.raises(AssertionError, match="InvalidSecurityToken"):
            gsoap_client.run(f"{party.here.address}/shop", "sign order", 1, files)
        assert error_kinds(party.here) == ["invalidCertificate"]


# zeep


class TimedSignature(MemorySignature):
    """zeep's signature, over a timestamp as well; the answers are signed with the key of the partner, not with ours."""

    partner = b""

    def apply(self, envelope: Any, headers: Any) -> Any:
        add_timestamp(envelope)
        return super().apply(envelope, headers)

    def verify(self, envelope: Any) -> Any:
        MemorySignature(self.key_data, self.partner).verify(envelope)
        signed = envelope.xpath("//*[local-name()='Reference']/@URI")
        body = envelope.xpath("/*/*[local-name()='Body']/@*[local-name()='Id']")
        assert f"#{body[0]}" in signed
        return envelope


class TimedBinarySignature(TimedSignature):
    """The same with a BinarySecurityToken."""

    def apply(self, envelope: Any, headers: Any) -> Any:
        add_timestamp(envelope)
        return BinarySignature.apply(self, envelope, headers)  # type: ignore[arg-type]


def add_timestamp(envelope: Any) -> None:
    now = datetime.now(UTC)
    timestamp = utils.WSU.Timestamp()
    for made, time in ((utils.WSU.Created, now), (utils.WSU.Expires, now + timedelta(minutes=1))):
        timestamp.append(made(time.strftime("%Y-%m-%dT%H:%M:%SZ")))
    utils.get_security_header(envelope).append(timestamp)


def make_zeep(party: Party, folder: Path, kind: Any, **options: Any) -> Any:
    methods = {
        "signature_method": xmlsec.constants.TransformRsaSha256,
        "digest_method": xmlsec.constants.TransformSha256,
    }
    if issubclass(kind, MemorySignature):
        plugin = kind((folder / "client.key").read_bytes(), (folder / "client.pem").read_bytes(), **methods)
        plugin.partner = (folder / "service.pem").read_bytes()
    else:
        plugin = kind("ann", options.pop("password", PASSWORD), **options)
    session = requests.Session()
    session.trust_env = False
    return zeep.Client(f"{party.here.address}/shop?wsdl", wsse=plugin, transport=zeep.Transport(session=session))


@SOAPS
@pytest.mark.parametrize(
    ("text", "kind", "options"),
    [
        (USER_DIGEST, UsernameToken, {"use_digest": True}),
        (USER_TEXT, UsernameToken, {}),
    ],
    ids=["digest", "text"],
)
def test_zeep_uses_a_service_as_its_user(tmp_path, soap, text, kind, options):
    with run_service(tmp_path, text, soap) as party:
        client = make_zeep(party, tmp_path, kind, **options)
        assert [
            client.service.placeOrder(item="tea", pieces=number, _soapheaders={"customer": "c"}) for number in (1, 2)
        ] == [1, 2]
        client.service.remark("by zeep")
        wait_for_order_and_note(party, "ann", 2, ["by zeep"])
        stranger = make_zeep(party, tmp_path, kind, **options, password="wrong")
        with pytest.raises(zeep.exceptions.Fault, match="password"):
            stranger.service.remark("by a stranger")
        assert error_kinds(party.here) == ["authentication"]


@SOAPS
@pytest.mark.parametrize("kind", [TimedSignature, TimedBinarySignature])
def test_zeep_signs_requests_and_verifies_the_answers(tmp_path, soap, kind):
    with run_service(tmp_path, SIGNED_BODY_AND_TIME, soap) as party:
        client = make_zeep(party, tmp_path, kind)
        assert [client.service.placeOrder(item="tea", pieces=number) for number in (1, 2)] == [1, 2]
        wait_for_order_and_note(party, CLIENT, 2, [])
        client.wsse.partner = (tmp_path / "stranger.pem").read_bytes()
        with pytest.raises(zeep.exceptions.SignatureVerificationFailed):
            client.service.placeOrder(item="tea", pieces=3)


# node


@SOAPS
@pytest.mark.parametrize(("text", "mode"), [(USER_DIGEST, "user"), (USER_TEXT, "text"), (SIGNED_BODY_AND_TIME, "sign")])
def test_node_soap_uses_a_secured_service(tmp_path, soap, text, mode):
    modules = node_modules()
    with run_service(tmp_path, text, soap) as party:
        files = [str(tmp_path / name) for name in ("client.key", "client.pem", "service.pem")]
        done = subprocess.run(
            ["node", str(SCRIPT), str(modules), f"{party.here.address}/shop?wsdl", soap, mode, *files],
            env={**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "SHOP_PASSWORD": PASSWORD},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        *orders, note = [json.loads(line) for line in done.stdout.splitlines()]
        assert [order.get("result") for order in orders] == [{"number": number} for number in (1, 2, 3)], orders
        assert note.get("error") is None
        for order in orders if mode == "sign" else []:
            assert any([re.search(r":Body .*>\d<", signed) for signed in order["signed"]]), order
        wait_for_order_and_note(party, CLIENT if mode == "sign" else "ann", 3, ["by node"])
        assert error_kinds(party.here) == []
