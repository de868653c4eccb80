"""Whatever is sent to a node: never a fault of the server, never a traceback, and what was accepted is stored."""

from __future__ import annotations

import codecs
import contextlib
import logging
import re
import smtplib
import socket
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree

from demaq.gateways.settings import IncomingSettings, Settings
from tests.support.gateways.nodes import ANY_PORT, Running, running, written
from tests.support.soap import wsdls

pytestmark = pytest.mark.slow
APPLICATION = """
create queue orders kind incomingGateway
create queue shop kind incomingGateway interface shop.wsdl port OrdersPort
create queue checked kind incomingGateway schema order.xsd
create queue mails kind incomingGateway endpoint "mailto:orders@example.org"
create property customer as xs:integer queue orders value //@customer
"""
SCHEMA = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="order"><xs:complexType><xs:sequence>
<xs:element name="item" type="xs:string" maxOccurs="unbounded"/></xs:sequence><xs:attribute name="customer" type="xs:integer"/>
</xs:complexType></xs:element></xs:schema>"""
ANSWER_SECONDS_MAX = 5.0
EXAMPLES_PER_DEFAULT = 3
"""One example is a request that takes a millisecond or two, so there may be more of them than elsewhere."""
ENVELOPE_1_1 = "http://schemas.xmlsoap.org/soap/envelope/"
ENVELOPE_1_2 = "http://www.w3.org/2003/05/soap-envelope"
EMPTY_BODY = '<ping xmlns="urn:shop"/>'
"""The message that stands for it."""
_SOAP_ORDER = '<order xmlns="urn:orders"><item>tea</item><pieces>3</pieces></order>'

SEEDS = [
    '<order customer="7"><item>tea</item><item>coffee &amp; cream</item></order>',
    '<?xml version="1.0" encoding="utf-8"?>\n<!-- hello --><order customer="8"><item><![CDATA[<x>]]>ü€</item></order>',
    f'<e:Envelope xmlns:e="{ENVELOPE_1_1}"><e:Header><t:customer xmlns:t="urn:orders">Ann</t:customer></e:Header>'
    f"<e:Body>{_SOAP_ORDER}</e:Body></e:Envelope>",
    f'<e:Envelope xmlns:e="{ENVELOPE_1_2}"><e:Body>{_SOAP_ORDER}</e:Body></e:Envelope>',
    f'<e:Envelope xmlns:e="{ENVELOPE_1_2}" xmlns:a="http://www.w3.org/2005/08/addressing"><e:Header><a:Action '
    f'e:mustUnderstand="1">urn:shop/placeOrder</a:Action><a:MessageID>urn:1</a:MessageID></e:Header><e:Body>{_SOAP_ORDER}</e:Body></e:Envelope>',
    f'<e:Envelope xmlns:e="{ENVELOPE_1_1}"><e:Body/></e:Envelope>',
    "From: a@example.org\r\nTo: orders@example.org\r\nSubject: x\r\nContent-Type: text/xml\r\n\r\n<order/>\r\n",
]
PIECES = [
    b"<", b">", b"/>", b"</order>", b"&", b"&#0;", b"&x;", b"]]>", b"<!--", b"<?xml version='1.1'?>", b"\0", b"\xff", b"\xc0\xbc",
    b"<!DOCTYPE a [<!ENTITY x 'y'>]>", b" xmlns='urn:x'", b" xmlns:e=''", b"<e:Body>", b"</e:Envelope>", b"xsi:type='x:y'",
    b"<a>" * 300, b"mustUnderstand='1'", b"encoding='utf-7'", b"\r\n\r\n", b"a" * 70_000,
]  # fmt: skip
ENCODINGS = ["utf-8", "utf-8", "utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "utf-7", "cp037"]
CONTENT_TYPES = [
    "application/xml", "text/xml", "text/xml; charset=utf-8", "application/soap+xml", "application/soap+xml; action=\"urn:shop/placeOrder\"",
    "application/json", "text/xml; charset=punycode", "text/xml; charset=unicode_escape", "text/xml; charset=utf-16", "text/xml; charset=hex",
    "text/xml; charset=nonsense", "text/xml; charset=\"", "multipart/related; boundary=x", "", ";;;", "text/xml; charset=iso-8859-1", "x" * 3000,
]  # fmt: skip
TARGETS = [
    "/orders", "/orders", "/orders", "/shop", "/shop", "/checked", "/checked", "/%6frders", "/orders/", "//orders", "/orders%00", "/orders?a=b",
    "/shop?wsdl", "/shop?xsd=../../etc/passwd", "/shop?wsdl=%ff", "*", "http://x/orders", "/\u00fc", "/" + "x" * 100_000, "/%", "/healthz",
]  # fmt: skip
HEADERS = [
    "SOAPAction: \"urn:shop/placeOrder\"", "SOAPAction: ", "Idempotency-Key: a", "Idempotency-Key: ", "Prefer: wait=0, respond-async",
    "Prefer: wait=99999999999", "Expect: 100-continue", "Expect: nothing", "Content-Encoding: gzip", "Connection: close", "Connection: upgrade",
    "Upgrade: websocket", "Upgrade: h2c", "Demaq-Message: 0123456789abcdef0123456789abcdef/1", "Demaq-Message: x", "Demaq-Sender: \u00fc\u0001",
    "Authorization: Basic ====", "Authorization: Bearer x", "X-`~!#$%&'*+.^_|: 1", "Host: [::1", "Host: a b", "Content-Length: -1", "Cookie: a=b",
    "X-Long: " + "x" * 60_000, "Transfer-Encoding: gzip, chunked", "Tenant: \u00e4\u00f6", "no colon at all", " folded: x",
]  # fmt: skip


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A real message, damaged or not."""
    body = draw(st.sampled_from(SEEDS)).encode(draw(st.sampled_from(ENCODINGS)), "replace")
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2, 3]))):
        at = draw(st.integers(0, len(body)))
        match draw(st.sampled_from(["cut", "put", "flip", "drop", "twice"])):
            case "cut":
                body = body[:at]
            case "put":
                body = body[:at] + draw(st.sampled_from(PIECES) | st.binary(max_size=20)) + body[at:]
            case "flip":
                body = body[:at] + bytes([draw(st.integers(0, 255))]) + body[at + 1 :]
            case "drop":
                body = body[:at] + body[at + draw(st.integers(1, 20)) :]
            case "twice":
                body += body[at:]
    return body


