"""Mails that applications write for people: the form `<mail>`, as its published schema says.

    <mail>
      <subject>Your order 17</subject>
      <text>It is on its way.</text>
      <html><p>It is <b>on its way</b>.</p></html>
      <attachment name="order.xml"><order id="17"/></attachment>
    </mail>

Every other document is data, and is attached to a mail whole: see `composition.py`.
"""

from __future__ import annotations

import base64
import binascii
import textwrap
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from lxml import etree

from demaq.errors import MessageError
from demaq.schemas import schema_text
from demaq.xml_parsers import parse_characters

ROOT = "mail"
"""The root element of the form, which has no namespace."""
XHTML = "http://www.w3.org/1999/xhtml"
DECLARATION = b'<?xml version="1.0" encoding="UTF-8"?>\n'

_WHOLE_PAGES = ("html", "head", "body")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    name: str
    type: str
    """A media type without parameters."""
    content: bytes
    is_text: bool
    """Whether the content is UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailForm:
    """What an application has written: at least one of text and HTML."""

    subject: str | None
    text: str | None
    html: str | None
    attachments: tuple[Attachment, ...]


def is_mail_form(root: etree._Element) -> bool:
    return root.tag == ROOT


def read_mail_form(root: etree._Element) -> MailForm:
    """Return what an application has written. Raises a MessageError of kind schemaViolation."""
    schema = _schema()
    if not schema.validate(root):
        first = cast(Any, schema.error_log)[0]
        raise _make_error(f"line {first.line}: {first.message}")
    found: dict[str, etree._Element] = {}
    attachments: list[Attachment] = []
    for child in root.iterchildren(tag=etree.Element):
        name = etree.QName(child).localname
        if name == "attachment":
            attachments.append(_attachment(child))
        elif name in ("subject", "text", "html"):
            found[name] = child
        else:  # the schema lets in whatever is in the namespace of XHTML
            raise _make_error(f"line {child.sourceline}: {name} is not expected; what people see as a page is in html")
    return MailForm(
        subject=" ".join(_string(found["subject"]).split()) or None if "subject" in found else None,
        text=_text(found["text"]) if "text" in found else None,
        html=_html(found["html"]) if "html" in found else None,
        attachments=tuple(attachments),
    )


@cache
def _schema() -> etree.XMLSchema:
    return etree.XMLSchema(parse_characters(schema_text("mail").encode()))


def _text(element: etree._Element) -> str:
    """Return the lines, without what rules indent them by."""
    lines = textwrap.dedent(_string(element)).strip("\n").rstrip()
    return f"{lines}\n" if lines else ""


def _html(element: etree._Element) -> str:
    """Return a page: what is written as text is taken as it is, elements become HTML."""
    children = list(element.iterchildren(tag=etree.Element))
    if not children:
        return _string(element).strip() + "\n"
    page = deepcopy(element)
    page.tail = None
    for node in page.iter(tag=etree.Element):
        name = etree.QName(node)
        if name.namespace == XHTML:
            node.tag = name.localname
    page.tag = "html"
    etree.cleanup_namespaces(page)
    if not any([etree.QName(child).localname in _WHOLE_PAGES for child in children]):
        body = page
        body.tag = "body"
        page = etree.Element("html")
        page.append(body)
    written = etree.tostring(page, encoding="unicode", method="html")
    return f"<!DOCTYPE html>\n{written}\n"


def _attachment(element: etree._Element) -> Attachment:
    name, given = element.get("name", "").strip(), element.get("type")
    children = list(element.iterchildren(tag=etree.Element))
    if element.get("encoding") is not None:
        if children:
            raise _make_error(f"line {element.sourceline}: attachment {name} is no base64, but an element")
        try:
            content = base64.b64decode("".join(_string(element).split()), validate=True)
        except (binascii.Error, ValueError):
            raise _make_error(f"line {element.sourceline}: attachment {name} is no base64") from None
        return Attachment(name=name, type=given or "application/octet-stream", content=content, is_text=False)
    if not children:
        text = _text(element).encode()
        return Attachment(name=name, type=given or "text/plain", content=text, is_text=True)
    if "".join([element.text or "", children[0].tail or ""]).strip():
        raise _make_error(f"line {element.sourceline}: attachment {name} is text and an element: it is one of the two")
    document = DECLARATION + etree.tostring(children[0], encoding="utf-8", with_tail=False)
    return Attachment(name=name, type=given or "application/xml", content=document, is_text=True)


def _string(element: etree._Element) -> str:
    """Return the text in an element, without comments."""
    return str(element.xpath("string()"))


def _make_error(reason: str) -> MessageError:
    return MessageError("schemaViolation", f"the message is no mail as the form says: {reason}")
