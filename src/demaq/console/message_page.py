"""One message: its text, properties and slices, what it comes from and has led to, why, and attempts to send it."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

from demaq.console.store_pool import STATEMENT_SECONDS_MAX
from demaq.console.visits import Answer, BadRequest, Data, Download, NotThere, Rendered, Visit, parse_whole_number
from demaq.console.xml_highlighting import highlight
from demaq.control.message_json import encode_for_listing
from demaq.engine.error_routing import ErrorReport, read_error
from demaq.engine.replay import copies_of, first_number, is_copy
from demaq.errors import OperatorError, StoreError
from demaq.evaluation.state.snapshot_reader import system_properties
from demaq.masking import mask_address, mask_addresses
from demaq.operations.error_groups import read_item
from demaq.operations.trace import Trace, TracedStore, trace_conversation
from demaq.store.message_scan import MessageHead
from demaq.store.opening import open_store_readonly
from demaq.store.protocol import Attempt, StoredMessage
from demaq.suggestions import describe_unknown
from demaq.system_properties import ERROR_LEVEL, INITIAL

ATTEMPTS_MAX = 50
OWN_STORE = ""
"""The name of the console's own store in a trace."""
ADDRESSES = ("Recipient", f"{INITIAL}Recipient")
"""Properties that are addresses, and may have secrets in them."""


def find_message(visit: Visit) -> StoredMessage:
    number = parse_whole_number(visit.parts["id"], "the number of a message")
    message = visit.store.message(number)
    if message is None:
        newest = visit.store.snapshot()
        raise NotThere(
            f"there is no message {number}: the newest number is {newest:,}"
            if number > newest
            else f"message {number} is not stored: it came and went unstored, was removed, or never was a message"
        )
    return message


def show_message(visit: Visit) -> Answer:
    message = find_message(visit)
    head = visit.store.heads([message.seq])[0]
    report = read_error(message.body) if ERROR_LEVEL in message.properties else None
    first = first_number(message)
    return Rendered(
        template="message.html",
        values={
            "message": message,
            "head": head,
            "body": highlight(message.body),
            "properties": show_properties(message),
            "system": show_system_properties(message),
            "trace": find_trace(visit, message.seq),
            "attempts": mask_attempts(visit.store.attempts(None, message.seq, ATTEMPTS_MAX)),
            "unsent": visit.store.unsent(None, message.seq, 1),
            "is_outgoing": _is_outgoing(visit, message),
            "error": read_item(message) if report is not None else None,
            "original": _find_original(visit, report),
            "is_copy": is_copy(message),
            "first": first,
            "copies": [seq for seq in copies_of(visit.store, first) if seq != message.seq],
            "has_rules": visit.application is not None and message.queue in visit.application.program.queues,
        },
    )


def show_why(visit: Visit) -> Answer:
    """Return why rules fired or not, as a part of the page or as a page of its own."""
    message = find_message(visit)
    verdict = visit.worker.run("explain_message", visit.place, message.seq, visit.text("rule"))
    return Rendered(
        template="why_part.html" if visit.flag("part") else "why.html", values={"verdict": verdict, "message": message}
    )


def show_properties(message: StoredMessage) -> list[tuple[str, str, str]]:
    """Return name, type and value of the properties of a message, without secrets in addresses."""
    return [
        (name, f"xs:{value.type}", mask_address(value.text) if name in ADDRESSES else value.text)
        for name, value in message.properties.items()
    ]


def show_system_properties(message: StoredMessage) -> list[tuple[str, str]]:
    return [(name, value.text) for name, value in system_properties(message).items()]


def mask_attempts(attempts: list[Attempt]) -> list[Attempt]:
    """Return attempts without secrets in addresses."""
    return [
        replace(
            attempt,
            destination=mask_address(attempt.destination),
            reason=None if attempt.reason is None else mask_addresses(attempt.reason),
        )
        for attempt in attempts
    ]


def _is_outgoing(visit: Visit, message: StoredMessage) -> bool:
    if visit.application is None:
        return False
    queue = visit.application.program.queues.get(message.queue)
    return queue is not None and queue.kind == "outgoingGateway"


def _find_original(visit: Visit, report: ErrorReport | None) -> dict[str, Any] | None:
    """Return the message that an error is about: as it is stored, else as the error message contains it."""
    if report is None:
        return None
    stored = visit.store.message(report.message) if report.message is not None else None
    body = stored.body if stored is not None else report.initial
    return {
        "seq": report.message,
        "is_stored": stored is not None,
        "queue": report.queue,
        "body": body,
        "shown": None if body is None else highlight(body),
    }


def read_message(visit: Visit) -> Answer:
    message = find_message(visit)
    head: MessageHead = visit.store.heads([message.seq])[0]
    first = first_number(message)
    return Data(
        {
            **encode_for_listing(message),
            "state": head.state,
            "unmatched": head.unmatched,
            "caused": [str(seq) for seq in visit.store.caused_by(message.seq)],
            "copies": [str(seq) for seq in copies_of(visit.store, first) if seq != message.seq],
            "attempts": mask_attempts(visit.store.attempts(None, message.seq, ATTEMPTS_MAX)),
        }
    )


def read_why(visit: Visit) -> Answer:
    message, rule = find_message(visit), visit.text("rule")
    rules = [each.name for each in visit.application.program.rules] if visit.application is not None else []
    if rule is not None and rule not in rules:
        raise BadRequest(describe_unknown("rule", rule, rules))
    return Data(visit.worker.run("explain_message", visit.place, message.seq, rule))


def find_trace(visit: Visit, number: int) -> Trace:
    """Return the conversation of a message, also in the stores of other nodes that the console knows."""
    program = visit.application.program if visit.application is not None else None
    stores = [TracedStore(OWN_STORE, visit.store, program)]
    with ExitStack() as opened:
        for other in visit.others:
            store = opened.enter_context(closing(open_store_readonly(other)))
            store.limit_statements(STATEMENT_SECONDS_MAX)
            known = visit.applications.read(store)
            stores.append(TracedStore(str(other), store, known.program if known is not None else None))
        return trace_conversation(stores, number)


def read_trace(visit: Visit) -> Answer:
    number = parse_whole_number(visit.parts["id"], "the number of a message")
    try:
        return Data(find_trace(visit, number))
    except StoreError:
        raise
    except OperatorError as error:
        raise NotThere(str(error)) from None


def download_body(visit: Visit) -> Answer:
    message = find_message(visit)
    return Download(name=f"message-{message.seq}.xml", data=message.body.encode())
