"""Requests about messages that are not stored yet, and their results, arrive as they were sent."""

from __future__ import annotations

import pickle
from dataclasses import fields
from datetime import UTC, datetime

import pytest

from demaq.errors import MessageError
from demaq.evaluation.arrival_request import ArrivalRequest, ArrivalResult, Arrived, Arriving, Created, Passed
from demaq.evaluation.outcomes import Outcome, Reads
from demaq.messages import PropertyValue

PROPERTIES = {"p": PropertyValue("integer", "01", "1")}
REQUEST = ArrivalRequest(
    messages=[Arriving("q", b"<m/>", None, PROPERTIES, {"t": PropertyValue.string("x")}, True), Arriving("r", "<n/>")],
    snapshot=7,
    now=datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
    fold=True,
    paused=frozenset({"s"}),
    whole=frozenset({1}),
    check=True,
)
RESULT = ArrivalResult(
    [
        Arrived("<m/>", PROPERTIES, ((1, "v"),), True, True),
        Passed((Created("rule", "o", "<o/>", PROPERTIES, ((2, "w"),)),), ("rule",)),
        Passed((), ()),
        Passed((), ("rule",), Reads(queues=frozenset({"q"}))),
    ],
    [Outcome(number=3), None, None, None],
    [Outcome(number=4)],
    0.25,
)


@pytest.mark.parametrize("value", [REQUEST, RESULT, ArrivalResult(RESULT.arrived[1:], [None] * 3)])
def test_every_field_arrives(value: ArrivalRequest | ArrivalResult):
    if value in (REQUEST, RESULT):
        empty = [each.name for each in fields(value) if not getattr(value, each.name)]
        assert empty == [], "a field that has its default shows nothing"
    arrived = pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    for each in fields(value):
        assert repr(getattr(arrived, each.name)) == repr(getattr(value, each.name))
        assert type(getattr(arrived, each.name)) is type(getattr(value, each.name))


def test_an_error_arrives_between_other_results():
    result = ArrivalResult([Passed((), ()), MessageError("notWellFormed", "it ends early")], [None, None])
    passed, error = pickle.loads(pickle.dumps(result)).arrived
    assert passed == Passed((), ())
    assert isinstance(error, MessageError)
    assert (error.kind, str(error)) == ("notWellFormed", "it ends early")
