"""Error messages: their text, and the queue that each is routed to.

The route is the error queue of the rule, else that of the queue, else that of the module, else the one of the system.
An error while an error message is processed goes at least one level further up, so that errors cause no endless loops
(language reference, "Errors").
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lxml import etree

from demaq.documents import Document, parse_document
from demaq.errors import ERROR_KINDS, MessageError
from demaq.evaluation.outcomes import Location
from demaq.language.program.program import SYSTEM_ERRORS, Program, Rule
from demaq.messages import PropertyValue
from demaq.store.protocol import StoredMessage
from demaq.system_properties import ERROR_LEVEL
from demaq.xml_escaping import escape, quoteattr
from demaq.xml_parsers import first_element_end, parse_characters

RULE, QUEUE, MODULE, SYSTEM = range(4)
"""The levels of routes: the values of `demaq:errorLevel`."""

INITIAL_TEXT_MAX = 100_000
"""Limit of characters of a body that is not well-formed, in the message about it."""

_KIND = re.compile(rf"<error><({'|'.join(ERROR_KINDS)})(?: status=\"[0-9]+\")?/>")
_INITIAL_BEGIN, _INITIAL_END = "<initialMessage>", "</initialMessage></error>"
_TEXT_BEGIN = "<initialText>"
_FAULT_BEGIN = "<fault "
_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What has failed for a message, and why."""

    kind: str
    code: str
    description: str
    rule: Rule | None
    at: Location | None = None
    attempt: int = 1
    status: int | None = None
    """The status of the response that refused the message; of the kind `refused` only."""
    fault: str | None = None
    """The element `fault` of the error message, if the response was a SOAP fault."""


