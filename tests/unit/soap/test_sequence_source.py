"""The source of a sequence, step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from demaq.backoff import Backoff
from demaq.soap.addressing.endpoint_reference import make_anonymous
from demaq.soap.reliability.number_ranges import NO_NUMBERS, NumberRanges
from demaq.soap.reliability.outbound_sequence import WINDOW_MAX, OutboundSequence, OutboundState
from demaq.soap.reliability.protocol_messages import CreateSequenceResponse
from demaq.soap.reliability.reliability_faults import FaultName, ReliabilityFault
from demaq.soap.reliability.reliability_versions import MESSAGE_NUMBER_MAX, RELIABILITY_1_0, RELIABILITY_1_1
from demaq.soap.reliability.sequence_headers import Acknowledgement
from demaq.soap.reliability.sequence_source import (
    BATCH_MAX,
    BeginAgain,
    GiveUp,
    MarkDelivered,
    ReportFault,
    RetransmissionRules,
    SendClose,
    SendCreate,
    SendNumbered,
    SendTerminate,
    assign_number,
    finish,
    next_due,
    note_acknowledged,
    note_closed,
    note_created,
    note_fault,
    note_terminated,
    restart,
    take_due,
)

RULES = RetransmissionRules(backoff=Backoff(seconds_first=10, seconds_max=40), attempts_max=4)
BOTH = pytest.mark.parametrize("version", [RELIABILITY_1_0, RELIABILITY_1_1], ids=["1.0", "1.1"])


def new(version=RELIABILITY_1_1, **more):
    return OutboundSequence(
        version=version, acks_to=make_anonymous(version.addressing), creation_id="urn:uuid:c", **more
    )


def created(value, now=0.0, **more):
    response = CreateSequenceResponse(version=value.version, identifier="urn:s", **more)
    return note_created(value, response, now)


def with_messages(count, version=RELIABILITY_1_1, **more):
    value = new(version, **more)
    for _ in range(count):
        value, _ = assign_number(value)
    return created(value)


def sent(value, now=0.0):
    """Return the value after all that is due was sent, and what that was."""
    after, steps = take_due(value, now, RULES)
    assert OutboundSequence.from_json(after.to_json()) == after
    return after, steps


def acknowledge(value, text, now=0.0, **more):
    ranges = NumberRanges.parse(text)
    return note_acknowledged(
        value, Acknowledgement(version=value.version, identifier="urn:s", ranges=ranges, **more), now
    )


def fault(name, identifier="urn:s", version=RELIABILITY_1_1):
    return ReliabilityFault(version=version, name=name, identifier=identifier)


def test_messages_are_numbered_from_1_and_sent_once_the_sequence_exists():
    value, one = assign_number(new())
    value, two = assign_number(value)
    assert (one, two) == (1, 2)
    value, steps = sent(value)
    assert steps == (SendCreate(),)
    assert value.make_creation().acks_to == value.acks_to
    value, steps = sent(created(value))
    assert steps == (SendNumbered(1), SendNumbered(2))
    assert sent(value) == (value, ())
    assert next_due(value) == 10.0


def test_what_is_not_acknowledged_is_sent_again_with_back_off():
    value, _ = sent(with_messages(2))
    value, decisions = acknowledge(value, "2")
    assert decisions == (MarkDelivered((2,)),)
    times = []
    for now in range(200):
        value, steps = sent(value, float(now))
        if steps and isinstance(steps[0], SendNumbered):
            assert steps == (SendNumbered(1, asks_for_ack=True),)
            times.append(now)
    assert times == [10, 30, 70]
    assert value.state == OutboundState.FAILED


def test_a_message_that_is_never_acknowledged_fails_with_those_after_it():
    value, _ = sent(with_messages(3))
    value, _ = acknowledge(value, "2")
    found = []
    for now in range(0, 200, 10):
        value, steps = sent(value, float(now))
        found += [step for step in steps if isinstance(step, GiveUp)]
    assert [step.message_numbers for step in found] == [(1, 3)]
    assert sent(value, 1e9) == (value, ())
    assert next_due(value) is None


def test_an_old_acknowledgement_takes_nothing_back():
    value, _ = sent(with_messages(3))
    value, _ = acknowledge(value, "1-3")
    assert acknowledge(value, "1") == (value, ())
    assert str(value.acknowledged) == "1-3"


@pytest.mark.parametrize("text", ["4", "1-4", f"1-{2**64 - 1}"])
def test_an_acknowledgement_of_what_was_never_sent_is_invalid(text):
    value, _ = sent(with_messages(3))
    after, [decision] = acknowledge(value, text)
    assert isinstance(decision, ReportFault)
    assert decision.fault.name == FaultName.INVALID_ACKNOWLEDGEMENT
    assert after == value


def test_a_number_that_was_only_assigned_cannot_be_acknowledged():
    value, _ = assign_number(sent(with_messages(1))[0])
    assert isinstance(acknowledge(value, "2")[1][0], ReportFault)
    assert acknowledge(value, "1")[1] == (MarkDelivered((1,)),)


def test_a_negative_acknowledgement_makes_it_due_at_once():
    value, _ = sent(with_messages(3))
    value, decisions = acknowledge(value, "", now=3.0, missing=(2,))
    assert decisions == ()
    assert sent(value, 3.0)[1] == (SendNumbered(2, asks_for_ack=True),)
    assert isinstance(acknowledge(value, "", missing=(9,))[1][0], ReportFault)


def test_an_acknowledgement_of_another_sequence_changes_nothing():
    value, _ = sent(with_messages(1))
    other = Acknowledgement(version=value.version, identifier="urn:other", ranges=NumberRanges.up_to(9))
    assert note_acknowledged(value, other, 0.0) == (value, ())


def test_a_second_answer_to_the_creation_changes_nothing():
    value = created(new())
    other = CreateSequenceResponse(version=value.version, identifier="urn:other")
    assert note_created(value, other, 0.0) == value


def test_the_creation_is_repeated_with_the_same_name_and_then_given_up():
    value, _ = assign_number(new())
    steps = []
    for now in range(0, 300, 10):
        value, found = sent(value, float(now))
        steps += found
    assert steps == [SendCreate()] * RULES.attempts_max + [GiveUp((1,), "the destination has not created the sequence")]
    assert value.creation_id == "urn:uuid:c"


def test_a_sequence_of_1_1_is_closed_and_terminated_when_all_is_acknowledged():
    value, _ = sent(finish(with_messages(2)))
    assert not value.has_room
    value, _ = acknowledge(value, "1")
    assert sent(value)[1] == ()
    value, _ = acknowledge(value, "1-2")
    value, steps = sent(value)
    assert steps == (SendClose(2),)
    assert sent(value, 10.0)[1] == (SendClose(2),)
    value, steps = sent(note_closed(value))
    assert steps == (SendTerminate(2),)
    assert note_terminated(value).state == OutboundState.TERMINATED
    assert finish(note_terminated(value)) == note_terminated(value)


def test_a_sequence_of_1_0_ends_with_an_empty_last_message_and_terminate():
    value, steps = sent(finish(with_messages(2, RELIABILITY_1_0)))
    assert steps == (SendNumbered(1), SendNumbered(2), SendNumbered(3, is_marker=True))
    value, decisions = acknowledge(value, "1-3")
    assert decisions == (MarkDelivered((1, 2)),)
    value, steps = sent(value)
    assert steps == (SendTerminate(3),)
    assert note_terminated(value).state == OutboundState.TERMINATED


def test_a_last_message_that_is_never_acknowledged_is_followed_by_terminate():
    value, _ = sent(finish(with_messages(2, RELIABILITY_1_0)))
    value, _ = acknowledge(value, "1-2")
    steps = []
    while value.state == OutboundState.OPEN:
        value, found = sent(value, next_due(value))
        steps += found
    assert steps == [SendNumbered(3, is_marker=True, asks_for_ack=True)] * 2 + [SendTerminate(3)]
    assert note_terminated(value).state == OutboundState.TERMINATED


@BOTH
def test_an_end_that_is_never_confirmed_is_no_failure(version):
    value, _ = sent(finish(with_messages(1, version)))
    value, _ = acknowledge(value, "1" if version.has_close else "1-2")
    for now in range(0, 1000, 10):
        value, steps = sent(value, float(now))
        assert not any(isinstance(step, GiveUp) for step in steps)
    assert value.state == OutboundState.TERMINATED


@BOTH
def test_an_empty_sequence_ends_without_messages(version):
    assert sent(finish(new(version)))[0].state == OutboundState.TERMINATED, "it was never created"
    _value, steps = sent(finish(created(new(version))))
    assert steps == ((SendClose(None),) if version.has_close else (SendTerminate(None),))
    creating, _ = sent(new(version))
    assert sent(finish(creating), 10.0)[1] == (SendCreate(),), "the destination may have created it"


@BOTH
@pytest.mark.parametrize(
    "name",
    [
        FaultName.UNKNOWN_SEQUENCE,
        FaultName.SEQUENCE_TERMINATED,
        FaultName.SEQUENCE_CLOSED,
        FaultName.MESSAGE_NUMBER_ROLLOVER,
    ],
)
def test_a_lost_sequence_begins_again_with_what_is_unacknowledged_only(version, name):
    value, _ = sent(finish(with_messages(4, version)))
    value, _ = acknowledge(value, "1,3")
    value, decisions = note_fault(value, fault(name, version=version))
    assert (value.state, decisions) == (OutboundState.LOST, ())
    assert next_due(value) == 0.0
    value, steps = sent(value)
    assert steps == (BeginAgain(),)
    again, pairs = restart(value, creation_id="urn:uuid:d")
    assert pairs == ((2, 1), (4, 2))
    assert (again.identifier, again.creation_id, again.state) == (None, "urn:uuid:d", OutboundState.CREATING)
    assert again.unacknowledged == (1, 2)
    assert again.is_finishing
    assert sent(created(again))[1][:2] == (SendNumbered(1), SendNumbered(2))


def test_sequences_that_get_lost_again_and_again_fail():
    value = with_messages(2)
    for _ in range(RULES.restarts_max):
        value, _ = note_fault(sent(value)[0], fault(FaultName.UNKNOWN_SEQUENCE))
        value = created(restart(value, creation_id="urn:uuid:d")[0])
    value, _ = note_fault(sent(value)[0], fault(FaultName.UNKNOWN_SEQUENCE))
    value, [step] = sent(value)
    assert isinstance(step, GiveUp)
    assert step.message_numbers == (1, 2)


def test_progress_allows_further_restarts():
    value, _ = note_fault(sent(with_messages(2))[0], fault(FaultName.UNKNOWN_SEQUENCE))
    value = created(restart(value, creation_id="urn:uuid:d")[0])
    assert value.restarts == 1
    assert acknowledge(sent(value)[0], "1")[0].restarts == 0


def test_a_sequence_that_the_destination_has_closed_begins_again_with_the_rest():
    value, _ = sent(with_messages(3))
    value, decisions = acknowledge(value, "1-2", is_final=True)
    assert decisions == (MarkDelivered((1, 2)),)
    assert sent(value)[1] == (BeginAgain(),)
    assert restart(value, creation_id="urn:uuid:d")[1] == ((3, 1),)


def test_an_idle_sequence_that_the_destination_has_lost_is_over():
    value, _ = acknowledge(sent(with_messages(1))[0], "1")
    value, _ = note_fault(value, fault(FaultName.SEQUENCE_TERMINATED))
    assert sent(value) == (replace(value, state=OutboundState.TERMINATED), ())


@BOTH
def test_a_fault_at_the_end_ends_it(version):
    value, _ = sent(finish(with_messages(1, version)))
    value, _ = acknowledge(value, "1" if version.has_close else "1-2")
    for _ in range(3):
        value, _ = note_fault(value, fault(FaultName.UNKNOWN_SEQUENCE, version=version))
    assert value.state == OutboundState.TERMINATED


def test_a_final_acknowledgement_confirms_the_close():
    value, _ = acknowledge(sent(finish(with_messages(1)))[0], "1")
    value, _ = sent(value)
    value, _ = acknowledge(value, "1", is_final=True)
    assert value.state == OutboundState.TERMINATING


def test_an_expired_sequence_begins_again():
    value, _ = assign_number(new())
    value, _ = sent(created(value, now=100.0, expires_seconds=5.0), 100.0)
    assert sent(value, 104.0)[1] == ()
    assert sent(value, 105.0)[1] == (BeginAgain(),)


@pytest.mark.parametrize("name", [FaultName.CREATE_SEQUENCE_REFUSED, FaultName.WSRM_REQUIRED])
def test_a_refused_creation_is_final(name):
    value, _ = assign_number(new())
    value, _ = sent(value)
    value, [decision] = note_fault(value, fault(name, identifier=None))
    assert isinstance(decision, GiveUp)
    assert decision.message_numbers == (1,)
    assert value.state == OutboundState.FAILED


def test_late_and_foreign_faults_change_nothing():
    value, _ = sent(with_messages(1))
    for name in (FaultName.CREATE_SEQUENCE_REFUSED, FaultName.INVALID_ACKNOWLEDGEMENT):
        assert note_fault(value, fault(name)) == (value, ())
    assert note_fault(value, fault(FaultName.UNKNOWN_SEQUENCE, identifier="urn:old")) == (value, ())
    assert note_fault(value, fault(FaultName.UNKNOWN_SEQUENCE, identifier=None))[0].state == OutboundState.LOST
    assert note_fault(new(), fault(FaultName.UNKNOWN_SEQUENCE, identifier=None)) == (new(), ())


def test_a_sequence_has_room_for_so_many_messages_and_no_further_number():
    value = with_messages(WINDOW_MAX)
    assert not value.has_room
    value, steps = sent(value)
    assert len(steps) == BATCH_MAX
    assert acknowledge(value, f"1-{BATCH_MAX}")[0].has_room
    end = replace(
        with_messages(0), next_number=MESSAGE_NUMBER_MAX, acknowledged=NumberRanges.up_to(MESSAGE_NUMBER_MAX - 1)
    )
    end, number = assign_number(end)
    assert (number, end.has_room) == (MESSAGE_NUMBER_MAX, False)
    with pytest.raises(AssertionError):
        assign_number(end)
    assert finish(replace(end, version=RELIABILITY_1_0)).marker is None


def test_an_accepted_offer_is_remembered():
    here = make_anonymous(RELIABILITY_1_1.addressing)
    offering = new(offered="urn:o", lifetime_seconds=60.0)
    creation = offering.make_creation()
    assert creation.offer is not None
    assert (creation.offer.identifier, creation.expires_seconds) == ("urn:o", 60.0)
    assert created(offering, accepted_acks_to=here).offer_acks_to == here
    assert created(offering).offer_acks_to is None
    assert created(new(), accepted_acks_to=here).offer_acks_to is None
    assert OutboundSequence.from_json(created(offering, accepted_acks_to=here).to_json()).offer_acks_to == here


def test_a_window_is_a_small_text():
    value, _ = sent(with_messages(WINDOW_MAX))
    assert len(value.to_json()) < 40_000
    assert value.acknowledged == NO_NUMBERS
