"""Tools of other projects read a published WSDL with policies: zeep calls it, gSOAP generates code for what it asks."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import zeep

from demaq.soap import Interface, read_interface
from demaq.soap.policy import collect_port_policies
from tests.support.soap import wsdls
from tests.support.soap.foreign_tools import gsoap
from tests.support.soap.policies import CXF, WCF_RELIABLE, WCF_TRANSPORT
from tests.support.soap.published_files import fetch_all, save_all
from tests.support.soap.wsdls import HEAD, MESSAGES, PORT_TYPE, TAIL, TYPES

pytestmark = pytest.mark.slow
SECURITY, RELIABILITY = "WS-Security", "WS-ReliableMessaging"
CODE_SECONDS_MAX = 60
SHAPES = {
    "SOAP 1.1": {"shop.wsdl": wsdls.document_wsdl()},
    "SOAP 1.2": {"shop.wsdl": wsdls.document_wsdl("1.2")},
    "rpc": {"shop.wsdl": wsdls.RPC},
    "abstract": {"shop.wsdl": HEAD + wsdls.types(TYPES) + MESSAGES + PORT_TYPE + TAIL},
    "binding apart": {
        "shop.wsdl": HEAD
        + '<wsdl:import namespace="urn:shop" location="apart.wsdl"/>'
        + wsdls.service(wsdls.port())
        + TAIL,
        "apart.wsdl": HEAD + wsdls.types(TYPES) + MESSAGES + PORT_TYPE + wsdls.binding() + TAIL,
    },
}


def publish(folder: Path, shape: str, using: Mapping[str, str | None]) -> Path:
    """Return the WSDL that a client of a gateway with these policies has got."""
    for name, text in SHAPES[shape].items():
        (folder / name).write_text(text)
    paths: dict[str, Path | None] = {}
    for name, policy in using.items():
        paths[name] = folder / f"{name}.xml" if policy is not None else None
        if policy is not None:
            (folder / f"{name}.xml").write_text(policy)
    interface: Interface = read_interface(folder / "shop.wsdl")
    got = folder / "got"
    got.mkdir()
    return save_all(fetch_all(interface.with_policies(collect_port_policies(paths, folder / "shop.wsdl"))), got)


@pytest.mark.parametrize("shape", SHAPES)
def test_zeep_reads_a_wsdl_with_policies(tmp_path, shape):
    path = publish(tmp_path, shape, {SECURITY: CXF, RELIABILITY: None})
    client = zeep.Client(str(path))
    if shape == "rpc":
        message = client.create_message(client.service, "price", item={"name": "tea"}, pieces=3)
    else:
        message = client.create_message(client.service, "placeOrder", item="tea", pieces=3)
    assert message.find(".//{*}pieces").text == "3"


@pytest.mark.parametrize("shape", SHAPES)
def test_gsoap_generates_code_for_what_the_policies_ask(tmp_path, shape):
    code = generate_code(publish(tmp_path, shape, {SECURITY: CXF, RELIABILITY: WCF_RELIABLE}))
    for words in (
        "WS-Policy applicable to the service endpoint ports",
        "Asymmetric Binding (public key) requirements",
        "Signed Parts requirements",
        "Encrypted Parts requirements",
        "WS-Addressing is used",
        "WS-ReliableMessaging is used",
    ):
        assert words in code
    imported = [line for line in code.splitlines() if line.startswith("#import")]
    assert {'#import "wsse.h"', '#import "wsrm5.h"'} <= set(imported)


def test_gsoap_finds_a_user_over_https_and_the_usual_reliability(tmp_path):
    code = generate_code(publish(tmp_path, "SOAP 1.1", {SECURITY: WCF_TRANSPORT, RELIABILITY: None}))
    assert "Transport Binding" in code
    assert "UsernameToken" in code
    assert "wsrmp:RMAssertion" in code  # it has another namespace for the assertion of 1.1, so it prints it as it is


def generate_code(wsdl: Path) -> str:
    usr = gsoap()
    [library] = usr.glob("lib/*/libgsoap.a")
    command = [usr / "bin/wsdl2h", "-o", "code.h", "-t", usr / "share/gsoap/WS/typemap.dat", wsdl.name]
    done = subprocess.run(
        [str(word) for word in command],
        cwd=wsdl.parent,
        env={"LD_LIBRARY_PATH": str(library.parent)},
        capture_output=True,
        text=True,
        timeout=CODE_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    return (wsdl.parent / "code.h").read_text()
