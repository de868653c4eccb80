"""SOAP faults in both versions of SOAP. Codes are those of SOAP 1.1 for both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from lxml import etree

from demaq.soap.envelope import strip_declaration, write_envelope
from demaq.soap.qualified_names import (
    ENVELOPES,
    SOAP_1_1,
    SOAP_1_2,
    XML,
    child_elements,
    clark,
    local_name,
    resolve_name,
)
from demaq.soap.refusals import CLIENT, MUST_UNDERSTAND, SERVER, VERSION_MISMATCH, ProtocolFault, SoapRefusal
from demaq.soap.standalone import cut_out
from demaq.xml_escaping import escape, quoteattr

_WORDS_OF_1_2 = {CLIENT: "Sender", SERVER: "Receiver"}
_WORDS_OF_1_1 = {word: code for code, word in _WORDS_OF_1_2.items()}
_OTHERS_OF_1_2 = (VERSION_MISMATCH, MUST_UNDERSTAND, "DataEncodingUnknown")
_LANGUAGE = "en"
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_QUALIFIED = re.compile(r"Q\{([^{}]*)\}(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The content of a fault."""

    version: str
    code: str
    """Client, Server, VersionMismatch or MustUnderstand; any other code is `Q{namespace}name`."""
    reasons: Sequence[tuple[str, str]] = ()
    """The reasons, each with its language; SOAP 1.1 has one, often without a language."""
    subcodes: Sequence[str] = ()
    """The most general one first, each as `Q{namespace}name`. SOAP 1.1 has none."""
    role: str | None = None
    """The node that failed, `faultactor` in SOAP 1.1."""
    node: str | None = None
    detail: str | None = None
    """The content of the detail: elements with their namespaces, and text."""
    detail_attributes: str = ""
    """The attributes of the detail, as in its tag."""

    @property
    def reason(self) -> str:
        """Return the reason in English, else the first one."""
        return _main_reason(self)[1]


def write_fault(
    version: str,
    code: str,
    reason: str,
    detail_xml: str | None = None,
    headers: Iterable[str] = (),
) -> bytes:
    """Return an envelope with a fault."""
    detail = strip_declaration(detail_xml) if detail_xml else None
    return convert_fault(Fault(version=version, code=code, reasons=[("", reason)], detail=detail), version, headers)


def convert_fault(fault: Fault, version: str, headers: Iterable[str] = ()) -> bytes:
    """Return an envelope of this version with a fault of either version. SOAP 1.1 has no subcodes."""
    inside = _in_1_1(fault) if version == SOAP_1_1 else _in_1_2(fault)
    return write_envelope(version, f"<soapenv:Fault>{inside}</soapenv:Fault>", headers)


def write_refusal(refusal: SoapRefusal, version: str = SOAP_1_1, headers: Iterable[str] = ()) -> bytes:
    """Return the fault for a refused envelope, in this version unless the envelope has its own.

    SOAP 1.2 names in the header the blocks not understood (part 1, 5.4.8) or the supported envelopes (5.4.7).
    """
    version = refusal.version or version
    if refusal.protocol is not None:
        return write_protocol_fault(refusal.protocol, version, headers)
    blocks = list(headers)
    if version == SOAP_1_2:
        blocks += [_not_understood(name) for name in refusal.not_understood]
        if refusal.fault == VERSION_MISMATCH:
            blocks.append(_upgrade())
    return write_fault(version, refusal.fault, refusal.message, headers=blocks)


def write_protocol_fault(fault: ProtocolFault, version: str, headers: Iterable[str] = ()) -> bytes:
    """Return an envelope with a fault that a protocol in the header defines."""
    blocks = list(headers)
    if version == SOAP_1_1:
        return write_fault(version, fault.code_of_1_1, fault.reason, headers=[*blocks, *fault.blocks_of_1_1])
    written = Fault(
        version=version, code=fault.code, reasons=[("", fault.reason)], subcodes=fault.subcodes, detail=fault.detail
    )
    return convert_fault(written, version, blocks)


