"""A source gives a message up: what that means for the others of its sequence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from demaq.backoff import Backoff
from demaq.soap.addressing.endpoint_reference import make_anonymous
from demaq.soap.reliability.number_ranges import NumberRanges
from demaq.soap.reliability.outbound_sequence import OutboundSequence, OutboundState
from demaq.soap.reliability.protocol_messages import CreateSequenceResponse
from demaq.soap.reliability.reliability_versions import RELIABILITY_1_0, RELIABILITY_1_1, ReliabilityVersion
from demaq.soap.reliability.sequence_headers import Acknowledgement
from demaq.soap.reliability.sequence_source import (
    BeginAgain,
    MarkDelivered,
    ReportFault,
    RetransmissionRules,
    SendClose,
    assign_number,
    finish,
    give_up,
    leave,
    note_acknowledged,
    note_closed,
    note_created,
    note_expired,
    note_sent,
    take_due,
)

RULES = RetransmissionRules(backoff=Backoff(1.0, 1.0), attempts_max=2)
BOTH = pytest.mark.parametrize("version", [RELIABILITY_1_0, RELIABILITY_1_1], ids=["1.0", "1.1"])


def make(version: ReliabilityVersion = RELIABILITY_1_1, count: int = 3, is_open: bool = True) -> OutboundSequence:
    value = OutboundSequence(version=version, acks_to=make_anonymous(version.addressing), creation_id="urn:c")
    for _ in range(count):
        value, _ = assign_number(value)
    if is_open:
        value = note_created(value, CreateSequenceResponse(version=version, identifier="urn:s"), 0.0)
    return value


def acknowledge(value: OutboundSequence, *ranges: tuple[int, int], is_final: bool = False) -> Acknowledgement:
    return Acknowledgement(version=value.version, identifier="urn:s", ranges=NumberRanges.of(ranges), is_final=is_final)


@BOTH
def test_a_sequence_with_a_gap_is_closed_while_others_are_unacknowledged(version: ReliabilityVersion):
    value, pairs = give_up(make(version), 2)
    _, decisions = take_due(value, 0.0, RULES)

    assert value.state == OutboundState.CLOSING
    assert value.unacknowledged == (1, 3)
    assert pairs == ((1, 1), (3, 3))
    assert decisions == (SendClose(3),)
    assert not value.has_room


def test_what_the_final_acknowledgement_lacks_goes_into_another_sequence():
    value, _ = give_up(note_sent(make()), 2)
    after, decisions = note_acknowledged(value, acknowledge(value, (1, 1), is_final=True), 0.0)

    assert decisions == (MarkDelivered((1,)),)
    assert after.state == OutboundState.LOST
    assert after.unacknowledged == (3,)
    assert leave(after, is_known_there=True).state == OutboundState.TERMINATING
    assert leave(after, is_known_there=False).state == OutboundState.TERMINATED


def test_a_closed_sequence_without_an_acknowledgement_has_received_nothing_more():
    value, _ = give_up(make(), 2)

    assert note_closed(value).state == OutboundState.LOST
    assert note_closed(replace(value, pending=())).state == OutboundState.TERMINATING


def test_a_sequence_that_cannot_be_closed_begins_again():
    value, _ = give_up(make(), 2)
    for now in (0.0, 10.0):
        value, _ = take_due(value, now, RULES)

    value, decisions = take_due(value, 20.0, RULES)

    assert decisions == (BeginAgain(),)
    assert value.state == OutboundState.LOST
    assert value.unacknowledged == (1, 3)


def test_before_the_sequence_is_created_numbers_move_up():
    value, pairs = give_up(make(is_open=False), 2)

    assert value.state == OutboundState.CREATING
    assert pairs == ((1, 1), (3, 2))
    assert value.unacknowledged == (1, 2)
    assert value.next_number == 3


def test_a_marker_goes_with_the_gap():
    value, _ = give_up(finish(make(RELIABILITY_1_0)), 2)

    assert value.marker is None
    assert value.unacknowledged == (1, 3)


def test_only_what_may_have_been_sent_can_be_acknowledged():
    value = make(count=1)

    assert isinstance(note_acknowledged(value, acknowledge(value, (1, 1)), 0.0)[1][0], ReportFault)
    assert note_acknowledged(note_sent(value), acknowledge(value, (1, 1)), 0.0)[1] == (MarkDelivered((1,)),)


def test_a_sequence_is_lost_when_its_time_is_over():
    value = replace(make(), expires_at=10.0)

    assert note_expired(value, 9.0) == value
    assert note_expired(value, 10.0).state == OutboundState.LOST
    assert note_expired(replace(value, expires_at=None), 10.0).state == OutboundState.OPEN
