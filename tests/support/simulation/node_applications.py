"""Applications for simulated nodes: those for engines, ones with outgoing gateways, and ones that a seed draws."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.support.drawing import drawn_times
from tests.support.properties.meetings import draw_meeting
from tests.support.reference.comparing import Event
from tests.support.simulation.applications import APPLICATIONS, Simulated

# --- orders that are confirmed to customers, in order -----------------------------------------------------------------

DELIVERIES = """
module deliveries errorqueue problems;
create queue orders
create queue checks priority 1
create queue parcels
create queue customers kind outgoingGateway endpoint "http://customers.example/in" errorqueue undelivered
create queue stock kind outgoingGateway endpoint "http://stock.example/in" replyto answers
create queue answers
create queue undelivered
create queue problems
create queue later kind echo
create property customer as xs:string inherited queue orders, parcels, customers, answers value //customer
create property item as xs:string queue checks, stock value //item
create slicing byCustomer on customer
create slicing byItem on item
create rule accept for orders if (/order) then (
  do enqueue <check>{//item, //customer}</check> into checks,
  do enqueue <received>{//customer, //number}</received> into customers
)
create rule check for checks if (/check) then do enqueue <reserve>{//item}</reserve> into stock
create rule ask for byItem if (/check and count(qs:slice()) > 5) then
  (do reset, do enqueue <refill>{//item}</refill> into stock)
create rule reply for answers if (/reply) then do enqueue <parcel/> into parcels
create rule pack for parcels if (/parcel) then
  do enqueue <sent>{count(qs:queue("parcels"))}</sent> into later with timeout value 3 with target value "problems"
create rule cancel for byCustomer if (/cancel) then
  (do reset, do enqueue <cancelled>{//customer, count(qs:slice())}</cancelled> into customers)
"""


def _order(chance: random.Random) -> Event:
    customer = f"<customer>{chance.choice('abc')}</customer>"
    if chance.random() < 0.15:
        return Event("arrive", "orders", f"<cancel>{customer}</cancel>")
    item, number = chance.choice("xyz"), chance.randint(1, 99)
    body = f"<order>{customer}<item>{item}</item><number>{number}</number></order>"
    return Event("arrive", "orders", body)


# --- messages that rules and gateways share, and slices that all are in -----------------------------------------------

RELAY = """
create queue in
create queue out kind outgoingGateway endpoint "http://one.example/" priority 2 errorqueue failed
create queue copies kind outgoingGateway endpoint "http://two.example/" replyto in
create queue failed
create queue box
create property line as xs:string inherited queue in, out, copies, box value (//line)[1]
create slicing lines on line
create rule pass for in if (/m) then (do enqueue . into out, do enqueue <copy>{//line}</copy> into box)
create rule watch for out if (/m and count(qs:queue("box")) > 3) then do enqueue <m2>{//line}</m2> into copies
create rule count for lines if (/m and count(qs:slice()) >= 4) then
  (do enqueue <count n="{count(qs:slice())}">{//line}</count> into copies, do reset)
create rule failure for failed if (/error) then do enqueue <seen/> into box
"""


def _message(chance: random.Random) -> Event:
    line = f"<line>{chance.choice('12')}</line>"
    return Event("arrive", "in", chance.choice([f"<m>{line}</m>", f"<m>{line}</m>", f"<n>{line}</n>"]))


FIXED = (
    Simulated("deliveries", DELIVERIES, _order),
    Simulated("relay", RELAY, _message),
    *APPLICATIONS,
)


def draw_application(chance: random.Random) -> Simulated:
    """Return an application whose messages meet, with what arrives at it."""
    meeting = draw_meeting(chance)
    arrivals = [each for history in meeting.histories for burst in history.bursts for each in burst]

    def arrive(chance: random.Random) -> Event:
        return Event("arrive", *chance.choice(arrivals))

    return Simulated("drawn", meeting.text, arrive)


def choose(seed: int, chance: random.Random) -> Simulated:
    """Return the application of a run: gateways in two of three.

    Loops and drawn ones take part in long runs alone: what a serial execution would have done takes very long to find
    for a few of them.
    """
    others = [each for each in APPLICATIONS if each.name != "loops"]
    if drawn_times() > 1:
        others = [*APPLICATIONS, draw_application(chance)]
    kinds: list[Callable[[], Simulated]] = [
        lambda: FIXED[0],
        lambda: FIXED[1],
        lambda: chance.choice(others),
    ]
    return kinds[seed % len(kinds)]()
