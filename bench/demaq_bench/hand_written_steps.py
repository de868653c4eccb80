"""What the workloads compute, written with lxml for no other purpose: a document in, the texts of new ones out.

Texts are put together rather than trees, because a tree costs more than it saves here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from lxml import etree
from lxml.etree import _Element

from demaq_bench.workloads import LISTED_FROM, NOTE, OFFERS, PARTIES, VALID_DAYS

Made: TypeAlias = tuple[str, bytes]
"""A queue, and a message for it."""
CAPACITY = 10_000
RESTRICTED = "R-"
TIMERS = "later"
"""The queue of messages that come back in a day."""

_REQUEST_ID, _CUSTOMER_ID = etree.XPath("string(//requestID)"), etree.XPath("string(//customerID)")
_ITEM_COUNT, _IS_OFFER = etree.XPath("count(//item)"), etree.XPath("boolean(//offerRequest)")
_CODES, _QUANTITIES = etree.XPath("//item/code/text()"), etree.XPath("sum(//item/qty)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcurementSteps:
    """The steps of W2, for requests of one form."""

    fork: Callable[[_Element], list[Made]]
    check_credit: Callable[[_Element, bool], bytes]
    """With whether the customer has an unpaid invoice."""
    check_restrictions: Callable[[_Element], bytes]
    check_capacity: Callable[[_Element], bytes]
    decide: Callable[[Mapping[str, _Element]], bytes]
    """From the request and its three results, by their names."""
    customer: Callable[[_Element], str]


# --- W1, W3 ----------------------------------------------------------------------------------------------------------


def summarize(document: _Element) -> list[Made]:
    """W1."""
    if not _IS_OFFER(document):
        return []
    text = (
        f"<offerSummary><requestID>{_REQUEST_ID(document)}</requestID>"
        f"<customerID>{_CUSTOMER_ID(document)}</customerID>"
        f"<itemCount>{_ITEM_COUNT(document):.0f}</itemCount><note>{NOTE}</note></offerSummary>"
    )
    return [("out", text.encode())]


def asked_customer(document: _Element) -> str:
    """W3."""
    return str(_CUSTOMER_ID(document))


def report_invoices(document: _Element, count: int) -> bytes:
    """W3."""
    found = f'<refuse open="{count}"/>' if count else "<accept/>"
    return f"<customerInfoResult>{_ids(document)}{found}</customerInfoResult>".encode()


# --- W2 --------------------------------------------------------------------------------------------------------------


def _fork(request: _Element) -> list[Made]:
    ids = _ids(request)
    items = etree.tostring(_child(request, "items"), encoding="unicode")
    return [
        ("finance", f"<requestCustomerInfo>{ids}</requestCustomerInfo>".encode()),
        ("legal", f"<requestRestrictionsInfo>{ids}{items}</requestRestrictionsInfo>".encode()),
        ("supplier", f"<requestCapacityInfo>{ids}{items}</requestCapacityInfo>".encode()),
    ]


def _check_credit(document: _Element, is_unpaid: bool) -> bytes:
    found = "<refuse/>" if is_unpaid else "<accept/>"
    return f"<customerInfoResult>{_ids(document)}{found}</customerInfoResult>".encode()


def _check_restrictions(document: _Element) -> bytes:
    codes: Sequence[Any] = _CODES(document)
    found = [f"<restrictedItem>{code}</restrictedItem>" for code in codes if code.startswith(RESTRICTED)]
    ids = f"<requestID>{_REQUEST_ID(document)}</requestID>"
    return f"<restrictionsResult>{ids}{''.join(found)}</restrictionsResult>".encode()


def _check_capacity(document: _Element) -> bytes:
    found = "<accept/>" if _QUANTITIES(document) < CAPACITY else "<refuse/>"
    return f"<capacityResult><requestID>{_REQUEST_ID(document)}</requestID>{found}</capacityResult>".encode()


def _decide(documents: Mapping[str, _Element]) -> bytes:
    request = documents["offerRequest"]
    if _is_accepted(documents, ""):
        count = f"<itemCount>{_ITEM_COUNT(request):.0f}</itemCount>"
        return f"<offer>{_ids(request)}{count}</offer>".encode()
    return f"<refusal><requestID>{_REQUEST_ID(request)}</requestID></refusal>".encode()


def _ids(document: _Element) -> str:
    request, customer = _REQUEST_ID(document), _CUSTOMER_ID(document)
    return f"<requestID>{request}</requestID><customerID>{customer}</customerID>"


def _is_accepted(documents: Mapping[str, _Element], prefix: str) -> bool:
    return (
        documents["customerInfoResult"].find(f"{prefix}accept") is not None
        and documents["capacityResult"].find(f"{prefix}accept") is not None
        and documents["restrictionsResult"].find(f"{prefix}restrictedItem") is None
    )


def _child(document: _Element, name: str) -> _Element:
    found = document.find(name)
    assert found is not None, f"a request has {name}"
    return found


PLAIN = ProcurementSteps(
    fork=_fork,
    check_credit=_check_credit,
    check_restrictions=_check_restrictions,
    check_capacity=_check_capacity,
    decide=_decide,
    customer=asked_customer,
)

# --- W1n, W2n --------------------------------------------------------------------------------------------------------

_O, _P = f"{{{OFFERS}}}", f"{{{PARTIES}}}"


def summarize_named(document: _Element) -> list[Made]:
    """W1n."""
    if document.tag == f"{_O}offerRequest":
        return [("out", _summary("offerSummary", document))]
    return [(TIMERS, f'<reminder xmlns="{OFFERS}" request="{document.get("id")}"/>'.encode())]


def _summary(root: str, request: _Element) -> bytes:
    until = date.fromisoformat(request.get("date", "")) + timedelta(days=VALID_DAYS)
    items = [
        (Decimal(item.get("price", "")), item.get("code", ""), item.get("qty", ""))
        for item in request.iter(f"{_O}item")
    ]
    total = sum([price * int(quantity) for price, _, quantity in items], Decimal(0))
    listed = sorted([item for item in items if item[0] >= LISTED_FROM], key=lambda item: (-item[0], item[1]))
    lines = [f'<line code="{code}">{quantity}</line>' for _, code, quantity in listed]
    return (
        f'<{root} xmlns="{OFFERS}" request="{request.get("id")}" customer="{_named_customer(request)}"'
        f' validUntil="{until}"><total>{_canonical(total)}</total>{"".join(lines)}</{root}>'
    ).encode()


def _canonical(value: Decimal) -> str:
    """As XQuery writes a decimal."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _named_customer(document: _Element) -> str:
    return _child(document, f"{_P}customer").get("ref", "")