def _chunked(body: bytes, size: int) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join([b"%x;ext=1\r\n%s\r\n" % (len(piece), piece) for piece in pieces]) + b"0\r\nX-Trailer: 1\r\n\r\n"


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, bytes, bool]:
    """What is sent, the body in it, and whether all of it is as HTTP says and nothing about its text is."""
    body = draw(bodies())
    method = draw(st.sampled_from(["POST"] * 12 + ["GET", "HEAD", "PUT", "OPTIONS", "BREW", "CONNECT", "post"]))
    version = draw(st.sampled_from(["HTTP/1.1"] * 10 + ["HTTP/1.0", "HTTP/2.0", "HTTQ"]))
    content_type = draw(st.sampled_from(CONTENT_TYPES[:5]) | st.sampled_from(CONTENT_TYPES))
    lines = [f"{method} {draw(st.sampled_from(TARGETS))} {version}", "Host: localhost"]
    lines += [f"Content-Type: {content_type}"] if content_type else []
    lines += draw(st.lists(st.sampled_from(HEADERS), max_size=2))
    framing = draw(st.sampled_from(["right"] * 8 + ["chunks", "chunks", "short", "long", "none", "both", "broken"]))
    data = body
    match framing:
        case "right":
            lines.append(f"Content-Length: {len(body)}")
        case "short":
            lines.append(f"Content-Length: {len(body) // 2}")
        case "long":
            lines.append(f"Content-Length: {len(body) + 10}")
        case "chunks" | "both" | "broken":
            lines.append("Transfer-Encoding: chunked")
            data = _chunked(body, draw(st.sampled_from([1, 7, 1000, 100_000])))
            if framing == "both":
                lines.append(f"Content-Length: {len(body)}")
            elif framing == "broken":
                data = data[: draw(st.integers(0, len(data)))] + b"zz\r\n\r\n"
    is_plain = framing in ("right", "chunks") and "charset" not in content_type
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data, body, is_plain


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    quick = Settings(incoming_default=IncomingSettings(body_seconds_max=0.1, body_bytes_max=500_000))
    files = {"shop.wsdl": wsdls.document_wsdl(), "order.xsd": SCHEMA}
    with running(written(tmp_path_factory.mktemp("fuzzing"), files), APPLICATION, quick, smtp=ANY_PORT) as found:
        yield found


