"""Requests for offers, for the demonstration and for gateways: about 1 KB each, and larger ones.

Every 7th customer has an unpaid invoice, and every 11th request has a restricted item.
"""

from __future__ import annotations

CUSTOMERS = 700
UNPAID_EVERY = 7
RESTRICTED_EVERY = 11
RESTRICTED_ITEM = "phosgene"
RESTRICTIONS = f'<restrictions><item name="{RESTRICTED_ITEM}"/><item name="ricin"/><item name="sarin"/></restrictions>'
OTHER_EVERY = 10
"""One in so many messages holds no offerRequest."""
ITEM_BYTES = 57
"""About what a further item comes to."""


def transform_message(number: int) -> bytes:
    """Return a message that most often holds a request."""
    kind = "statusRequest" if number % OTHER_EVERY == 0 else "offerRequest"
    return f"<message><{kind}>{_request(number)}</{kind}></message>".encode()


def request_message(number: int) -> bytes:
    """Return a request."""
    return f"<offerRequest>{_request(number)}</offerRequest>".encode()


def invoices() -> list[bytes]:
    """Return the invoices that were not paid."""
    return [
        f"<invoice><customerID>{_customer(number)}</customerID><total>{number + 100}</total></invoice>".encode()
        for number in range(0, CUSTOMERS, UNPAID_EVERY)
    ]


def is_refused(number: int) -> bool:
    """Return whether the request of a number must be refused."""
    return number % CUSTOMERS % UNPAID_EVERY == 0 or number % RESTRICTED_EVERY == 0


def large_transform_message(number: int, size: int) -> bytes:
    """Return the same with as many more items as make about so many bytes."""
    items = "".join(
        [
            f'<item name="{_item(number, n)}" kilograms="{n % 40}" price="{n % 9}.25"/>'
            for n in range(9, 9 + max(0, size - len(transform_message(1))) // ITEM_BYTES)
        ]
    )
    return transform_message(number).replace(b"</items>", f"{items}</items>".encode())


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