def fault_status(version: str, code: str) -> int:
    """Return the HTTP status of a fault: SOAP 1.1, 6.2; SOAP 1.2 part 2, table 20."""
    if version == SOAP_1_2 and _word_of_1_2(code) == _WORDS_OF_1_2[CLIENT]:
        return HTTPStatus.BAD_REQUEST
    return HTTPStatus.INTERNAL_SERVER_ERROR


def read_fault(tree: etree._ElementTree) -> Fault | None:
    """Return the fault in an envelope, or the fault that a document is; None if there is none.

    Raises MessageError if more namespaces are declared around its detail than allowed.
    """
    root = tree.getroot()
    for version, namespace in ENVELOPES.items():
        tag = clark(namespace, "Fault")
        fault = root if root.tag == tag else root.find(f"{clark(namespace, 'Body')}/{tag}")
        if fault is not None:
            return _read_1_1(fault) if version == SOAP_1_1 else _read_1_2(fault, namespace)
    return None


def describe_fault(fault: Fault) -> str:
    """Return the element `fault` of an error message, which is the same for both versions."""
    parts = [f"<fault version={_attribute(fault.version)}><code>{_text(fault.code)}</code>"]
    parts += [f"<subcode>{_text(code)}</subcode>" for code in fault.subcodes]
    for language, words in fault.reasons:
        parts.append(f"<reason{f' lang={_attribute(language)}' if language else ''}>{_text(words)}</reason>")
    parts += [
        f"<{name}>{_text(value)}</{name}>" for name, value in (("node", fault.node), ("role", fault.role)) if value
    ]
    return "".join([*parts, _detail_element("detail", fault), "</fault>"])


# writing


def _in_1_1(fault: Fault) -> str:
    actor = f"<faultactor>{_text(fault.role)}</faultactor>" if fault.role else ""
    language, words = _main_reason(fault)
    said_in = f" xml:lang={_attribute(language)}" if language else ""
    return (
        f"{_code_element('faultcode', fault.code)}<faultstring{said_in}>{_text(words)}</faultstring>{actor}"
        f"{_detail_element('detail', fault)}"
    )


def _in_1_2(fault: Fault) -> str:
    subcode = ""
    own = [fault.code] if _QUALIFIED.fullmatch(fault.code) else []
    for code in reversed([*own, *fault.subcodes]):
        subcode = f"<soapenv:Subcode>{_code_element('soapenv:Value', code)}{subcode}</soapenv:Subcode>"
    texts = "".join(
        [
            f"<soapenv:Text xml:lang={_attribute(language or _LANGUAGE)}>{_text(words)}</soapenv:Text>"
            for language, words in fault.reasons or [("", "")]
        ]
    )
    places = [("Node", fault.node), ("Role", fault.role)]
    return (
        f"<soapenv:Code>{_code_element('soapenv:Value', _word_of_1_2(fault.code))}{subcode}</soapenv:Code>"
        f"<soapenv:Reason>{texts}</soapenv:Reason>"
        + "".join([f"<soapenv:{name}>{_text(value)}</soapenv:{name}>" for name, value in places if value])
        + _detail_element("soapenv:Detail", fault)
    )


def _code_element(name: str, code: str) -> str:
    qualified = _QUALIFIED.fullmatch(code)
    if qualified is None:
        return f"<{name}>soapenv:{_text(code)}</{name}>"
    return f"<{name} xmlns:c={_attribute(qualified[1])}>c:{_text(qualified[2])}</{name}>"


def _detail_element(name: str, fault: Fault) -> str:
    if not fault.detail and not fault.detail_attributes:
        return ""
    return f"<{name}{fault.detail_attributes}>{fault.detail or ''}</{name}>"


def _main_reason(fault: Fault) -> tuple[str, str]:
    english = [reason for reason in fault.reasons if reason[0].lower().startswith(_LANGUAGE)]
    return next(iter([*english, *fault.reasons]), ("", ""))