@pytest.fixture
def log() -> Iterator[list[str]]:
    """What is logged while a test runs, and is worth a look."""
    lines: list[str] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    listening = Listening(logging.WARNING)
    logging.getLogger().addHandler(listening)
    yield lines
    logging.getLogger().removeHandler(listening)


def more(times: int = EXAMPLES_PER_DEFAULT) -> settings:
    return settings(max_examples=settings.default.max_examples * times) if settings.default is not None else settings()


def _post(target: str, content_type: str, body: bytes) -> tuple[bytes, bytes, bool]:
    head = f"POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body, body, True


def _is_fault_of_the_sender(answer: bytes) -> bool:
    """Return whether a fault has a code that the bindings send with 500 although the node did nothing wrong."""
    is_first_version = b"<faultcode>" in answer and b"<faultcode>soapenv:Server" not in answer
    return (
        is_first_version or re.search(rb"<soapenv:Value>soapenv:(VersionMismatch|MustUnderstand)<", answer) is not None
    )


def test_requests_of_any_kind_are_answered_or_refused(here: Running, log: list[str]):
    statuses: dict[int, int] = {}

    @more()
    @given(requests())
    @example(
        _post(
            "/orders",
            "application/soap+xml",
            b'<e:Envelope xmlns:e="urn:no-soap"><e:Body><order/></e:Body></e:Envelope>',
        )
    )
    def check(sent: tuple[bytes, bytes, bool]) -> None:
        data, body, is_plain = sent
        answer = _exchange(here, data)
        assert log == []
        if not answer:
            return  # it was cut off: what is no request has no answer
        status = int(answer.split(b" ", 2)[1])
        statuses[status] = statuses.get(status, 0) + 1
        is_fault = status == 500 and _is_fault_of_the_sender(answer)
        assert 200 <= status < 500 or status in (501, 505) or is_fault, answer[:300]
        if status == 202:
            head = answer.lower().partition(b"\r\n\r\n")[0]
            number = int(head.partition(b"demaq-message-id: ")[2].split(b"\r\n")[0])
            message = here.node.store.message(number)
            assert message is not None
            if is_plain:  # also under the name of another request: the response is never about another message
                assert _canonical(etree.fromstring(message.body)) == _canonical(_in_envelope(_parsed(body)))

    check()
    assert here.client.get("/healthz").status_code == 200
    assert statuses[202] > 0
    assert statuses[400] > 0


@more(1)
@given(st.binary(max_size=300), st.sampled_from([b"", b"GET / HTTP/1.1\r\n", b"POST /orders HTTP/1.1\r\nHost: x\r\n"]))
def _send_anything(here: Running, log: list[str], data: bytes, before: bytes) -> None:
    answer = _exchange(here, before + data + b"\r\n\r\n", seconds=0.2)
    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 2")), answer[:100]
    assert log == []


def test_what_is_no_request_does_no_harm(here: Running, log: list[str]):
    _send_anything(here=here, log=log)

    assert here.post("/orders", "<order/>").status_code == 202


