"""The procurement scenario with the supplier on a second node: each customer gets one answer, and the right one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lxml import etree

from tests.support.gateways.client import Client
from tests.support.gateways.nodes import wait_until
from tests.support.gateways.peers import other_side
from tests.support.gateways.processes import GatewayNode, free_ports, killed_at_the_end

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[3] / "examples"
REQUESTS = 24
TOO_MUCH_KILOGRAMS = 600
"""More than the plant of the example makes in a week."""


def request(number: int) -> tuple[str, str]:
    """A request, and the kind of answer it ends in."""
    name, kilograms, answer = "acetone", 100, "offer"
    if number % 4 == 1:
        kilograms, answer = TOO_MUCH_KILOGRAMS, "refusal"  # the supplier says no
    elif number % 4 == 2:
        name, answer = "thionyl chloride", "refusal"  # it is restricted
    items = f'<items><item name="{name}" kilograms="{kilograms}"/></items>'
    body = f"<offerRequest><requestID>r-{number}</requestID><customerID>c-{number}</customerID>{items}</offerRequest>"
    return body, answer


def test_each_customer_gets_one_answer_and_the_right_one(tmp_path: Path):
    with other_side() as customer:
        chemicals_port, supplier_port = free_ports(2)
        shutil.copytree(EXAMPLES / "two-nodes", tmp_path / "apps")
        for file in (tmp_path / "apps").rglob("*.dmq"):
            text = file.read_text(encoding="utf-8")
            text = text.replace("127.0.0.1:8081", f"127.0.0.1:{chemicals_port}")
            text = text.replace("127.0.0.1:8082", f"127.0.0.1:{supplier_port}")
            file.write_text(text.replace("http://127.0.0.1:8083", customer.address), encoding="utf-8")
        (tmp_path / "one").mkdir()
        (tmp_path / "two").mkdir()
        chemicals = GatewayNode(tmp_path / "one", tmp_path / "apps" / "chemicals", chemicals_port)
        supplier = GatewayNode(tmp_path / "two", tmp_path / "apps" / "supplier", supplier_port)
        with killed_at_the_end(chemicals, supplier):
            here = chemicals.start()
            for collection in ("crm", "legal"):
                files = sorted((EXAMPLES / "procurement" / "collections" / collection).iterdir())
                here.remote.load_collection(collection, [file.read_bytes() for file in files])
            expected = {}
            for number in range(REQUESTS):
                if number == REQUESTS // 2:  # half of them wait until there is a node that can be asked
                    plant = tmp_path / "apps" / "supplier" / "collections" / "plant" / "plant.xml"
                    supplier.start().remote.load_collection("plant", [plant.read_bytes()])
                body, expected[f"r-{number}"] = request(number)
                answer = Client(chemicals.address).post("/requests", body)
                assert answer.status_code == 202
            wait_until(lambda: len(customer.got) >= REQUESTS)

        answers = [etree.fromstring(body) for body in customer.bodies()]
        assert sorted([str(answer.findtext("requestID")) for answer in answers]) == sorted(expected)
        assert {answer.findtext("requestID"): answer.tag for answer in answers} == expected
        assert chemicals.stored("operators") == []
        assert supplier.stored("complaints") == []
        asked = supplier.stored("capacity")
        assert [m.properties["Sender"].text for m in asked] == ["http://ws.chem.invalid/"] * REQUESTS