def make_hops_failure(rule: Rule, hops_max: int) -> Failure:
    """Return the failure of a rule that enqueues on behalf of a message which is too far from its cause."""
    why = f"the message is {hops_max:,} hops from the one that caused it"
    return Failure(kind="systemError", code="demaq:hops", description=why, rule=rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedMessage:
    """A message from outside that was refused, and so was never stored."""

    queue: str
    text: str
    is_document: bool
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)
    """It has none; error messages about stored messages inherit theirs."""

    @staticmethod
    def of(queue: str, body: str | bytes, error: MessageError, document: Document | None) -> RefusedMessage:
        """Return a refused message. `document` is its body, if that was parsed."""
        if document is None and error.kind != "notWellFormed":
            with contextlib.suppress(MessageError):
                document = parse_document(body)
        if document is not None:
            return RefusedMessage(queue=queue, text=document.text, is_document=True)
        text = body if isinstance(body, str) else body[: 4 * INITIAL_TEXT_MAX].decode("utf-8", "replace")
        return RefusedMessage(queue=queue, text=text[:INITIAL_TEXT_MAX], is_document=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """The content of an error message."""

    kind: str
    rule: str | None
    queue: str
    message: int | None
    """The seq of the message that it is about; None for one that was never stored."""
    code: str
    initial: str | None
    """The text of that message; None if it is not a document."""
    is_in_rule: bool
    """Whether it has a location in a rule. Otherwise the rule, if one is named, created the message."""

    @property
    def is_of_transport(self) -> bool:
        """Whether the delivery of a message failed, and neither a rule nor the system."""
        return self.message is not None and not self.is_in_rule and self.code == f"demaq:{self.kind}"


@dataclass(frozen=True, slots=True)
class Route:
    queue: str
    level: int


def route(program: Program, rule: Rule | None, message: StoredMessage | RefusedMessage) -> Route | None:
    """Return the route of an error about a message; None if even the system's queue has been reached before."""
    queue = program.queues.get(message.queue)
    module = rule.module if rule is not None else queue.module if queue is not None else None
    candidates = (
        rule.errorqueue if rule is not None else None,
        queue.errorqueue if queue is not None else None,
        program.modules[module].errorqueue if module is not None else None,
        SYSTEM_ERRORS,
    )
    reached = int(message.properties[ERROR_LEVEL].text) if ERROR_LEVEL in message.properties else -1
    for level, name in enumerate(candidates):
        if name is not None and level > reached and name != message.queue:
            return Route(name, level)
    return None


def error_body(program: Program, failure: Failure, message: StoredMessage | RefusedMessage, now: datetime) -> str:
    """Return the text of an error message, as its schema says."""
    status = f' status="{failure.status}"' if failure.status is not None else ""
    parts = [f"<error><{failure.kind}{status}/>"]
    if failure.rule is not None:
        parts.append(f"<rule>{_text(failure.rule.name)}</rule>")
    parts.append(f"<queue>{_text(message.queue)}</queue>")
    if not isinstance(message, RefusedMessage):
        parts.append(f"<messageId>{message.seq}</messageId>")
    parts.append(f"<code>{_text(failure.code)}</code><description>{_text(failure.description)}</description>")
    if failure.at is not None:
        file = quoteattr(_allowed(program.file_name(failure.at.file)))
        parts.append(f'<location file={file} line="{failure.at.line}" column="{failure.at.column}"/>')
    parts.append(f"<attempt>{failure.attempt}</attempt><at>{now.isoformat()}</at>")
    if failure.fault is not None:
        parts.append(failure.fault)
    parts.append(f"{_initial(message)}</error>")
    return "".join(parts)


def _initial(message: StoredMessage | RefusedMessage) -> str:
    if not isinstance(message, RefusedMessage):
        return f"<initialMessage>{message.body}</initialMessage>"
    if message.is_document:
        return f"<initialMessage>{message.text}</initialMessage>"
    return f"<initialText>{_text(message.text[:INITIAL_TEXT_MAX])}</initialText>"


def read_error(body: str) -> ErrorReport | None:
    """Return the content of an error message; None for any other text."""
    root = error_head(body)
    if root is None:
        return None
    rest = _after_fault(body).partition(_INITIAL_BEGIN)[2]
    about = root.findtext("messageId")
    return ErrorReport(
        kind=str(root[0].tag),
        rule=root.findtext("rule"),
        queue=root.findtext("queue") or "",
        message=int(about) if about is not None and about.isdigit() else None,
        code=root.findtext("code") or "",
        initial=rest.removesuffix(_INITIAL_END) if rest.endswith(_INITIAL_END) else None,
        is_in_rule=root.find("location") is not None,
    )


def error_head(body: str) -> etree._Element | None:
    """Return an error message without its fault and initial message; None for any other text.

    The initial message may be nested as deeply as a message may be, so that the whole would be too deep for a parser.
    """
    # Text before these marks is escaped, so the first mark is not part of the initial document.
    head, mark, _ = body.partition(_INITIAL_BEGIN)
    if not mark:
        head, mark, _ = body.partition(_TEXT_BEGIN)
    head = head.partition(_FAULT_BEGIN)[0]
    try:
        root = parse_characters(f"{head}</error>".encode()) if mark else None
    except etree.XMLSyntaxError:
        return None
    if root is None or root.tag != "error" or len(root) == 0 or root.find("code") is None:
        return None
    return root if isinstance(root[0].tag, str) else None  # a comment has no name


def _after_fault(body: str) -> str:
    """Return the text after the fault, which may contain any document, such as another error message."""
    begin = body.find(_FAULT_BEGIN)
    if begin < 0 or _INITIAL_BEGIN in body[:begin] or _TEXT_BEGIN in body[:begin]:
        return body
    data = body[begin:].encode()
    return data[first_element_end(data) :].decode()


def kind_of(body: str) -> str | None:
    """Return the kind of an error message; None for any other text."""
    match = _KIND.match(body)
    return match[1] if match is not None else None


def error_queues(program: Program | None) -> list[str]:
    """Return the error queues: the system's own, and those named by rules, queues and modules."""
    if program is None:
        return [SYSTEM_ERRORS]
    named = [module.errorqueue for module in program.modules]
    named += [queue.errorqueue for queue in program.queues.values()]
    named += [rule.errorqueue for rule in program.rules]
    return list(dict.fromkeys([SYSTEM_ERRORS, *[name for name in named if name is not None]]))


def level_property(level: int) -> dict[str, PropertyValue]:
    return {ERROR_LEVEL: PropertyValue("integer", str(level), str(level))}


def _text(text: str) -> str:
    return escape(_allowed(text))


def _allowed(text: str) -> str:
    """Return text with all characters replaced that XML 1.0 does not allow."""
    return _NOT_XML.sub("\ufffd", text)
