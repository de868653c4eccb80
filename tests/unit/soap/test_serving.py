"""The WSDL that a client gets: the ports of this node and no others, and every file that it takes to read it."""

from __future__ import annotations

from pathlib import Path

from lxml import etree

from demaq.soap import read_interface
from tests.support.soap import wsdls
from tests.support.soap.published_files import HERE, fetch_all
from tests.support.soap.wsdls import HEAD, MESSAGES, PORT_TYPE, TAIL, TYPES, interface_of

XS = 'xmlns:xs="http://www.w3.org/2001/XMLSchema"'


def ports(text: bytes | None) -> dict[str | None, str]:
    """Ports of a WSDL, with their addresses."""
    assert text is not None
    root = etree.fromstring(text)
    return {
        port.get("name"): port[0].get("location", "") for port in root.iter("{http://schemas.xmlsoap.org/wsdl/}port")
    }


def test_a_port_that_is_not_served_is_left_out(tmp_path: Path):
    interface = interface_of(tmp_path, wsdls.BOTH_VERSIONS, "PortTwo")
    assert ports(interface.publish(HERE)) == {"PortTwo": HERE}


def test_every_port_that_is_served_has_its_address(tmp_path: Path):
    one = interface_of(tmp_path, wsdls.BOTH_VERSIONS, "PortOne")
    two = interface_of(tmp_path, wsdls.BOTH_VERSIONS, "PortTwo")
    others = [(one, "http://here.invalid/1"), (two, "http://here.invalid/2")]
    assert ports(one.publish("http://here.invalid/1", others)) == {
        "PortOne": "http://here.invalid/1",
        "PortTwo": "http://here.invalid/2",
    }


def test_of_two_gateways_with_one_port_each_names_itself(tmp_path: Path):
    one = interface_of(tmp_path, wsdls.BOTH_VERSIONS, "PortOne")
    others = [(one, "http://here.invalid/a"), (one, "http://here.invalid/b")]
    assert ports(one.publish("http://here.invalid/b", others)) == {"PortOne": "http://here.invalid/b"}


def test_a_service_without_any_port_of_ours_is_left_out(tmp_path: Path):
    text = wsdls.BOTH_VERSIONS.replace(
        TAIL, wsdls.service(wsdls.port("Other", "One"), name="Others") + "<!-- the end -->" + TAIL
    )
    served = interface_of(tmp_path, text, "PortOne").publish(HERE)
    assert ports(served) == {"PortOne": HERE}
    assert b"Others" not in served


def test_ports_in_imported_files_have_their_addresses_there(tmp_path: Path):
    abstract = HEAD + wsdls.types(TYPES) + MESSAGES + PORT_TYPE + TAIL
    importing = '<wsdl:import namespace="urn:shop" location="{}"/>'
    for name, version in (("one", "1.1"), ("two", "1.2")):
        port = wsdls.service(wsdls.port(f"Port{name}", "B" + name, version), name=f"Service{name}")
        text = HEAD + importing.format("abstract.wsdl") + wsdls.binding(version, "B" + name) + port + TAIL
        (tmp_path / f"{name}.wsdl").write_text(text)
    all_of_it = HEAD + importing.format("one.wsdl") + importing.format("two.wsdl") + TAIL
    first = interface_of(tmp_path, all_of_it, "Portone", {"abstract.wsdl": abstract})
    second = read_interface(tmp_path / "two.wsdl", "Porttwo")  # not by way of the file that imports both
    others = [(first, "http://here.invalid/1"), (second, "http://here.invalid/2")]

    assert ports(first.publish_file("one.wsdl", "http://here.invalid/1", others)) == {
        "Portone": "http://here.invalid/1"
    }
    assert ports(first.publish_file("two.wsdl", "http://here.invalid/1", others)) == {
        "Porttwo": "http://here.invalid/2"
    }
    assert ports(first.publish_file("two.wsdl", "http://here.invalid/1")) == {}
    assert ports(second.publish("http://here.invalid/2", others)) == {"Porttwo": "http://here.invalid/2"}


def test_port_types_of_a_wsdl_without_service_all_get_one(tmp_path: Path):
    text = HEAD + wsdls.types(TYPES) + MESSAGES + PORT_TYPE + PORT_TYPE.replace("Orders", "More") + TAIL
    one, two = interface_of(tmp_path, text, "Orders"), interface_of(tmp_path, text, "More")
    others = [(one, "http://here.invalid/1"), (two, "http://here.invalid/2")]
    assert ports(one.publish("http://here.invalid/1", others)) == {
        "Orders": "http://here.invalid/1",
        "More": "http://here.invalid/2",
    }


def test_every_file_that_is_named_anywhere_can_be_fetched_from_the_node(tmp_path: Path):
    concrete = HEAD + '<wsdl:import namespace="urn:shop" location="parts/abstract.wsdl"/>'
    concrete += wsdls.binding() + wsdls.service(wsdls.port()) + TAIL
    inner = '<xs:schema><xs:import namespace="urn:orders" schemaLocation="../orders all.xsd"/></xs:schema>'
    typed = TYPES.replace("<xs:schema", f"<xs:schema {XS}").replace(
        '<xs:element name="order">',
        '<xs:import namespace="http://www.w3.org/XML/1998/namespace" schemaLocation="http://www.w3.org/2001/xml.xsd"/>'
        '<xs:import namespace="urn:money" schemaLocation="http://schemas.invalid/money.xsd"/><xs:element name="order">',
    )
    files = {
        "app/parts/abstract.wsdl": HEAD + wsdls.types(inner) + MESSAGES + PORT_TYPE + TAIL,
        "app/orders all.xsd": f'<xs:schema {XS} targetNamespace="urn:orders"><xs:include schemaLocation="../outside.xsd"/>'
        '<xs:import namespace="urn:money" schemaLocation="money.xsd"/></xs:schema>',
        "app/money.xsd": f'<xs:schema {XS} targetNamespace="urn:money"/>',
        "outside.xsd": typed,
        "app/shop.wsdl": concrete,
    }
    interface_of(tmp_path, concrete.replace("parts/", "app/parts/"), files=files)
    found = fetch_all(read_interface(tmp_path / "app/shop.wsdl"))

    assert sorted(found) == [
        f"{HERE}?wsdl",
        f"{HERE}?wsdl=parts/abstract.wsdl",
        f"{HERE}?xsd=money.xsd",
        f"{HERE}?xsd=namespaces/xml.xsd",
        f"{HERE}?xsd=orders%20all.xsd",
        f"{HERE}?xsd=outside.xsd",
    ]
