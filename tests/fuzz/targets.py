"""What inputs are given to, and what must hold of every answer: accepted, or refused as documented, soon and in little memory."""

from __future__ import annotations

import logging
import re
import resource
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lxml import etree

from demaq.documents import Document, parse_document
from demaq.errors import MessageError
from demaq.evaluation.saxon.processor import Saxon
from demaq.gateways.http.request_body import text_of
from demaq.gateways.http.request_head import BadHead, expect_small, expect_sound
from demaq.gateways.http.responses import Refusal
from demaq.gateways.mail.parsed_mail import read_mail
from demaq.gateways.settings import IncomingSettings, Settings
from demaq.soap import read_interface
from demaq.soap.addressing.addressing_headers import read_addressing, write_addressing
from demaq.soap.envelope import UNDERSTOOD, detect_version, read_envelope
from demaq.soap.exchange import make_fault_answer, read_call
from demaq.soap.faults import read_fault, write_refusal
from demaq.soap.refusals import SoapRefusal
from demaq.soap.reliability.protocol_reader import read_protocol_message
from demaq.soap.reliability.reliability_faults import read_reliability_fault
from demaq.soap.reliability.reliability_versions import RELIABILITY_HEADERS
from demaq.soap.reliability.sequence_headers import read_reliability
from tests.support.gateways.nodes import Running, running, written
from tests.support.soap import wsdls

SECONDS_MAX = 5.0
SECONDS_PER_MEGABYTE = 20.0
MEMORY_BYTES_MAX = 150_000_000
MEMORY_PER_BYTE = 150
MESSAGE_CHARACTERS_MAX = 2_000
SAXON_CHARACTERS_MAX = 50_000
STATUSES = {200, 202, *range(400, 432), 501, 503, 505}
APPLICATION = """
create queue orders kind incomingGateway
create queue shop kind incomingGateway interface shop.wsdl port OrdersPort
create property customer as xs:integer queue orders value //@customer
create rule first for orders if (//*) then do enqueue <seen>{name((//*)[last()])}</seen> into seen
create queue seen
"""


_FAULT_OF_SENDER = re.compile(rb"^500 .*<(faultcode|\w+:Value)>\w+:(Client|MustUnderstand|VersionMismatch)<", re.DOTALL)
"""SOAP has 500 also for what is the sender's fault; the code tells whose it is."""


