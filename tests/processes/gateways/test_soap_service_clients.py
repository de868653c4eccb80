"""Clients that others wrote use one shop, whose WSDL imports others: zeep, gSOAP, the npm package soap, and curl.

Each reads the WSDL, and all that it is made of, from the node; places orders in both versions of SOAP; and reads the
faults that the WSDL declares, and those for requests that are wrong.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import zeep

from demaq.documents import parse_document
from demaq.gateways.settings import IncomingSettings, Settings
from demaq.soap import Fault, read_fault, write_envelope
from tests.support.gateways.nodes import Running, running, wait_until
from tests.support.soap.foreign_tools import gsoap, needed, node_modules

pytestmark = pytest.mark.slow

SHOP = Path(__file__).parents[2] / "support" / "soap" / "shop"
PATHS = {"1.1": "/orders", "1.2": "/v2/orders"}
PORTS = {"1.1": "Shop11", "1.2": "Shop12"}
TYPES = {"1.1": "text/xml; charset=utf-8", "1.2": "application/soap+xml; charset=utf-8"}
SENDER = {"1.1": "Client", "1.2": "Sender"}
WRONG = "'-3' is not a valid value of the atomic type 'xs:positiveInteger'"
VERSIONS = ["1.1", "1.2"]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("clients")
    shutil.copytree(SHOP, folder, dirs_exist_ok=True)
    settings = Settings(incoming_default=IncomingSettings(reply_seconds_max=20))
    with running(folder, (folder / "shop.dmq").read_text(), settings) as found:
        yield found


def wait_for_remark(here: Running, text: str) -> None:
    """Wait until it is there: it has no response, so its rule may still have to run."""
    wait_until(lambda: any([text in body for body in here.bodies("remarks")]))


# zeep


@pytest.mark.parametrize("version", VERSIONS)
def test_zeep_uses_the_shop(here: Running, version: str):
    with requests.Session() as session:
        session.trust_env = False
        client = zeep.Client(f"{here.address}{PATHS[version]}?wsdl", transport=zeep.Transport(session=session))
        [service] = client.wsdl.services.values()
        assert list(service.ports) == ["Shop11", "Shop12"]
        shop = client.bind("ShopService", PORTS[version])
        found = shop.placeOrder(item="tea", pieces=3)
        assert (str(found.price.amount), found.price.currency) == ("7.5", "EUR")
        faults = [_zeep_fault(shop, *order) for order in (("gold", 1), ("silver", 1), ("tea", -3))]
        assert [fault.message for fault in faults[:2]] == ["soldOut", "unknownItem"]
        sold_out = faults[0].detail[0]
        assert [sold_out.tag, *sold_out.itertext()] == ["{urn:example:shop}soldOut", "gold", "99.9"]
        assert WRONG in faults[2].message
        assert faults[2].code.endswith(f":{SENDER[version]}")
        shop.remark(text=f"by zeep in {version}")
    wait_for_remark(here, f"by zeep in {version}")


def _zeep_fault(shop: Any, item: str, pieces: int) -> Any:
    with pytest.raises(zeep.exceptions.Fault) as caught:
        shop.placeOrder(item=item, pieces=pieces)
    return caught.value


# gSOAP


@pytest.fixture(scope="module")
def gsoap_client(here: Running, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that gSOAP has made from the WSDL of the node."""
    usr = gsoap()
    folder = tmp_path_factory.mktemp("gsoap")
    [library] = usr.glob("lib/*/libgsoap.a")
    share = usr / "share" / "gsoap"
    shutil.copy(SHOP / "client.c", folder)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    for command in (
        [str(usr / "bin/wsdl2h"), "-c", "-o", "shop.h", f"{here.address}/orders?wsdl"],
        [str(usr / "bin/soapcpp2"), "-C", "-c", "-x", "-L", f"-I{share / 'import'}", f"-I{share}", "shop.h"],
        ["gcc", "-w", f"-I{usr / 'include'}", "-o", "client", "client.c", "soapC.c", "soapClient.c", str(library)],
    ):
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "client"


