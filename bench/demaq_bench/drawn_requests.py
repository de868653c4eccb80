"""What the messages of the workloads say, drawn from their numbers: the same in every process and every run.

A request has one to six items, each with a code, a quantity and a price; one in eleven has an item whose code is
restricted (`R-`). Its text is padded to a kilobyte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from random import Random

SEED = 7
CUSTOMERS = 1000
UNPAID_EVERY = 7
"""One customer in so many has an unpaid invoice."""
RESTRICTED_EVERY = 11
ITEMS_MAX = 6
MESSAGE_BYTES = 1024
INVOICES_EACH = 4
"""About so many invoices of W3 belong to one customer."""
_WORDS = [
    "solvent",
    "resin",
    "pigment",
    "catalyst",
    "polymer",
    "acid",
    "base",
    "salt",
    "ester",
    "amine",
    "urgent",
    "pallet",
    "drum",
    "export",
    "batch",
    "quality",
    "sample",
    "delivery",
    "contract",
    "plant",
    "capacity",
    "purity",
    "grade",
]
_FILLER = " ".join(Random(SEED).choices(_WORDS, k=400))


@dataclass(frozen=True, slots=True)
class DrawnItem:
    code: str
    quantity: int
    price: Decimal


@dataclass(frozen=True, slots=True)
class DrawnRequest:
    id: str
    customer: str
    day: int
    """In January 2026."""
    items: tuple[DrawnItem, ...]
    is_refused: bool
    """Whether its customer has not paid, or an item is restricted."""

    @property
    def total(self) -> Decimal:
        return sum([item.price * item.quantity for item in self.items], Decimal(0))


def draw_request(number: int, items: int | None = None) -> DrawnRequest:
    """Return the request of a number, counted from 0; with so many items if that is given."""
    random = Random(SEED * 1_000_003 + number)
    customer = random.randrange(CUSTOMERS)
    count = items if items is not None else random.randint(1, ITEMS_MAX)
    is_restricted = number % RESTRICTED_EVERY == 0
    restricted = random.randrange(count) if is_restricted else -1
    drawn = [
        DrawnItem(
            code=f"{'R' if position == restricted else 'A'}-{random.randrange(10_000):04d}",
            quantity=random.randint(1, 50),
            price=Decimal(random.randint(1, 9_999)) / 100,
        )
        for position in range(count)
    ]
    return DrawnRequest(
        id=f"r{number:08d}",
        customer=f"c{customer:06d}",
        day=1 + number % 28,
        items=tuple(drawn),
        is_refused=is_restricted or customer % UNPAID_EVERY == 0,
    )


def pad(head: str, tail: str, size: int = MESSAGE_BYTES) -> bytes:
    """Return both with so much text between that it comes to a size, as far as that is possible."""
    missing = max(0, size - len(head) - len(tail))
    start = len(head) * 7 % 1000
    filler = (_FILLER[start:] + " " + _FILLER * (missing // len(_FILLER)))[:missing]
    return f"{head}{filler.strip()}{tail}".encode()


def unpaid_customers() -> list[str]:
    """Return the customers with an unpaid invoice, in W2."""
    return [f"c{number:06d}" for number in range(0, CUSTOMERS, UNPAID_EVERY)]


@cache
def invoice_owners(invoices: int) -> tuple[int, ...]:
    """Return the customers that so many invoices of W3 belong to."""
    random = Random(SEED + 1)
    owners = max(1, invoices // INVOICES_EACH)
    return tuple([random.randrange(owners) for _ in range(invoices)])


@cache
def count_invoices(invoices: int) -> Mapping[str, int]:
    """Return how many of so many invoices each customer has, of those who have one."""
    counts: dict[str, int] = {}
    for owner in invoice_owners(invoices):
        name = f"c{owner:06d}"
        counts[name] = counts.get(name, 0) + 1
    return counts


def draw_asked_customer(number: int, invoices: int) -> str:
    """Return the customer that a question of W3 is about; half of those that may be drawn have no invoice."""
    return f"c{Random(SEED * 2_000_003 + number).randrange(max(1, invoices // INVOICES_EACH) * 2):06d}"
