"""The HTTP headers of SOAP: content types and actions."""

from __future__ import annotations

from email.message import Message

from demaq.soap.qualified_names import SOAP_1_1, SOAP_1_2

_MEDIA_TYPES = {SOAP_1_1: "text/xml", SOAP_1_2: "application/soap+xml"}


def content_type(version: str, action: str | None = None) -> str:
    """Return the content type of an envelope. SOAP 1.2 has the action in it, SOAP 1.1 in the header SOAPAction."""
    if version == SOAP_1_2 and action:
        return f"{_MEDIA_TYPES[version]}; charset=utf-8; action={_quote(action)}"
    return f"{_MEDIA_TYPES[version]}; charset=utf-8"


def action_headers(version: str, action: str | None) -> dict[str, str]:
    """Return the headers of a request besides its content type."""
    return {"SOAPAction": _quote(action or "")} if version == SOAP_1_1 else {}


def media_type(header: str | None) -> str:
    """Return the media type in lower case, without parameters."""
    return (header or "").partition(";")[0].strip().lower()


def read_action(content_type_header: str | None, soap_action: str | None) -> str | None:
    """Return the action of a request: the header SOAPAction, quoted or not, or the parameter of the content type."""
    if soap_action is not None:
        action = soap_action.strip()
        if len(action) > 1 and action[0] == action[-1] and action[0] in "\"'":
            action = action[1:-1]
        if action:
            return action
    if content_type_header and ";" in content_type_header:
        parsed = Message()
        parsed["content-type"] = content_type_header
        found = parsed.get_param("action")
        if isinstance(found, str):
            return found.strip() or None
    return None


def _quote(text: str) -> str:
    safe = "".join([character for character in text if character.isprintable()])
    return '"' + safe.replace("\\", "\\\\").replace('"', '\\"') + '"'
