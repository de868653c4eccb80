"""SOAP faults: what went wrong, in the version of SOAP that was asked in. Codes are the words of SOAP 1.1 for both."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

from lxml import etree

from demaq.gateways.soap.envelope import without_declaration, write_envelope
from demaq.gateways.soap.names import ENVELOPES, SOAP_1_1, SOAP_1_2, clark, elements_of, local_name, resolved
from demaq.gateways.soap.refusals import CLIENT, MUST_UNDERSTAND, SERVER, VERSION_MISMATCH, SoapRefusal
from demaq.gateways.soap.standalone import standalone
from demaq.gateways.soap.writing import escape, quoteattr

DETAILS_MAX = 100
"""How many elements of a fault's detail are kept."""

_WORDS_OF_1_2 = {CLIENT: "Sender", SERVER: "Receiver"}
_WORDS_OF_1_1 = {word: code for code, word in _WORDS_OF_1_2.items()}
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault that came back."""

    version: str
    code: str
    """Client, Server, VersionMismatch, MustUnderstand, or what the other side has made up."""
    reason: str
    detail: str | None = None
    """The documents in the detail, one behind the other."""
    subcode: str | None = None
    role: str | None = None


def write_fault(
    version: str,
    code: str,
    reason: str,
    detail_xml: str | None = None,
    headers: Iterable[str] = (),
) -> bytes:
    """An envelope with a fault."""
    word = escape(_NOT_XML.sub("\ufffd", code)) if version == SOAP_1_1 else _word_of_1_2(code)
    words = escape(_NOT_XML.sub("\ufffd", reason))
    detail = without_declaration(detail_xml) if detail_xml else ""
    if version == SOAP_1_1:
        wrapped = f"<detail>{detail}</detail>" if detail else ""
        inside = f"<faultcode>soapenv:{word}</faultcode><faultstring>{words}</faultstring>{wrapped}"
    else:
        wrapped = f"<soapenv:Detail>{detail}</soapenv:Detail>" if detail else ""
        inside = (
            f"<soapenv:Code><soapenv:Value>soapenv:{word}</soapenv:Value></soapenv:Code>"
            f'<soapenv:Reason><soapenv:Text xml:lang="en">{words}</soapenv:Text></soapenv:Reason>{wrapped}'
        )
    return write_envelope(version, f"<soapenv:Fault>{inside}</soapenv:Fault>", headers)


def write_refusal(refusal: SoapRefusal, headers: Iterable[str] = ()) -> bytes:
    """The fault that answers a refused envelope; in SOAP 1.2 with the names of what was not understood."""
    blocks = list(headers)
    if refusal.version == SOAP_1_2:
        blocks += [_not_understood(name) for name in refusal.not_understood]
    return write_fault(refusal.version, refusal.fault, refusal.message, headers=blocks)


def fault_status(version: str, code: str) -> int:
    """The HTTP status that goes with a fault."""
    if version == SOAP_1_2 and code.partition(".")[0] == CLIENT:
        return HTTPStatus.BAD_REQUEST
    return HTTPStatus.INTERNAL_SERVER_ERROR


def read_fault(tree: etree._ElementTree) -> Fault | None:
    """The fault in an envelope, or the fault that a document is; None if there is none."""
    root = tree.getroot()
    for version, namespace in ENVELOPES.items():
        tag = clark(namespace, "Fault")
        fault = root if root.tag == tag else root.find(f"{clark(namespace, 'Body')}/{tag}")
        if fault is not None:
            return _read_1_1(fault) if version == SOAP_1_1 else _read_1_2(fault, namespace)
    return None


def _word_of_1_2(code: str) -> str:
    """SOAP 1.2 knows these words only; more about a fault belongs into its detail."""
    general = code.partition(".")[0]
    return _WORDS_OF_1_2.get(general, general if general in (VERSION_MISMATCH, MUST_UNDERSTAND) else "Receiver")


def _read_1_1(fault: etree._Element) -> Fault:
    return Fault(
        version=SOAP_1_1,
        code=_code(fault.find("faultcode")) or SERVER,
        reason=_words(fault.find("faultstring")),
        detail=_detail(fault.find("detail")),
        role=_words(fault.find("faultactor")) or None,
    )


def _read_1_2(fault: etree._Element, namespace: str) -> Fault:
    def at(*names: str) -> etree._Element | None:
        return fault.find("/".join([clark(namespace, name) for name in names]))

    code = _code(at("Code", "Value")) or SERVER
    return Fault(
        version=SOAP_1_2,
        code=_WORDS_OF_1_1.get(code, code),
        reason=_words(at("Reason", "Text")),
        detail=_detail(at("Detail")),
        subcode=_code(at("Code", "Subcode", "Value")),
        role=_words(at("Role")) or None,
    )


def _code(element: etree._Element | None) -> str | None:
    return local_name(resolved(element, element.text or "")) or None if element is not None else None


def _words(element: etree._Element | None) -> str:
    return " ".join(str(element.xpath("string()")).split()) if element is not None else ""


def _detail(element: etree._Element | None) -> str | None:
    return (
        "".join([standalone(child) for child in elements_of(element, DETAILS_MAX)]) or None
        if element is not None
        else None
    )


def _not_understood(name: str) -> str:
    namespace = name[1:].partition("}")[0] if name.startswith("{") else ""
    declared = f" xmlns:n={quoteattr(namespace)}" if namespace else ""
    prefix = "n:" if namespace else ""
    return f'<soapenv:NotUnderstood{declared} qname="{prefix}{local_name(name)}"/>'
