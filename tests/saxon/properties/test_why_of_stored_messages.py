"""What `why` says of stored messages is what was done with them, whatever was reset or removed since."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, note, seed, settings
from hypothesis import strategies as st

from demaq.errors import MessageError, ProgramError, StillBusy
from demaq.operations.why.verdicts import MadeMessage, RuleVerdict
from demaq.store.memory_store import MemoryStore
from demaq.system_properties import ERROR_LEVEL
from demaq.testing import Lab
from demaq.testing.lab import LabMessage
from tests.support.drawing import run_seed
from tests.support.properties.applications import HOPS_MAX, Application, applications, histories
from tests.support.properties.small_rounds import in_small_rounds
from tests.support.reference.comparing import Event
from tests.support.reference.rule_oracle import canonical

EXAMINED_MAX = 5
"""So many messages are examined after each phase: those that were processed last."""
SEEN: Counter[str] = Counter()
WANTED = ("fired", "not-fired")
ATTEMPTS_MAX = 20
"""Few examples are drawn in a short run, and then a wanted result is missing now and then: so often more are drawn."""


def perform(lab: Lab, event: Event) -> None:
    match event.what:
        case "arrive":
            try:
                lab.enqueue(event.queue, event.body, dict(event.properties))
            except MessageError:
                SEEN["refused"] += 1
        case "run":
            lab.run_until_idle()
        case "advance":
            lab.advance(event.seconds)
        case "collect":
            lab.collect_garbage()
        case "take":
            try:
                lab.take(event.queue)
            except MessageError:
                SEEN["no mailbox"] += 1


def effects_of(lab: Lab, message: str, rule: str) -> tuple[list[LabMessage], list[LabMessage]]:
    """What a rule has made of a message: messages, and errors."""
    made = [
        other
        for queue in lab.program.queues
        for other in lab.read_created(queue)
        if (other.trigger, other.rule) == (message, rule)
    ]
    made.sort(key=lambda other: int(other.id))
    errors = [other for other in made if ERROR_LEVEL in other.properties]
    return [other for other in made if other not in errors], errors


def check(lab: Lab, message: str, said: RuleVerdict) -> None:
    made, errors = effects_of(lab, message, said.rule)
    claimed = [item for item in said.made if isinstance(item, MadeMessage)]
    stored = {other.id for other in made if lab.store.message(int(other.id)) is not None}
    if stored:
        assert said.result in ("fired", "else")
        assert said.is_certain
    if not said.is_certain:
        SEEN["uncertain"] += 1
        assert said.gone
        return
    if errors:
        assert said.result == "failed"
    elif said.result == "failed":
        pass  # an error of the highest level has no queue to go to
    else:
        numbered = {str(item.number): item.body for item in claimed if item.number is not None}
        assert numbered == {other.id: other.body for other in made if other.id in stored}
        if not said.gone:  # else only what is stored is known for sure
            assert [canonical(item.body) for item in claimed] == [canonical(other.body) for other in made]
            assert list(numbered) == [other.id for other in made if other.id in stored]
        SEEN["made on what is left"] += bool(made and said.gone)
        assert said.result in ("fired", "else") or not made
        assert (said.result in ("not-fired",)) <= bool(said.causes)
    SEEN[said.result] += 1
    SEEN["on a slice"] += said.key is not None and said.result == "not-fired"


@settings(max_examples=max(8, settings().max_examples // 10))
@given(st.data())
def run_examples(data: Any) -> None:
    application: Application = data.draw(applications())
    note(application.text)
    phases = data.draw(histories(application, crashes=False))
    try:
        lab = Lab(application.text, MemoryStore(), hops_max=HOPS_MAX)
    except ProgramError:
        return
    with lab, in_small_rounds():
        for phase in phases:
            for event in phase:
                note(str(event))
                try:
                    perform(lab, event)
                except StillBusy:
                    return
            for seq in lab._processed[-EXAMINED_MAX:]:
                found = lab.why(str(seq))
                SEEN["gone"] += found.state == "gone"
                for said in found.rules:
                    check(lab, str(seq), said)


def test_what_why_says_of_a_stored_message_is_what_was_done_with_it() -> None:
    SEEN.clear()
    for attempt in range(ATTEMPTS_MAX):
        seed(run_seed() + attempt)(run_examples)()
        if all([SEEN[what] for what in WANTED]):
            break
    assert {what: SEEN[what] for what in WANTED if not SEEN[what]} == {}
