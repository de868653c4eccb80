"""The workloads: which application runs, which messages arrive, what lies there before, and which answers are right.

W1   a message of 1 KB arrives; nine of ten are an offerRequest, each of which makes one message of 300 bytes
W2   request, 3 checks, 3 results, decision, release. Every 7th customer has an unpaid invoice, every 11th request a
     restricted item: those are refused
W3   many invoices lie in a queue, about four to a customer; a message asks how many a customer has
W1n, W2n   the same with namespaces, attributes, decimals, dates, `order by` and a timer
conflicts  every message joins one slice and leaves a mark in it; its answer says how many there are

Answers are computed here from the drawn values, and by no code of those that are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

from demaq_bench.drawn_requests import (
    DrawnRequest,
    count_invoices,
    draw_asked_customer,
    draw_request,
    invoice_owners,
    pad,
    unpaid_customers,
)

APPLICATIONS = Path(__file__).parent / "applications"
OTHER_EVERY = 10
"""One in so many messages of W1 is no offerRequest."""
ITEM_BYTES = 48
"""About what an item of W1 comes to."""
SMALL_ITEMS = 4
NOTE = ("Summary of an offer request, derived by the transform rule; forwarded to the planning department. " * 2)[:180]
OFFERS, PARTIES = "urn:example:offers", "urn:example:parties"
VALID_DAYS = 14
LISTED_FROM = Decimal("10.00")
"""From this price on, W1n and W2n list an item."""


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    about: str
    queue: str
    """Where messages arrive."""
    message: Callable[[int], bytes]
    """The message of a number, counted from 0."""
    answers: str
    """The queue of what comes out in the end."""
    answer: Callable[[int], str | None]
    """The answer to the message of a number; None if there is none."""
    steps: int
    """How many messages a node processes for each that arrives."""
    invoices: int = 0
    """How many lie there, in W3."""
    retained: tuple[str, ...] = ()
    """Queues whose messages stay, in slices that are not reset."""

    @property
    def application(self) -> Path:
        return APPLICATIONS / f"{self.name.lower()}.dmq"

    def key(self, number: int) -> str:
        """Return what a message is about. Hand-written code gets it with the message, and need not look for it."""
        return f"r{number:08d}"

    def stock(self) -> Iterator[tuple[str, bytes]]:
        """Yield the invoices that lie there, each with its customer."""
        match self.name:
            case "W2":
                for number, customer in enumerate(unpaid_customers()):
                    yield customer, _invoice(number, customer)
            case "W2n":
                for customer in unpaid_customers():
                    yield customer, f'<invoice xmlns="{OFFERS}" customer="{customer}" amount="17.50"/>'.encode()
            case "W3":
                for number, owner in enumerate(invoice_owners(self.invoices)):
                    yield f"c{owner:06d}", _invoice(number, f"c{owner:06d}")


def find_workload(name: str, invoices: int = 0) -> Workload:
    """Return a workload; W3 with so many invoices."""
    return w3_among(invoices) if name == "W3" else {each.name: each for each in (W1, W2, W1N, W2N, CONFLICTS)}[name]


# --- W1, W2, W3 ------------------------------------------------------------------------------------------------------


def request_text(request: DrawnRequest, root: str, size: int) -> bytes:
    items = [f"<item><code>{item.code}</code><qty>{item.quantity}</qty></item>" for item in request.items]
    head = (
        f"<{root}><requestID>{request.id}</requestID><customerID>{request.customer}</customerID>"
        f"<date>2026-01-{request.day:02d}</date><items>{''.join(items)}</items><comment>"
    )
    return pad(head, f"</comment></{root}>", size)


def _is_offer_request(number: int) -> bool:
    return number % OTHER_EVERY != 0


def _w1_message(number: int, size: int = 1024) -> bytes:
    return request_text(_w1_request(number, size), "offerRequest" if _is_offer_request(number) else "statusQuery", size)


def _w1_request(number: int, size: int) -> DrawnRequest:
    """Return a request with as many items as a size asks for."""
    if size == 1024:
        return draw_request(number)
    return draw_request(number, items=max(SMALL_ITEMS, (size - 400) // ITEM_BYTES))


def _w1_answer(number: int, size: int = 1024) -> str | None:
    if not _is_offer_request(number):
        return None
    request = _w1_request(number, size)
    return (
        f"<offerSummary><requestID>{request.id}</requestID><customerID>{request.customer}</customerID>"
        f"<itemCount>{len(request.items)}</itemCount><note>{NOTE}</note></offerSummary>"
    )


def _w2_message(number: int) -> bytes:
    return request_text(draw_request(number), "offerRequest", 1024)


def _w2_answer(number: int) -> str:
    request = draw_request(number)
    if request.is_refused:
        return f"<refusal><requestID>{request.id}</requestID></refusal>"
    return (
        f"<offer><requestID>{request.id}</requestID><customerID>{request.customer}</customerID>"
        f"<itemCount>{len(request.items)}</itemCount></offer>"
    )


def _invoice(number: int, customer: str) -> bytes:
    head = (
        f"<invoice><requestID>q{number:08d}</requestID><customerID>{customer}</customerID>"
        f"<amount>{number % 99_900 + 100}.00</amount><text>"
    )
    return pad(head, "</text></invoice>", 350)


def _w3_message(number: int, invoices: int) -> bytes:
    customer = draw_asked_customer(number, invoices)
    return (
        f"<requestCustomerInfo><requestID>r{number:08d}</requestID>"
        f"<customerID>{customer}</customerID></requestCustomerInfo>"
    ).encode()


def _w3_answer(number: int, invoices: int) -> str:
    customer = draw_asked_customer(number, invoices)
    count = count_invoices(invoices).get(customer, 0)
    found = f'<refuse open="{count}"/>' if count else "<accept/>"
    ids = f"<requestID>r{number:08d}</requestID><customerID>{customer}</customerID>"
    return f"<customerInfoResult>{ids}{found}</customerInfoResult>"


def _conflicts_answer(number: int) -> str:
    return f"<position><requestID>r{number:08d}</requestID><n>{number + 1}</n></position>"


# --- W1n, W2n --------------------------------------------------------------------------------------------------------


def _w1n_message(number: int) -> bytes:
    return _named_request(number, "offerRequest" if _is_offer_request(number) else "statusQuery")


def _named_request(number: int, root: str) -> bytes:
    request = draw_request(number)
    items = [f'<item code="{item.code}" qty="{item.quantity}" price="{item.price:.2f}"/>' for item in request.items]
    head = (
        f'<{root} xmlns="{OFFERS}" xmlns:p="{PARTIES}" id="{request.id}" date="2026-01-{request.day:02d}">'
        f'<p:customer ref="{request.customer}"/><items>{"".join(items)}</items><comment>'
    )
    return pad(head, f"</comment></{root}>")


def _w1n_answer(number: int) -> str | None:
    request = draw_request(number)
    return _summary("offerSummary", request) if _is_offer_request(number) else None


def _w2n_message(number: int) -> bytes:
    return _named_request(number, "offerRequest")


def _w2n_answer(number: int) -> str:
    request = draw_request(number)
    if request.is_refused:
        return f'<refusal xmlns="{OFFERS}" request="{request.id}"/>'
    return _summary("offer", request)


def _summary(root: str, request: DrawnRequest) -> str:
    until = date(2026, 1, request.day) + timedelta(days=VALID_DAYS)
    listed = [item for item in request.items if item.price >= LISTED_FROM]
    lines = [
        f'<line code="{item.code}">{item.quantity}</line>'
        for item in sorted(listed, key=lambda item: (-item.price, item.code))
    ]
    return (
        f'<{root} xmlns="{OFFERS}" request="{request.id}" customer="{request.customer}" validUntil="{until}">'
        f"<total>{_decimal(request.total)}</total>{''.join(lines)}</{root}>"
    )


def _decimal(value: Decimal) -> str:
    """As XQuery writes it: without zeros that say nothing."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


# ---------------------------------------------------------------------------------------------------------------------

W1 = Workload("W1", "transform", "in", _w1_message, "out", _w1_answer, 1)
W2 = Workload("W2", "procurement", "crm", _w2_message, "customer", _w2_answer, 7)
W1N = Workload("W1n", "transform, with namespaces", "in", _w1n_message, "out", _w1n_answer, 1)
W2N = Workload("W2n", "procurement, with namespaces", "crm", _w2n_message, "customer", _w2n_answer, 7)
CONFLICTS = Workload(
    "conflicts", "one slice for all", "in", _w2_message, "out", _conflicts_answer, 2, retained=("in", "marks")
)


def w3_among(invoices: int) -> Workload:
    """Return W3 among so many invoices."""
    message, answer = partial(_w3_message, invoices=invoices), partial(_w3_answer, invoices=invoices)
    return Workload("W3", "look-up", "finance", message, "crm", answer, 1, invoices)


def with_size(size: int) -> Workload:
    """Return W1 with messages of about so many bytes."""
    message, answer = partial(_w1_message, size=size), partial(_w1_answer, size=size)
    return Workload("W1", "transform", "in", message, "out", answer, 1)
