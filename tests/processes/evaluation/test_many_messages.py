"""Properties and index entries of many messages at once: each as if it were alone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from demaq.documents import Document
from demaq.errors import MessageError
from demaq.evaluation.round_request import PropertyRequest, PropertyResult
from demaq.evaluation.saxon import saxon_properties as arriving
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.messages import PropertyValue
from demaq.store.sqlite import SqliteStore
from tests.support.programs import program

PROGRAM = """
declare function local:endless($n) { if ($n < 0) then $n else local:endless($n + 1) + 1 };
create queue a create queue b create queue plain
create property n as xs:integer queue a value if (//endless) then local:endless(1) else //n
create property m as xs:integer queue a value qs:property("n") * 2
create property k as xs:string queue a
create rule find for plain if (qs:queue("b")[//@id = qs:message()//@id]) then do enqueue <x/> into b
"""
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def arrival(body: str, queue: str = "a", **explicit: PropertyValue) -> PropertyRequest:
    return PropertyRequest(queue=queue, document=Document(body), explicit=explicit, now=NOW)


def texts(answer: PropertyResult | MessageError) -> dict[str, str]:
    assert isinstance(answer, PropertyResult)
    return {name: value.text for name, value in answer.properties.items()}


@pytest.fixture
def saxon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SaxonEvaluator:
    monkeypatch.setattr(arriving, "BATCH_MESSAGES_MAX", 3)
    return SaxonEvaluator(compile_program(program(tmp_path, PROGRAM)))


def test_each_message_is_answered_in_its_place(saxon: SaxonEvaluator) -> None:
    arrivals = [arrival(f"<m><n>{n}</n></m>") for n in range(5)]
    arrivals[3] = arrival("<m><n>three</n></m>")
    arrivals += [arrival("<m/>", "plain"), arrival("<m id='M'/>", "b")]
    answers = saxon.compute_properties(arrivals)
    refused = answers[3]
    assert isinstance(refused, MessageError)
    assert refused.kind == "propertyError"
    assert [texts(answers[n]) for n in (0, 1, 2, 4, 5)] == [*({"n": str(n), "m": str(2 * n)} for n in (0, 1, 2, 4)), {}]
    last = answers[6]
    assert isinstance(last, PropertyResult)
    assert last.entries == ((1, "sM"),)


@pytest.mark.slow
def test_a_message_on_which_an_expression_does_not_return_is_found(saxon: SaxonEvaluator) -> None:
    arrivals = [arrival("<m><n>1</n></m>"), arrival("<m><endless/></m>"), arrival("<m><n>2</n></m>")]
    for answers in (saxon.compute_properties(arrivals), saxon.migrate_properties(arrivals)):
        assert [texts(answers[n])["n"] for n in (0, 2)] == ["1", "2"]
        lost = answers[1]
        assert isinstance(lost, MessageError) or [name for name, _ in lost.failures][:1] == ["n"]


def test_a_stored_message_loses_only_what_cannot_be_computed(saxon: SaxonEvaluator) -> None:
    kept = {"k": PropertyValue.string("K"), "n": PropertyValue("double", "2.0E1", "20")}
    [bad, cast, uncastable] = saxon.migrate_properties(
        [
            arrival("<m><n>one</n></m>", k=kept["k"]),
            arrival("<m/>", "a", **kept),
            arrival("<m><n>3</n></m>", n=kept["k"]),
        ]
    )
    assert isinstance(bad, PropertyResult)
    assert texts(bad) == {"k": "K"}
    assert [name for name, _ in bad.failures] == ["n"]
    assert texts(cast) == {"k": "K", "n": "20", "m": "40"}
    assert isinstance(uncastable, PropertyResult)
    assert (texts(uncastable), [name for name, _ in uncastable.failures]) == ({}, ["n"])


def test_the_other_process_answers_the_same(tmp_path: Path) -> None:
    endless = PROGRAM.replace("local:endless($n + 1) + 1", "local:endless($n + 1)")  # it does not even run out of stack
    loaded = program(tmp_path, endless)
    SqliteStore(tmp_path / "store").close()
    process = ProcessEvaluator(loaded.files(), tmp_path / "store", rule_timeout_seconds=1)
    try:
        arrivals = [arrival("<m><n>1</n></m>"), arrival("<m><endless/></m>"), arrival("<m><n>x</n></m>")]
        received, migrated = process.compute_properties(arrivals[::2]), process.migrate_properties(arrivals)
        assert process.compute_properties([]) == []
    finally:
        process.close()
    assert texts(received[0]) == texts(migrated[0]) == {"n": "1", "m": "2"}
    assert isinstance(received[1], MessageError)
    assert isinstance(migrated[1], MessageError)
    assert "did not end" in migrated[1].message
    assert isinstance(migrated[2], PropertyResult)
    assert migrated[2].failures
