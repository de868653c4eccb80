"""Reading WSDL files: which port, which operations, and what is refused with which words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from demaq.errors import MessageError, ProgramError
from demaq.soap import read_interface
from tests.support.drawing import example_count
from tests.support.soap import wsdls
from tests.support.soap.wsdls import HEAD, MESSAGES, PORT_TYPE, TAIL, TYPES, interface_of

PROJECT = Path(__file__).parents[3]
ORDER = "{urn:orders}order"
DAMAGED = example_count(300, "DAMAGED_WSDLS")


def refusal(folder: Path, text: str, port: str | None = None, files: dict[str, str] | None = None) -> ProgramError:
    with pytest.raises(ProgramError) as caught:
        interface_of(folder, text, port, files)
    return caught.value


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_port_says_version_address_and_operations(tmp_path, version):
    interface = interface_of(tmp_path, wsdls.document_wsdl(version))
    assert (interface.service, interface.port, interface.namespace) == ("Shop", "OrdersPort", "urn:shop")
    assert (interface.version, interface.address) == (version, "http://shop.invalid/OrdersPort")
    place, remark, ping = interface.operations
    assert (place.name, place.action, place.style) == ("placeOrder", "urn:shop/placeOrder", "document")
    assert place.input.element == ORDER
    assert place.output is not None
    assert place.output.element == "{urn:orders}confirmation"
    assert place.faults == {"SoldOut": "{urn:orders}soldOut"}
    assert place.headers == ("{urn:orders}customer",)
    assert remark.is_one_way
    assert ping.input.is_empty
    assert ping.output is not None
    assert ping.output.is_empty


def test_the_example_can_be_read():
    interface = read_interface(PROJECT / "examples/procurement/supplier.wsdl", "CapacityRequestPort")
    assert interface.operation_of_message("requestCapacityInfo").name == "requestCapacity"


def test_an_element_without_prefix_is_in_no_namespace_where_the_default_is_that_of_wsdl(tmp_path):
    text = """<definitions xmlns="http://schemas.xmlsoap.org/wsdl/" xmlns:t="urn:t" targetNamespace="urn:t">
      <types><schema xmlns="http://www.w3.org/2001/XMLSchema"><element name="ask" type="string"/></schema></types>
      <message name="Ask"><part name="body" element="ask"/></message>
      <portType name="P"><operation name="ask"><input message="Ask"/></operation></portType></definitions>"""
    assert interface_of(tmp_path, text).operation("ask").name == "ask"


def test_operations_are_found_by_the_element_in_the_body(tmp_path):
    interface = interface_of(tmp_path, wsdls.document_wsdl())
    assert interface.operation(ORDER).name == "placeOrder"
    assert interface.operation(ORDER, "urn:shop/remark").name == "placeOrder"
    assert interface.operation(None).name == "ping"
    assert interface.operation_of_message("{urn:shop}ping").name == "ping"


def test_a_body_of_no_operation_is_refused_and_the_known_ones_are_named(tmp_path):
    interface = interface_of(tmp_path, wsdls.document_wsdl())
    with pytest.raises(MessageError, match=r"no operation for a Body with \{urn:x\}y; it has placeOrder") as caught:
        interface.operation("{urn:x}y")
    assert caught.value.kind == "schemaViolation"
    with pytest.raises(MessageError, match="no operation for"):
        interface.operation("{urn:shop}ping")  # it only stands for an empty Body


def test_the_action_decides_between_operations_of_one_element(tmp_path):
    text = wsdls.document_wsdl().replace('message="t:Note"', 'message="t:Order"')
    interface = interface_of(tmp_path, text)
    assert interface.operation(ORDER, "urn:shop/placeOrder").name == "placeOrder"
    assert interface.operation(ORDER, "urn:shop/remark").name == "remark"
    with pytest.raises(MessageError, match="may be placeOrder, remark; the action has to say which"):
        interface.operation(ORDER, "urn:other")


def test_several_ports_need_a_name(tmp_path):
    error = refusal(tmp_path, wsdls.BOTH_VERSIONS)
    assert (error.code, error.message, error.hint) == (
        "DQ0604",
        "shop.wsdl has several ports: say which",
        "it has PortOne, PortTwo",
    )
    assert interface_of(tmp_path, wsdls.BOTH_VERSIONS, "PortOne").version == "1.1"
    assert interface_of(tmp_path, wsdls.BOTH_VERSIONS, "PortTwo").version == "1.2"


def test_a_port_that_does_not_speak_soap_does_not_count(tmp_path):
    other = '<wsdl:binding name="Get" type="t:Orders"/>'
    ports = wsdls.service(wsdls.port(), '<wsdl:port name="GetPort" binding="t:Get"/>')
    text = HEAD + wsdls.types(TYPES) + MESSAGES + PORT_TYPE + wsdls.binding() + other + ports + TAIL
    assert interface_of(tmp_path, text).port == "OrdersPort"
    assert "is not for SOAP" in refusal(tmp_path, text, "GetPort").message


def test_ports_of_several_services_are_found_by_name(tmp_path):
    services = wsdls.service(wsdls.port("A"), name="First") + wsdls.service(wsdls.port("B"), name="Second")
    text = HEAD + wsdls.types(TYPES) + MESSAGES + PORT_TYPE + wsdls.binding() + services + TAIL
    assert interface_of(tmp_path, text, "B").service == "Second"
    assert refusal(tmp_path, text, "C").hint == "it has A, B"


def test_without_a_service_a_port_type_is_taken_for_a_port(tmp_path):
    text = HEAD + wsdls.types(TYPES) + MESSAGES + PORT_TYPE + TAIL
    interface = interface_of(tmp_path, text, "Orders")
    assert (interface.version, interface.address, interface.service) == ("1.1", None, None)
    assert [operation.style for operation in interface.operations] == ["document"] * 3
    assert interface_of(tmp_path, text).port == "Orders"
    assert refusal(tmp_path, text, "OrdersPort").code == "DQ0604"


def test_without_a_service_the_only_binding_of_a_port_type_counts(tmp_path):
    text = HEAD + wsdls.types(TYPES) + MESSAGES + PORT_TYPE + wsdls.binding("1.2") + TAIL
    assert interface_of(tmp_path, text, "Orders").version == "1.2"


def test_an_rpc_operation_has_an_element_around_its_parts(tmp_path):
    (price,) = interface_of(tmp_path, wsdls.RPC).operations
    assert (price.style, price.input.element) == ("rpc", "{urn:orders}price")
    assert list(price.input.parts or {}) == ["item", "pieces"]
    assert price.output is not None
    assert price.output.element == "{urn:orders}priceResponse"


def test_a_part_that_goes_into_the_header_is_not_in_the_body(tmp_path):
    text = (
        wsdls.document_wsdl()
        .replace(
            '<wsdl:part name="body" element="o:order"/>',
            '<wsdl:part name="body" element="o:order"/><wsdl:part name="who" element="o:customer"/>',
        )
        .replace('message="t:Customer" part="customer"', 'message="t:Order" part="who"')
    )
    place = interface_of(tmp_path, text).operations[0]
    assert (place.input.element, place.headers) == (ORDER, ("{urn:orders}customer",))


def test_parts_named_by_the_body_are_those_in_it(tmp_path):
    two = '<wsdl:part name="body" element="o:order"/><wsdl:part name="who" element="o:customer"/>'
    text = wsdls.document_wsdl().replace('<wsdl:part name="body" element="o:order"/>', two)
    assert "several parts" in refusal(tmp_path, text).message
    chosen = text.replace('use="literal"/></wsdl:input>', 'use="literal" parts="body"/></wsdl:input>')
    assert interface_of(tmp_path, chosen).operations[0].input.element == ORDER


def test_imported_wsdl_files_and_schemas_are_found_beside_the_wsdl(tmp_path):
    concrete = HEAD + '<wsdl:import namespace="urn:shop" location="parts/abstract.wsdl"/>'
    concrete += wsdls.binding() + wsdls.service(wsdls.port()) + TAIL
    include = (
        """<xs:schema targetNamespace="urn:orders"><xs:include schemaLocation="../orders%20all.xsd"/></xs:schema>"""
    )
    files = {
        "parts/abstract.wsdl": HEAD + wsdls.types(include) + MESSAGES + PORT_TYPE + TAIL,
        "orders all.xsd": TYPES.replace("<xs:schema", '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"'),
    }
    assert interface_of(tmp_path, concrete, files=files).operation(ORDER).name == "placeOrder"


def test_files_that_import_each_other_are_read_once(tmp_path):
    text = wsdls.document_wsdl().replace(
        "<wsdl:types>", '<wsdl:import namespace="urn:b" location="b.wsdl"/><wsdl:types>'
    )
    files = {"b.wsdl": HEAD + '<wsdl:import namespace="urn:shop" location="shop.wsdl"/>' + TAIL}
    assert interface_of(tmp_path, text, files=files).port == "OrdersPort"


REFUSED = {
    "it is no WSDL document: its root is plain": "<plain/>",
    "it is a WSDL 2.0 document": '<description xmlns="http://www.w3.org/ns/wsdl"/>',
    "a document type declaration is not allowed": "<!DOCTYPE x [<!ENTITY e 'x'>]><x>&e;</x>",
    "only literal messages are supported": wsdls.document_wsdl().replace('use="literal"/>', 'use="encoded"/>'),
    'there is no message "t:Order"': wsdls.document_wsdl().replace('name="Order"', 'name="Ordre"'),
    'no schema declares element "o:order"': wsdls.document_wsdl().replace('name="order"', 'name="ordre"'),
    'there is no binding "t:OrdersBinding"': wsdls.document_wsdl().replace('g name="Orders', 'g name="Order'),
    "is not for SOAP": wsdls.document_wsdl().replace("<soap:binding", "<soap:nothing"),
    'the portType has no operation "ping"': wsdls.document_wsdl().replace('n name="ping"><w', 'n name="pong"><w', 1),
    "has no input": wsdls.document_wsdl().replace('<wsdl:input message="t:Note"/>', '<wsdl:output message="t:Note"/>'),
    "has no element, as document style asks for": wsdls.document_wsdl().replace('element="o:note"', 'type="xs:int"'),
    "its soap:body has no namespace": wsdls.RPC.replace('namespace="urn:orders"/>', "/>"),
    "has no type, as rpc style asks for": wsdls.RPC.replace('type="o:Item"/>', 'element="o:price"/>', 1),
    "unknown style": wsdls.RPC.replace('style="rpc"', 'style="odd"'),
    "its schema cannot be used": wsdls.document_wsdl().replace('type="xs:int"', 'type="xs:nit"'),
    "import a local copy": wsdls.document_wsdl().replace(
        "<wsdl:types>", '<wsdl:import namespace="urn:b" location="http://b.invalid/b.wsdl"/><wsdl:types>'
    ),
    "missing.wsdl, named in shop.wsdl: No such file": wsdls.document_wsdl().replace(
        "<wsdl:types>", '<wsdl:import namespace="urn:b" location="missing.wsdl"/><wsdl:types>'
    ),
    "an import has no location": wsdls.document_wsdl().replace("<wsdl:types>", "<wsdl:import/><wsdl:types>"),
    "Start tag expected": "hello",
}


@pytest.mark.parametrize("words", REFUSED)
def test_an_interface_that_cannot_be_used_is_refused_in_clear_words(tmp_path, words):
    error = refusal(tmp_path, REFUSED[words])
    assert error.code == "DQ0602"
    assert words in error.message


def test_entities_of_a_wsdl_are_never_read(tmp_path):
    (tmp_path / "secret").write_text("secret")
    bomb = f'<!DOCTYPE x [<!ENTITY e SYSTEM "{tmp_path}/secret">]><x>&e;</x>'
    assert "secret" not in refusal(tmp_path, bomb).message


def test_a_wsdl_that_is_missing_is_said_to_be(tmp_path):
    with pytest.raises(ProgramError, match="No such file"):
        read_interface(tmp_path / "missing.wsdl")


@pytest.mark.parametrize("text", [wsdls.BOTH_VERSIONS, wsdls.RPC], ids=["document", "rpc"])
def test_a_damaged_wsdl_can_be_used_or_is_refused_and_nothing_else(tmp_path, text, chance):
    rng = chance
    words = re.findall(r"[\w:]+|[<>\"/]", text)
    for _ in range(DAMAGED):
        damaged = text
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(damaged))
            damaged = damaged[:at] + damaged[at:].replace(rng.choice(words), rng.choice(["", *words]), 1)
        try:
            interface_of(tmp_path, damaged, rng.choice([None, "PortOne"])).publish("http://here.invalid/")
        except ProgramError as error:
            assert error.code in ("DQ0602", "DQ0604")  # noqa: PT017  # any other error fails
            assert "\n" not in error.message  # noqa: PT017