@pytest.mark.parametrize("version", VERSIONS)
def test_gsoap_uses_the_shop(here: Running, gsoap_client: Path, version: str):
    def call(*words: str) -> str:
        address = here.address + PATHS[version]
        done = subprocess.run(
            [gsoap_client, address, version, *words], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    assert call("tea", "3") == "confirmed: 7.5 EUR"
    assert call("gold", "1") == "sold out: gold, 99.9 EUR"
    assert call("silver", "1") == "unknown item: silver"
    wrong = call("tea", "-3")
    assert wrong.startswith(f"fault SOAP-ENV:{SENDER[version]}: ")
    assert WRONG in wrong
    assert call("", "", f"by gSOAP in {version}") == "said"
    wait_for_remark(here, f"by gSOAP in {version}")


# node


@pytest.mark.parametrize("version", VERSIONS)
def test_node_soap_uses_the_shop(here: Running, version: str):
    modules = node_modules()
    wsdl = f"{here.address}{PATHS[version]}?wsdl"
    done = subprocess.run(
        ["node", str(SHOP / "client.js"), str(modules), wsdl, PORTS[version]],
        env={**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ports, tea, gold, silver, wrong, remark = [json.loads(line) for line in done.stdout.splitlines()]
    assert ports == ["Shop11", "Shop12"]
    assert tea["result"]["price"] == {"attributes": {"currency": "EUR"}, "amount": "7.5"}
    detail = "detail" if version == "1.1" else "Detail"
    assert gold["fault"][detail]["soldOut"]["lastPrice"]["amount"] == "99.9"
    assert silver["fault"][detail]["unknownItem"] == {"attributes": {"xml:lang": "en"}, "item": "silver"}
    assert WRONG in wrong["error"]
    assert [each["status"] for each in (gold, silver, wrong)] == [500, 500, 500 if version == "1.1" else 400]
    assert "error" not in remark
    wait_for_remark(here, f"by node at {PORTS[version]}")


# curl


def curl(here: Running, version: str, body: bytes, kind: str | None = None) -> tuple[int, str, bytes]:
    """Return status, content type and body of the answer."""
    needed("curl")
    shown = ["-s", "--noproxy", "*", "--max-time", "30", "-w", "\n%{http_code} %{content_type}"]
    sent = ["-H", f"Content-Type: {kind or TYPES[version]}", "--data-binary", "@-"]
    done = subprocess.run(
        ["curl", *shown, *sent, here.address + PATHS[version]],
        input=body,
        capture_output=True,
        check=True,
    )
    content, _, last = done.stdout.rpartition(b"\n")
    status, _, found = last.decode().partition(" ")
    return int(status), found, content


def fault_of(content: bytes) -> Fault:
    fault = read_fault(parse_document(content).tree)
    assert fault is not None, content
    return fault


def order(item: str, pieces: str) -> str:
    return f'<order xmlns="urn:example:shop"><item>{item}</item><pieces>{pieces}</pieces></order>'


@pytest.mark.parametrize("version", VERSIONS)
def test_curl_sees_the_statuses_of_soap(here: Running, version: str):
    sender = 500 if version == "1.1" else 400
    status, kind, content = curl(here, version, write_envelope(version, order("tea", "3")))
    assert (status, kind) == (200, TYPES[version])
    assert b"7.5" in content
    for body, code, expected in [
        (write_envelope(version, order("gold", "1")), "Server", 500),
        (write_envelope(version, order("tea", "-3")), "Client", sender),
        (write_envelope(version, "<other/>"), "Client", sender),
        (b"<not well-formed", "Client", sender),
        (b"", "Client", sender),
        (b'<E:Envelope xmlns:E="urn:soap-9"><E:Body/></E:Envelope>', "VersionMismatch", 500),
        (
            write_envelope(version, order("tea", "3"), ['<x:y xmlns:x="urn:x" soapenv:mustUnderstand="1"/>']),
            "MustUnderstand",
            500,
        ),
    ]:
        status, kind, content = curl(here, version, body)
        fault = fault_of(content)
        assert (status, kind, fault.version, fault.code) == (expected, TYPES[version], version, code)
    status, _, content = curl(here, version, b"<x/>", kind="text/plain")
    assert (status, b"Fault" in content) == (415, False)


def test_curl_finds_no_port_that_is_served_elsewhere(here: Running):
    needed("curl")
    command = ["curl", "-s", "--noproxy", "*", "--max-time", "30", f"{here.address}/orders?wsdl"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f'location="{here.address}/orders"' in text
    assert f'location="{here.address}/v2/orders"' in text
    assert "shop.example" not in text
    assert "Elsewhere" not in text
