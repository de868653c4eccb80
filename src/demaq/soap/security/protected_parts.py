"""Select the parts of an envelope that a policy wants signed or encrypted, for senders and receivers alike."""

from __future__ import annotations

from functools import lru_cache

from lxml import etree

from demaq.errors import OperatorError
from demaq.soap.security.secured_envelope import SecuredEnvelope, is_blank
from demaq.soap.security.security_requirements import ElementPath, MessageParts
from demaq.soap.security.wss_names import SECURITY

DECRYPTED = "decrypted"
"""The note of elements that came out of an EncryptedData."""
DECRYPTED_CONTENT = "decrypted content"
"""The note of elements with nothing in them but what came out of an EncryptedData."""


def select_headers(envelope: SecuredEnvelope, parts: MessageParts) -> list[etree._Element]:
    """Return the header blocks that are named, or whose namespace is."""
    return [
        block
        for block in envelope.header_blocks()
        if block.tag != SECURITY and (str(block.tag) in parts.headers or _namespace_of(block) in parts.headers)
    ]


def select_elements(envelope: SecuredEnvelope, parts: MessageParts) -> list[etree._Element]:
    """Return the elements that the paths select, each once."""
    found: dict[etree._Element, None] = {}
    for path in parts.elements:
        try:
            selected = _compile(path)(envelope.root)
        except etree.XPathError:
            raise OperatorError(f"the XPath {path.path} of a policy cannot be evaluated") from None
        for element in selected if isinstance(selected, list) else []:
            if isinstance(element, etree._Element) and isinstance(element.tag, str):
                found[element] = None
    return list(found)


def is_encrypted(envelope: SecuredEnvelope, element: etree._Element) -> bool:
    """Return whether an element came encrypted, by itself or inside of something else."""
    parent = element.getparent()
    return envelope.is_within(element, DECRYPTED) or (
        parent is not None and envelope.is_within(parent, DECRYPTED_CONTENT)
    )


def is_content_encrypted(envelope: SecuredEnvelope, element: etree._Element) -> bool:
    """Return whether everything in an element came encrypted."""
    if element in envelope.noted(DECRYPTED_CONTENT) or is_encrypted(envelope, element):
        return True
    children = list(element.iterchildren("*"))
    texts = [element.text, *[child.tail for child in element]]
    return (
        bool(children)
        and all([is_blank(text) for text in texts])
        and all([child in envelope.noted(DECRYPTED) for child in children])
    )


def _namespace_of(block: etree._Element) -> str:
    namespace = str(block.tag)[1:].rpartition("}")[0] if str(block.tag).startswith("{") else ""
    return f"{{{namespace}}}*"


@lru_cache(maxsize=256)
def _compile(path: ElementPath) -> etree.XPath:
    try:
        return etree.XPath(path.path, namespaces=dict(path.namespaces), smart_strings=False)
    except etree.XPathError:
        raise OperatorError(f"the XPath {path.path} of a policy is not well-formed") from None
