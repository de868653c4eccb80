"""The workloads: which application runs, which messages arrive, and how often that is.

W1  a message of 1 KB arrives, nine of ten hold an offerRequest, each of those makes one message of 300 bytes
W2  request, 3 checks, 3 results, join, one decision, release: 8 steps. Every 7th customer has an unpaid invoice, every
    11th request a restricted item
W3  many invoices lie in a queue, four to a customer; a message looks up those of its customer: 1 step
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

APPLICATIONS = Path(__file__).parent / "applications"

CUSTOMERS = 700
UNPAID_EVERY = 7
RESTRICTED_EVERY = 11
RESTRICTED_ITEM = "phosgene"
RESTRICTIONS = f'<restrictions><item name="{RESTRICTED_ITEM}"/><item name="ricin"/><item name="sarin"/></restrictions>'
OTHER_EVERY = 10
"""One in so many messages of W1 holds no offerRequest."""
ITEM_BYTES = 57
"""About what a further item of W1 comes to."""
INVOICES_EACH = 4
"""So many invoices of W3 belong to one customer."""
STRIDE = 7919
"""A prime: consecutive questions are about customers far from each other."""


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    about: str
    application: Path
    queue: str
    """Where messages arrive."""
    message: Callable[[int], bytes]
    """The message of a number, counted from 0."""
    answers: str
    """The queue of what comes out in the end."""
    steps: int
    """How many messages are processed for each that arrives."""
    answers_stay: bool = True
    """Whether results stay in a mailbox until they are taken."""


def transform_message(number: int) -> bytes:
    """W1: about 1 KB."""
    kind = "statusRequest" if number % OTHER_EVERY == 0 else "offerRequest"
    return f"<message><{kind}>{_request(number)}</{kind}></message>".encode()


def request_message(number: int) -> bytes:
    """W2: about 1 KB."""
    return f"<offerRequest>{_request(number)}</offerRequest>".encode()


def invoices() -> list[bytes]:
    """Return what lies in the queue of unpaid invoices when W2 begins."""
    return [
        f"<invoice><customerID>{_customer(number)}</customerID><total>{number + 100}</total></invoice>".encode()
        for number in range(0, CUSTOMERS, UNPAID_EVERY)
    ]


def is_refused(number: int) -> bool:
    """Return whether the request of a number must be refused."""
    return number % CUSTOMERS % UNPAID_EVERY == 0 or number % RESTRICTED_EVERY == 0


def refused_requests(requests: int) -> int:
    """Return how many of the first requests of W2 must be refused."""
    return sum([is_refused(number) for number in range(requests)])


def large_transform_message(number: int, size: int) -> bytes:
    """W1, with as many more items as make about so many bytes."""
    items = "".join(
        [
            f'<item name="{_item(number, n)}" kilograms="{n % 40}" price="{n % 9}.25"/>'
            for n in range(9, 9 + max(0, size - len(transform_message(1))) // ITEM_BYTES)
        ]
    )
    return transform_message(number).replace(b"</items>", f"{items}</items>".encode())


def small_transform_message(number: int) -> bytes:
    """W1, half as large: without what no rule reads."""
    items = "".join([f'<item name="{_item(number, n)}" kilograms="{n}" price="{n}.25"/>' for n in range(1, 8)])
    parts = f"<requestID>R{number}</requestID><customerID>{_customer(number)}</customerID><items>{items}</items>"
    kind = "statusRequest" if number % OTHER_EVERY == 0 else "offerRequest"
    return f"<message><{kind}>{parts}</{kind}></message>".encode()


def invoice(number: int) -> bytes:
    """W3: one of the invoices that lie there."""
    return (
        f"<invoice><customerID>{invoice_customer(number)}</customerID><number>{number}</number>"
        f"<total>{number % 89 + 10}</total><text>for goods delivered in spring</text></invoice>"
    ).encode()


def invoice_customer(number: int) -> str:
    return f"C{number // INVOICES_EACH}"


def question(number: int, invoices: int) -> bytes:
    """W3: a question about one of the customers that so many invoices belong to."""
    customer = invoice_customer(number * STRIDE * INVOICES_EACH % invoices)
    return f"<question><customerID>{customer}</customerID></question>".encode()


def questions_among(invoices: int) -> Workload:
    """W3 with so many invoices."""
    message = partial(question, invoices=invoices)
    return Workload("W3", "look-up", APPLICATIONS / "w3.dmq", "questions", message, "answers", 1)


W1 = Workload("W1", "transform", APPLICATIONS / "w1.dmq", "requests", transform_message, "offers", 1)
W2 = Workload("W2", "procurement", APPLICATIONS / "w2.dmq", "crm", request_message, "customer", 8, answers_stay=False)


def _customer(number: int) -> str:
    return f"C{number % CUSTOMERS}"


def _request(number: int) -> str:
    items = [
        f'<item name="{_item(number, n)}" kilograms="{number % 40 + n}" price="{n}.25">'
        f"<use>batch {n} of the year</use></item>"
        for n in range(1, 9)
    ]
    return (
        f"<requestID>R{number}</requestID><customerID>{_customer(number)}</customerID>"
        f"<address><name>Customer {_customer(number)}</name><street>Seminargebaude A 5</street><city>Mannheim</city>"
        f"<country>Germany</country></address><items>{''.join(items)}</items>"
        "<remark>Please let us have your offer before the end of the month; the goods are needed in spring.</remark>"
    )


def _item(number: int, position: int) -> str:
    restricted = number % RESTRICTED_EVERY == 0 and position == 3
    return RESTRICTED_ITEM if restricted else f"acetone-{(number + position) % 50}"