def _fork_named(request: _Element) -> list[Made]:
    mark = f'xmlns="{OFFERS}" request="{request.get("id")}"'
    items = "".join(
        [
            f'<item code="{item.get("code")}" qty="{item.get("qty")}" price="{item.get("price")}"/>'
            for item in request.iter(f"{_O}item")
        ]
    )
    customer = f'<p:customer xmlns:p="{PARTIES}" ref="{_named_customer(request)}"/>'
    return [
        ("finance", f"<requestCustomerInfo {mark}>{customer}</requestCustomerInfo>".encode()),
        ("legal", f"<requestRestrictionsInfo {mark}><items>{items}</items></requestRestrictionsInfo>".encode()),
        ("supplier", f"<requestCapacityInfo {mark}><items>{items}</items></requestCapacityInfo>".encode()),
        (TIMERS, f"<deadline {mark}/>".encode()),
    ]


def _check_credit_named(document: _Element, is_unpaid: bool) -> bytes:
    return _result("customerInfoResult", document, "<refuse/>" if is_unpaid else "<accept/>")


def _check_restrictions_named(document: _Element) -> bytes:
    codes = [item.get("code", "") for item in document.iter(f"{_O}item")]
    found = [f'<restrictedItem code="{code}"/>' for code in sorted(codes) if code.startswith(RESTRICTED)]
    return _result("restrictionsResult", document, "".join(found))


def _check_capacity_named(document: _Element) -> bytes:
    quantity = sum([int(item.get("qty", "")) for item in document.iter(f"{_O}item")])
    return _result("capacityResult", document, "<accept/>" if quantity < CAPACITY else "<refuse/>")


def _result(root: str, document: _Element, content: str) -> bytes:
    return f'<{root} xmlns="{OFFERS}" request="{document.get("request")}">{content}</{root}>'.encode()


def _decide_named(documents: Mapping[str, _Element]) -> bytes:
    request = documents["offerRequest"]
    if _is_accepted(documents, _O):
        return _summary("offer", request)
    return f'<refusal xmlns="{OFFERS}" request="{request.get("id")}"/>'.encode()


NAMED = ProcurementSteps(
    fork=_fork_named,
    check_credit=_check_credit_named,
    check_restrictions=_check_restrictions_named,
    check_capacity=_check_capacity_named,
    decide=_decide_named,
    customer=_named_customer,
)
