"""Many messages from outside at once: each is judged as if it came alone, and they are stored all or none."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from demaq.engine.engine import Engine
from demaq.engine.intake import IncomingMessage
from demaq.errors import MessageError
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.language.loader import load_program_texts
from demaq.store.memory_store import MemoryStore
from tests.support.engines import local_engine

PROGRAM = """
create queue a create queue b
create property n as xs:integer queue a value //n
create property kind as xs:string fixed queue a value name(/*)
create rule r for a if (/never) then do enqueue <x/> into b
"""


NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def engine() -> Engine:
    compiled = compile_program(load_program_texts({"a.dmq": PROGRAM}))
    return local_engine(SaxonEvaluator(compiled), MemoryStore(), lambda: NOW)


def test_messages_are_stored_in_order_with_their_properties(engine):
    sent = [
        IncomingMessage("<m><n>1</n></m>"),
        IncomingMessage(b"<m/>", {"n": "7"}),
        IncomingMessage("<other/>", request="once"),
    ]

    numbers = engine.enqueue_all("a", sent)
    stored = engine.store.messages(numbers)

    assert numbers == sorted(numbers)
    texts = [{name: value.text for name, value in message.properties.items()} for message in stored]
    assert texts == [{"n": "1", "kind": "m"}, {"n": "7", "kind": "m"}, {"kind": "other"}]


def test_a_request_that_is_repeated_adds_nothing(engine):
    sent = [IncomingMessage("<m/>", request="first"), IncomingMessage("<m/>", request="second")]

    assert engine.enqueue_all("a", sent) == engine.enqueue_all("a", sent)
    assert len(engine.store.stored("a", 0, 10)) == 2


def test_a_request_is_the_same_one_whether_it_is_sent_alone_or_among_others(engine):
    number = engine.enqueue("a", "<m/>", {"n": "7"}, request="first")

    assert engine.enqueue_all("a", [IncomingMessage(b"<m/>", {"n": "7"}, "first"), "<m/>"])[0] == number
    assert engine.enqueue("a", "<m/>", {"n": "7"}, request="first") == number
    assert len(engine.store.stored("a", 0, 10)) == 2


@pytest.mark.parametrize("known", ["before", "among them"])
def test_another_message_under_a_known_name_is_refused_with_all_that_come_with_it(engine, known):
    first = IncomingMessage("<m><n>1</n></m>", request="first")
    sent = ["<other/>", IncomingMessage("<m><n>2</n></m>", request="first")]
    if known == "before":
        engine.enqueue_all("a", [first])
    else:
        sent.insert(0, first)

    with pytest.raises(MessageError, match="another message was sent under this name before"):
        engine.enqueue_all("a", sent)
    assert len(engine.store.stored("a", 0, 10)) == (1 if known == "before" else 0)


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (IncomingMessage("<m"), "notWellFormed"),
        (IncomingMessage("<m><n>many</n></m>"), "propertyError"),
        (IncomingMessage("<m/>", {"kind": "x"}), "propertyError"),
        (IncomingMessage("<m/>", {"colour": "x"}), "propertyError"),
    ],
)
def test_where_one_is_refused_none_is_stored(engine, bad, kind):
    with pytest.raises(MessageError) as refused:
        engine.enqueue_all("a", [IncomingMessage("<m/>"), bad, IncomingMessage("<m/>")])

    assert refused.value.kind == kind
    assert engine.store.stored("a", 0, 10) == []


def test_a_queue_that_is_not_there_is_refused(engine):
    with pytest.raises(MessageError, match="there is no queue c"):
        engine.enqueue_all("c", [IncomingMessage("<m/>")])


def test_a_property_that_is_no_string_is_a_mistake_of_the_caller(engine):
    wrong: dict[str, Any] = {"n": 7}
    with pytest.raises(TypeError, match="property n is to be given as a string, not as 7"):
        engine.enqueue("a", "<m/>", wrong)
    with pytest.raises(TypeError, match="property n is to be given as a string, not as 7"):
        engine.enqueue_all("a", ["<m/>", IncomingMessage("<m/>", wrong)])
    assert engine.store.stored("a", 0, 10) == []


@pytest.mark.parametrize("limit", [-1, 2**63])
def test_a_number_of_messages_that_cannot_be_taken_is_a_mistake_of_the_caller(engine, limit):
    with pytest.raises(ValueError, match=f"can be taken at once, not {limit}"):
        engine.take("a", limit)