def test_mails_of_any_kind_are_stored_or_bounced(here: Running, log: list[str]):
    assert here.gateways.smtp_address is not None
    host, port = here.gateways.smtp_address.split(":")
    codes: dict[int, int] = {}
    headers = [
        "From: a@example.org",
        "To: orders@example.org",
        "Subject: =?utf-8?q?=FF?=",
        "MIME-Version: 1.0",
        "Bcc: \u00fc",
    ]

    @more(1)
    @given(
        bodies(),
        st.sampled_from(CONTENT_TYPES),
        st.lists(st.sampled_from(headers)),
        st.sampled_from(["", "base64", "8bit", "x"]),
    )
    def check(body: bytes, content_type: str, lines: list[str], encoding: str) -> None:
        before = len(here.stored("mails"))
        lines = [*lines, f"Content-Type: {content_type}", f"Content-Transfer-Encoding: {encoding}", "", ""]
        with smtplib.SMTP(host, int(port), timeout=ANSWER_SECONDS_MAX) as client:
            client.ehlo("localhost")
            client.mail("a@example.org")
            client.rcpt("orders@example.org")
            code, _ = client.data("\r\n".join(lines).encode("latin-1") + body)
        codes[code] = codes.get(code, 0) + 1
        assert code == 250 or 500 <= code < 600
        assert len(here.stored("mails")) == before + (code == 250)
        assert log == []

    check()
    assert codes[250] > 0
    assert len(codes) > 1


def test_what_is_no_mail_does_no_harm(here: Running, log: list[str]):
    assert here.gateways.smtp_address is not None
    host, port = here.gateways.smtp_address.split(":")
    words = [b"HELO x", b"EHLO \xff", b"MAIL FROM:<>", b"RCPT TO:<orders@example.org>", b"RCPT TO:<nobody@x>", b"DATA", b".", b"RSET", b"NOOP", b"VRFY x", b"AUTH PLAIN x", b"STARTTLS", b"BDAT 5", b"<order/>", b"", b"\0", b"x" * 5000]  # fmt: skip

    @more(1)
    @given(st.lists(st.sampled_from(words) | st.binary(max_size=30), max_size=12))
    def check(lines: list[bytes]) -> None:
        with socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS_MAX) as connection:
            assert connection.recv(1000).startswith(b"220")
            with contextlib.suppress(OSError):  # it may be cut off in the middle
                connection.sendall(b"\r\n".join(lines) + b"\r\n")
        assert log == []

    check()
    with smtplib.SMTP(host, int(port), timeout=ANSWER_SECONDS_MAX) as client:
        mail = "From: a@example.org\r\nTo: orders@example.org\r\nContent-Type: text/xml\r\n\r\n<order/>\r\n"
        assert client.sendmail("a@example.org", ["orders@example.org"], mail) == {}
    assert log == []


def _exchange(here: Running, data: bytes, seconds: float = ANSWER_SECONDS_MAX) -> bytes:
    """What is answered to a request; nothing where the connection is closed, or no request has come."""
    host, port = here.address.removeprefix("http://").split(":")
    found = b""
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        try:
            connection.sendall(data)
            while not _is_whole(found):
                piece = connection.recv(100_000)
                if not piece:
                    break
                found = (found + piece).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
        except OSError:
            pass
    return found


def _is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    if not end:
        return False
    size = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
    return not size.isdigit() or len(body) >= int(size) or not body


def _parsed(body: bytes) -> etree._Element:
    """The document, also where libxml2 wants its encoding to be declared and XML does not (appendix F)."""
    wide = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, b"<\0\0\0", b"\0\0\0<", b"<\0", b"\0<")
    names = ("utf-32", "utf-32", "utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
    for beginning, name in zip(wide, names, strict=True):
        if body.startswith(beginning):
            return etree.fromstring(re.sub(r"^<\?xml[^>]*\?>", "", body.decode(name)))
    return etree.fromstring(body)


def _in_envelope(root: etree._Element) -> etree._Element:
    for namespace in (ENVELOPE_1_1, ENVELOPE_1_2):
        if root.tag == f"{{{namespace}}}Envelope":
            content = root.find(f"{{{namespace}}}Body/*")
            return content if content is not None else etree.fromstring(EMPTY_BODY)
    return root


def _canonical(root: etree._Element) -> bytes:
    return etree.tostring(root, method="c14n", exclusive=True, with_comments=False)