class Targets:
    """Everything that takes something from outside, with a node that runs."""

    def __init__(self, folder: Path, here: Running, log: list[str]) -> None:
        self.here = here
        self._log = log
        self._interface = read_interface(folder / "shop.wsdl", "OrdersPort")
        self._saxon = Saxon()
        self.by_kind: Mapping[str, Callable[[bytes], str]] = {
            "xml": self._take_document,
            "soap": self._take_envelope,
            "head": self._take_head,
            "http": self._take_request,
            "mail": self._take_mail,
        }

    def take(self, kind: str, data: bytes) -> str:
        """Give an input to a target and return what became of it. Raises an AssertionError, or whatever went wrong."""
        memory, began = _memory(), time.monotonic()
        answer = self.by_kind[kind](data)
        seconds = time.monotonic() - began
        assert seconds < SECONDS_MAX + SECONDS_PER_MEGABYTE * len(data) / 1e6, f"it took {seconds:.1f} s"
        grown = _memory() - memory
        assert grown < MEMORY_BYTES_MAX + MEMORY_PER_BYTE * len(data), f"it took {grown:,} bytes of memory"
        assert not self._log, self._log
        return answer

    def _take_document(self, data: bytes) -> str:
        body: bytes | str = data
        if data.startswith(b"charset="):  # what a content type says
            line, _, body = data.partition(b"\n")
            try:
                body = text_of(body, "text/xml; " + line.decode("latin-1"))
            except Refusal as refused:
                return _with_status(refused.status, refused.reason)
        return self._take_body(body)

    def _take_body(self, body: bytes | str) -> str:
        try:
            document = parse_document(body)
        except MessageError as error:
            return _refused(error)
        text = document.text
        assert "<!DOCTYPE" not in text.partition("<!--")[0].partition("<?")[0].partition("<![CDATA[")[0]
        again = parse_document(text)
        assert again.text == text, "the text of a document is itself a document, and the same"
        assert _canonical(again) == _canonical(document), "the text is that of the tree"
        assert _canonical(Document(text)) == _canonical(document)
        if len(text) <= SAXON_CHARACTERS_MAX:
            node = self._saxon.parse(text)  # a ValueError is a finding: the message would be stored and never processed
            [written_again] = self._saxon.texts([node])
            assert _canonical(parse_document(written_again)) == _canonical(document)
            if self._saxon.names.is_full:
                self._saxon.names.count = 0  # it is this process's own table, which has room for a million
        return "taken"

    def _take_envelope(self, data: bytes) -> str:
        try:
            document = parse_document(data)
            version = detect_version(document.tree)
            if version is None:
                return "no envelope"
            envelope = read_envelope(document.tree, UNDERSTOOD | RELIABILITY_HEADERS)
            read_reliability(envelope.headers, envelope.version)
            read_protocol_message(envelope)
            fault = read_fault(document.tree)
            if fault is not None:
                read_reliability_fault(fault, envelope.headers)
            addressing = read_addressing(envelope.headers, envelope.version)
            if addressing is not None:
                for block in write_addressing(addressing):
                    parse_document(block)
            if envelope.body is not None:
                parse_document(envelope.body)
            found = read_call(self._interface, envelope, None)
            parse_document(found.message)
        except SoapRefusal as refused:
            parse_document(write_refusal(refused))
            return "SOAP fault"
        except MessageError as error:
            parse_document(make_fault_answer("1.1", error).data)
            return _refused(error)
        return "taken"

    def _take_head(self, data: bytes) -> str:
        first, *lines = data.split(b"\r\n\r\n")[0].split(b"\r\n")
        method, _, rest = first.partition(b" ")
        target, _, version = rest.rpartition(b" ")
        headers = [(name.lower(), value.strip()) for name, _, value in [line.partition(b":") for line in lines]]
        try:
            for count, (name, value) in enumerate(headers):
                expect_small(count, name, value)
            expect_sound(method, target, version.removeprefix(b"HTTP/").decode("latin-1"), headers)
        except BadHead as bad:
            return _with_status(bad.status, bad.reason)
        return "taken"

    def _take_request(self, data: bytes) -> str:
        """Send it to a node. What is no whole request is cut off after a while, so there need not be an answer."""
        host, port = self.here.address.removeprefix("http://").split(":")
        heard = b""
        with socket.create_connection((host, int(port)), timeout=SECONDS_MAX) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(100_000):
                    heard += piece
            except TimeoutError:
                raise
            except OSError:
                pass  # it was closed while we were sending
        if not heard:
            return "cut off"
        assert heard.startswith(b"HTTP/1.1 "), heard[:100]
        answers = [part for part in heard.split(b"HTTP/1.1 ")[1:] if part[:3].isdigit()]
        for answer in answers:
            assert int(answer[:3]) in {*STATUSES, 100} or _FAULT_OF_SENDER.search(answer), answer[:800]
        return answers[0][:3].decode()

    def _take_mail(self, data: bytes) -> str:
        mail = read_mail(data)
        for name, value in mail.transport.items():
            parse_document(_written(name, value))
        parse_document(_written("sender", mail.sender))
        if mail.refusal is not None:
            assert mail.refusal.strip()
            assert "\n" not in mail.refusal
            return "bounced"
        return self._take_body(mail.body)


@contextmanager
def all_targets() -> Iterator[Targets]:
    log: list[str] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            log.append(self.format(record))

    listening = Listening(logging.WARNING)
    logging.getLogger().addHandler(listening)
    quick = Settings(incoming_default=IncomingSettings(body_seconds_max=0.3, body_bytes_max=500_000))
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = written(Path(name), {"shop.wsdl": wsdls.document_wsdl()})
            with running(folder, APPLICATION, quick) as here:
                yield Targets(folder, here, log)
    finally:
        logging.getLogger().removeHandler(listening)


def _refused(error: MessageError) -> str:
    assert error.message.strip()
    assert len(error.message) < MESSAGE_CHARACTERS_MAX
    assert "unknown error" not in error.message
    return error.kind


def _with_status(status: int, reason: str) -> str:
    assert status in STATUSES
    assert reason.strip()
    return str(status)


def _written(name: str, value: str) -> str:
    root = etree.Element("p", name=name)  # raises where a character is none of XML's
    root.text = value
    return etree.tostring(root, encoding="unicode")


def _canonical(document: Document) -> list[tuple[str, str, list[tuple[str, str]], str, str]]:
    """Return all that is in a tree. C14N refuses namespaces that are relative addresses."""
    root = document.tree.getroot()
    beside = [*reversed(list(root.itersiblings(preceding=True))), *root.itersiblings()]
    return [
        (str(node.tag), node.text or "", sorted(_attributes(node)), node.tail or "", getattr(node, "target", ""))
        for node in [*beside, *root.iter()]
    ]


def _attributes(node: etree._Element) -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in node.items()]


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1000
