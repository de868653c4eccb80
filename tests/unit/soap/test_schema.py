"""Messages are checked against what the WSDL says of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from demaq.documents import parse_document
from demaq.errors import MessageError, ProgramError
from tests.support.soap import wsdls
from tests.support.soap.wsdls import HEAD, MESSAGES, PORT_TYPE, TAIL, TYPES, interface_of

ORDER = '<order xmlns="urn:orders"><item>tea</item><pieces>3</pieces></order>'
XSI = "http://www.w3.org/2001/XMLSchema-instance"
XS = 'xmlns:xs="http://www.w3.org/2001/XMLSchema"'


def violation(interface, text, *, output=False):
    check = interface.check_output if output else interface.check_input
    try:
        check(parse_document(text).tree)
    except MessageError as error:
        return error.message
    return None


def with_schemas(*schemas):
    """The port of orders, with other schemas for the same elements."""
    rest = MESSAGES + PORT_TYPE + wsdls.binding() + wsdls.service(wsdls.port()) + TAIL
    return HEAD + wsdls.types(*schemas) + rest


def test_a_valid_request_passes_and_an_invalid_one_is_refused_with_its_line(tmp_path):
    interface = interface_of(tmp_path, wsdls.document_wsdl())
    assert violation(interface, ORDER) is None
    message = violation(interface, ORDER.replace("<pieces>3", "\n<pieces>three"))
    assert message is not None
    assert message.startswith("line 2: Element '{urn:orders}pieces': 'three' is not a valid value")


def test_an_answer_is_checked_as_an_answer(tmp_path):
    interface = interface_of(tmp_path, wsdls.document_wsdl())
    assert (
        violation(interface, '<confirmation xmlns="urn:orders"><number>1</number></confirmation>', output=True) is None
    )
    message = violation(interface, ORDER, output=True)
    assert message is not None
    assert "is no answer; expected is {urn:orders}confirmation" in message
    with pytest.raises(MessageError, match="expected is nothing at all"):
        interface.check_output(parse_document(ORDER).tree, interface.operations[1])


def test_what_stands_for_an_empty_body_is_valid(tmp_path):
    interface = interface_of(tmp_path, wsdls.document_wsdl())
    assert violation(interface, '<ping xmlns="urn:shop"/>') is None
    assert violation(interface, '<pingResponse xmlns="urn:shop"/>', output=True) is None


def test_schemas_that_import_each_other_by_namespace_alone_are_one(tmp_path):
    kinds = """<xs:schema targetNamespace="urn:kinds" xmlns:k="urn:kinds"><xs:import namespace="urn:orders"/>
      <xs:complexType name="Order"><xs:sequence><xs:element ref="o:item"/>
      <xs:element name="pieces" form="qualified" type="k:Pieces"/></xs:sequence></xs:complexType></xs:schema>"""
    more_kinds = """<xs:schema targetNamespace="urn:kinds"><xs:simpleType name="Pieces">
      <xs:restriction base="xs:int"><xs:maxInclusive value="9"/></xs:restriction></xs:simpleType></xs:schema>"""
    orders = """<xs:schema targetNamespace="urn:orders" xmlns:k="urn:kinds"><xs:import namespace="urn:kinds"/>
      <xs:element name="order" type="k:Order"/><xs:element name="item" type="xs:string"/></xs:schema>"""
    rest = TYPES.replace('name="order"', 'name="oldOrder"')
    interface = interface_of(tmp_path, with_schemas(kinds, orders, more_kinds, rest))
    good = '<o:order xmlns:o="urn:orders"><o:item/><pieces xmlns="urn:kinds">3</pieces></o:order>'
    assert violation(interface, good) is None
    assert violation(interface, good.replace("3", "10")) is not None


def test_included_and_imported_files_are_part_of_the_schema(tmp_path):
    files = {
        "sub/orders.xsd": TYPES.replace("<xs:schema", f"<xs:schema {XS} xmlns:m='urn:more'")
        .replace('name="note" type="xs:string"', 'name="note" type="m:short"')
        .replace(
            '<xs:element name="order">',
            '<xs:import namespace="urn:more" schemaLocation="../more.xsd"/><xs:element name="order">',
        ),
        "more.xsd": f'<xs:schema {XS} targetNamespace="urn:more" xmlns="urn:more"><xs:include schemaLocation="chameleon.xsd"/></xs:schema>',
        "chameleon.xsd": f'<xs:schema {XS}><xs:include schemaLocation="chameleon.xsd"/><xs:simpleType name="short"><xs:restriction base="xs:string">'
        '<xs:maxLength value="3"/></xs:restriction></xs:simpleType></xs:schema>',
    }
    text = with_schemas(
        '<xs:schema targetNamespace="urn:orders"><xs:include schemaLocation="sub/orders.xsd"/></xs:schema>'
    )
    interface = interface_of(tmp_path, text, files=files)
    assert violation(interface, '<note xmlns="urn:orders">abc</note>') is None
    assert violation(interface, '<note xmlns="urn:orders">abcd</note>') is not None


def test_a_redefined_type_counts(tmp_path):
    base = f"""<xs:schema {XS} targetNamespace="urn:orders" xmlns="urn:orders"><xs:simpleType name="short">
      <xs:restriction base="xs:string"><xs:maxLength value="9"/></xs:restriction></xs:simpleType></xs:schema>"""
    schema = """<xs:schema targetNamespace="urn:orders"><xs:redefine schemaLocation="base.xsd"><xs:simpleType name="short">
      <xs:restriction base="o:short"><xs:maxLength value="3"/></xs:restriction></xs:simpleType></xs:redefine>"""
    own = schema + '<xs:element name="note" type="o:short"/></xs:schema>'
    text = with_schemas(own, TYPES.replace('<xs:element name="note" type="xs:string"/>', ""))
    interface = interface_of(tmp_path, text, files={"base.xsd": base})
    assert violation(interface, '<note xmlns="urn:orders">abc</note>') is None
    assert violation(interface, '<note xmlns="urn:orders">abcd</note>') is not None


def test_attributes_of_xml_itself_need_no_file(tmp_path):
    schema = """<xs:schema targetNamespace="urn:orders">
      <xs:import namespace="http://www.w3.org/XML/1998/namespace" schemaLocation="http://www.w3.org/2001/xml.xsd"/>
      <xs:element name="note"><xs:complexType><xs:attribute ref="xml:lang"/></xs:complexType></xs:element></xs:schema>"""
    text = with_schemas(schema, TYPES.replace('<xs:element name="note" type="xs:string"/>', ""))
    assert violation(interface_of(tmp_path, text), '<note xmlns="urn:orders" xml:lang="en"/>') is None


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ('<xs:import namespace="urn:x" schemaLocation="http://x.invalid/x.xsd"/>', "import a local copy"),
        ('<xs:include schemaLocation="http://x.invalid/x.xsd"/>', "include a local copy"),
        ('<xs:include schemaLocation="missing.xsd"/>', "missing.xsd, named in shop.wsdl: No such file"),
        ('<xs:include schemaLocation="shop.wsdl"/>', "is no schema"),
        ('<xs:include schemaLocation="other.xsd"/>', "has to be imported, not included"),
        (
            '<xs:import namespace="urn:x" schemaLocation="other.xsd"/>',
            "imports other.xsd as urn:x, and it is urn:other",
        ),
        ('<xs:include schemaLocation="doctype.xsd"/>', "a document type declaration is not allowed"),
    ],
)
def test_a_schema_that_cannot_be_found_is_refused(tmp_path, reference, words):
    files = {
        "other.xsd": f'<xs:schema {XS} targetNamespace="urn:other"/>',
        "doctype.xsd": f"<!DOCTYPE a><xs:schema {XS}/>",
    }
    text = with_schemas(TYPES.replace('qualified">', f'qualified">{reference}'))
    with pytest.raises(ProgramError) as caught:
        interface_of(tmp_path, text, files=files)
    assert words in caught.value.message


PRICE = '<o:price xmlns:o="urn:orders"><item><name>tea</name></item><pieces>2</pieces></o:price>'


def test_the_parts_of_an_rpc_message_are_checked_by_their_types(tmp_path):
    interface = interface_of(tmp_path, wsdls.RPC)
    assert violation(interface, PRICE) is None
    assert (
        violation(interface, '<o:priceResponse xmlns:o="urn:orders"><euros>2.5</euros></o:priceResponse>', output=True)
        is None
    )
    message = violation(interface, PRICE.replace("<pieces>2", "\n<pieces>two"))
    assert message == "line 2: part pieces: Element 'pieces': 'two' is not a valid value of the atomic type 'xs:int'."


def test_missing_and_unknown_parts_are_named(tmp_path):
    interface = interface_of(tmp_path, wsdls.RPC)
    message = violation(interface, PRICE.replace("<pieces>2</pieces>", ""))
    assert message == "line 1: {urn:orders}price has item; expected is item, pieces"
    assert violation(interface, PRICE.replace("pieces>", "o:pieces>")) is not None


def test_a_type_named_in_an_rpc_message_is_found_by_the_prefixes_around_it(tmp_path):
    interface = interface_of(tmp_path, wsdls.RPC)
    gift = PRICE.replace("<item>", f'<item xmlns:i="{XSI}" i:type="o:Gift">')
    assert violation(interface, gift) is not None
    assert violation(interface, gift.replace("</name>", "</name><greeting/>")) is None


def test_a_message_cannot_bring_its_own_schema(tmp_path):
    (tmp_path / "own.xsd").write_text(
        f'<xs:schema {XS} targetNamespace="urn:own"><xs:element name="order"/></xs:schema>'
    )
    interface = interface_of(tmp_path, wsdls.document_wsdl())
    hint = f'<order xmlns="urn:orders" xmlns:i="{XSI}" i:schemaLocation="urn:orders {tmp_path}/own.xsd"/>'
    assert violation(interface, hint) is not None


def test_long_values_and_names_are_not_repeated_in_full(tmp_path):
    interface = interface_of(tmp_path, wsdls.document_wsdl())
    rpc = interface_of(tmp_path, wsdls.RPC)
    long = "n" * 5000
    assert len(violation(interface, ORDER.replace("3", long)) or "") in range(50, 700)
    assert len(violation(interface, f"<{long}/>") or "") in range(50, 1000)
    assert len(violation(rpc, PRICE.replace("<item>", "<x/>" * 5000 + "<item>")) or "") in range(50, 700)


def test_messages_checked_at_the_same_time_do_not_get_each_others_errors(tmp_path):
    interface = interface_of(tmp_path, wsdls.document_wsdl())
    texts = [ORDER, *[ORDER.replace("3", f"bad{number}") for number in range(7)]] * 40
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda text: violation(interface, text), texts))
    for text, message in zip(texts, found, strict=True):
        assert (message is None) == (text == ORDER)
        assert message is None or f"'{parse_document(text).tree.getroot()[1].text}'" in message


def test_hundreds_of_namespaces_around_the_parts_are_refused(tmp_path):
    declared = "".join([f' xmlns:p{number}="urn:p{number}"' for number in range(230)])
    message = violation(interface_of(tmp_path, wsdls.RPC), PRICE.replace("<o:price", f"<o:price{declared}"))
    assert message == "more than 200 namespaces are declared around an element"


@pytest.mark.parametrize("namespace", ["http://exämple.org/é", "http:>/orders", "\N{OHM SIGN}"], ids=ascii)
def test_messages_are_checked_whose_namespace_is_no_uri(tmp_path, namespace):
    wsdl = wsdls.document_wsdl().replace("urn:orders", namespace)
    interface = interface_of(tmp_path, wsdl)
    order = f'<order xmlns="{namespace}"><item>tea</item><pieces>%s</pieces></order>'
    assert violation(interface, order % "2") is None
    assert "'two'" in violation(interface, order % "two")


def test_parts_are_checked_whose_namespace_is_no_uri(tmp_path):
    interface = interface_of(tmp_path, wsdls.RPC.replace("urn:orders", "http://exämple.org/é"))
    price = '<o:price xmlns:o="http://exämple.org/é"><item><name>tea</name></item><pieces>%s</pieces></o:price>'
    assert violation(interface, price % "2") is None
    assert "'two'" in violation(interface, price % "two")
