"""Applications in which much goes wrong, late or round in circles, and what may arrive at each."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.reference.comparing import Event


@dataclass(frozen=True)
class Simulated:
    name: str
    text: str
    arrival: Callable[[random.Random], Event]


# --- timers of many kinds ---------------------------------------------------------------------------------------------

TIMERS = """
module timers errorqueue refused;
create queue in
create queue later kind echo
create queue hasty kind echo mode transient priority 3
create queue ticks priority 1
create queue out
create queue refused
create property name as xs:string inherited queue in, later, ticks value //name
create slicing names on name
create rule wait for in if (/wait/in) then
  do enqueue . into later with timeout value xs:dayTimeDuration(/wait/in) with target value string(/wait/to)
create rule meet for in if (/wait/at) then
  do enqueue . into later with timeout value xs:dateTime(/wait/at) with target value string(/wait/to)
create rule hurry for in if (/hurry) then
  do enqueue . into hasty with timeout value number(/hurry/seconds) with target value "out"
create rule start for in if (/clock) then do enqueue . into ticks
create rule tick for ticks if (/clock and number(/clock/left) > 0) then
  do enqueue <clock>{/clock/name, /clock/every}<left>{number(/clock/left) - 1}</left></clock> into later
    with timeout value number(/clock/every) with target value "ticks"
create rule enough for names if (count(qs:slice()) > 4) then do reset
"""

LENGTHS = (
    "PT0S", "PT1S", "PT1S", "PT5S", "PT5S", "PT5.25S", "PT1M30S", "-PT5S", "P1D", "P3650D", "P9999999D",
)  # fmt: skip
TIMES = (
    "2025-12-31T23:00:00Z", "2026-01-01T00:00:05Z", "2026-01-01T00:00:05", "2026-01-01T01:00:10+01:00",
    "9999-12-31T23:59:59Z",
)  # fmt: skip
TARGETS = ("out", "out", "out", "ticks", "later", "hasty", "nowhere")


def _timer(chance: random.Random) -> Event:
    name = f"<name>{chance.choice('ab')}</name>"
    to = f"<to>{chance.choice(TARGETS)}</to>"
    body = chance.choice(
        [
            f"<wait>{name}<in>{chance.choice(LENGTHS)}</in>{to}</wait>",
            f"<wait>{name}<in>{chance.choice(LENGTHS)}</in>{to}</wait>",
            f"<wait>{name}<at>{chance.choice(TIMES)}</at>{to}</wait>",
            f"<hurry><seconds>{chance.choice(['0', '2', '-1', '7', 'soon'])}</seconds></hurry>",
            f"<clock>{name}<every>{chance.choice(['0', '1', '2'])}</every><left>{chance.choice('29')}</left></clock>",
        ]
    )
    return Event("arrive", "in", body)


# --- error queues that fail themselves --------------------------------------------------------------------------------

ERRORS = """
module errors errorqueue of_module;
create queue in errorqueue of_queue
create queue plain
create queue checked
create queue of_rule errorqueue of_queue
create queue of_queue
create queue of_module
create queue done
create queue later kind echo errorqueue of_queue
create property number as xs:integer queue checked value //number queue of_queue value //badNumber
create property name as xs:string inherited queue in, plain, of_rule, of_queue, of_module, demaq:errors value //name
create slicing names on name
create rule one for in errorqueue of_rule if (/job) then
  if (number(//fails) >= 1) then do enqueue <never>{1 div 0}</never> into done else do enqueue . into done
create rule two for in if (/job) then do enqueue <job>{//number, //badNumber, //fails}</job> into checked
create rule three for plain if (number(//fails) >= 1) then do enqueue //nothing into done
create rule four for plain errorqueue of_rule if (//fails) then
  do enqueue . into later with timeout value 2 with target value "checked"
create rule r1 for of_rule errorqueue of_module if (/error) then
  if (number((//fails)[1]) >= 2) then do enqueue <never>{1 div 0}</never> into done else do enqueue <one/> into done
create rule r2 for of_queue if (/error) then
  if (number((//fails)[1]) >= 3) then do enqueue (<a/>, <b/>) into done else do enqueue <two/> into done
create rule r3 for of_module errorqueue of_rule if (/error) then
  if (number((//fails)[1]) >= 4) then do enqueue <never>{1 div 0}</never> into done else do enqueue <three/> into done
create rule r4 for demaq:errors errorqueue of_rule if (/error) then
  if (number((//fails)[1]) >= 5) then do enqueue <never>{1 div 0}</never> into done else do enqueue <four/> into done
create rule full for names if (count(qs:slice()) > 5) then (do enqueue <full/> into in, do reset)
"""


def _job(chance: random.Random) -> Event:
    number = chance.choice(["<number>7</number>", "<number>many</number>", "", "<number>1</number><number>2</number>"])
    bad = chance.choice(["", "", "<badNumber>x</badNumber>"])
    body = f"<job><fails>{chance.randint(0, 5)}</fails>{number}{bad}<name>{chance.choice('ab')}</name></job>"
    return Event("arrive", chance.choice(["in", "in", "plain", "checked"]), body)


# --- loops, transient queues, resets and mailboxes --------------------------------------------------------------------

LOOPS = """
create queue in
create queue ping priority 1 mode transient errorqueue stopped
create queue pong errorqueue stopped
create queue again kind echo
create queue stopped
create queue box
create queue memo mode transient
create queue shelf
create property group as xs:string inherited queue in, ping, pong, box, memo value //group
create slicing groups on group
create slicing boxes on group
create property label as xs:string queue shelf value //group
create slicing shelves on label
create rule serve for in if (/ball) then (do enqueue . into ping, do enqueue <note>{//group}</note> into memo)
create rule ping for ping if (/ball) then do enqueue . into pong
create rule pong for pong if (/ball[not(@slow)]) then do enqueue . into ping
create rule slow for pong if (/ball/@slow and number(/ball/left) > 0) then
  do enqueue <ball>{/ball/@slow, //group}<left>{number(/ball/left) - 1}</left></ball> into again
    with timeout value xs:dayTimeDuration(/ball/@slow) with target value "in"
create rule post for in if (/letter) then (do enqueue . into box, do enqueue . into shelf)
create rule clear for groups if (/clear) then (do reset, do enqueue <cleared>{//group}</cleared> into box)
create rule other for in if (/clear) then (do reset boxes key "x", do reset shelves key "x")
create rule several for boxes if (count(qs:slice()/letter) = 3) then do reset groups key qs:slicekey()
"""


def _move(chance: random.Random) -> Event:
    group = f"<group>{chance.choice(['x', 'y', ''])}</group>"
    body = chance.choice(
        [
            f"<ball>{group}</ball>",
            f'<ball slow="{chance.choice(["PT3S", "PT0S"])}">{group}<left>3</left></ball>',
            f"<letter>{group}</letter>",
            f"<letter>{group}</letter>",
            f"<clear>{group}</clear>",
        ]
    )
    given = (("group", chance.choice("xz")),) if chance.random() < 0.2 else ()
    return Event("arrive", chance.choice(["in", "in", "in", "box", "memo"]), body, given)


APPLICATIONS = (
    Simulated("timers", TIMERS, _timer),
    Simulated("errors", ERRORS, _job),
    Simulated("loops", LOOPS, _move),
)