def _word_of_1_2(code: str) -> str:
    """Return the code of SOAP 1.2, which has no others; other codes become subcodes."""
    general = code.partition(".")[0]
    return _WORDS_OF_1_2.get(general, general if general in _OTHERS_OF_1_2 else _WORDS_OF_1_2[SERVER])


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", text))


def _not_understood(name: str) -> str:
    namespace = name[1:].partition("}")[0] if name.startswith("{") else ""
    declared = f" xmlns:n={quoteattr(namespace)}" if namespace else ""
    prefix = "n:" if namespace else ""
    return f'<soapenv:NotUnderstood{declared} qname="{prefix}{local_name(name)}"/>'


def _upgrade() -> str:
    known = [
        f'<soapenv:SupportedEnvelope xmlns:v="{ENVELOPES[version]}" qname="v:Envelope"/>'
        for version in (SOAP_1_2, SOAP_1_1)
    ]
    return f"<soapenv:Upgrade>{''.join(known)}</soapenv:Upgrade>"


# reading


def _read_1_1(fault: etree._Element) -> Fault:
    string, detail = fault.find("faultstring"), fault.find("detail")
    return Fault(
        version=SOAP_1_1,
        code=_code(fault.find("faultcode")) or SERVER,
        reasons=_reasons([string] if string is not None else []),
        role=_words(fault.find("faultactor")) or None,
        detail=_content(detail),
        detail_attributes=_attributes(detail),
    )


def _read_1_2(fault: etree._Element, namespace: str) -> Fault:
    def at(*names: str) -> etree._Element | None:
        return fault.find("/".join([clark(namespace, name) for name in names]))

    code = _code(at("Code", "Value")) or SERVER
    subcodes = []
    inner = at("Code", "Subcode")
    while inner is not None:
        subcodes.append(_code(inner.find(clark(namespace, "Value"))))
        inner = inner.find(clark(namespace, "Subcode"))
    detail = at("Detail")
    return Fault(
        version=SOAP_1_2,
        code=_WORDS_OF_1_1.get(code, code),
        reasons=_reasons(fault.findall(f"{clark(namespace, 'Reason')}/{clark(namespace, 'Text')}")),
        subcodes=tuple([one for one in subcodes if one is not None]),
        role=_words(at("Role")) or None,
        node=_words(at("Node")) or None,
        detail=_content(detail),
        detail_attributes=_attributes(detail),
    )


def _code(element: etree._Element | None) -> str | None:
    """Return a code of SOAP by its local name, any other one with its namespace."""
    if element is None:
        return None
    name = resolve_name(element, element.text or "")
    if not local_name(name):
        return None
    namespace = name[1:].rpartition("}")[0] if name.startswith("{") else ""
    return f"Q{name}" if namespace and namespace not in ENVELOPES.values() else local_name(name)


def _reasons(elements: Iterable[etree._Element]) -> tuple[tuple[str, str], ...]:
    return tuple([(element.get(clark(XML, "lang"), ""), _words(element)) for element in elements])


def _words(element: etree._Element | None) -> str:
    return " ".join(str(element.xpath("string()")).split()) if element is not None else ""


def _content(detail: etree._Element | None) -> str | None:
    """Return the content without white space around elements; each element is self-contained."""
    if detail is None:
        return None
    has_text = any([text and text.strip() for text in [detail.text, *[child.tail for child in detail]]])
    pieces = [escape(detail.text or "")] if has_text else []
    for child in detail if has_text else child_elements(detail):
        pieces.append(cut_out(child))
        if has_text:
            pieces.append(escape(child.tail or ""))
    return "".join(pieces) or None


def _attributes(detail: etree._Element | None) -> str:
    """Return the attributes with the namespaces of their names."""
    written: list[str] = []
    for number, (name, value) in enumerate(detail.attrib.items() if detail is not None else ()):
        namespace, _, local = str(name).rpartition("}")
        prefix = "xml:" if namespace[1:] == XML else f"a{number}:" if namespace else ""
        if prefix and prefix != "xml:":
            written.append(f" xmlns:a{number}={quoteattr(namespace[1:])}")
        written.append(f" {prefix}{local}={quoteattr(str(value))}")
    return "".join(written)
