"""The destination of a sequence, event by event."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from demaq.soap.addressing.endpoint_reference import EndpointReference, make_anonymous
from demaq.soap.reliability.delivery_assurance import Assurance, DeliveryAssurance
from demaq.soap.reliability.inbound_sequence import InboundSequence, InboundState
from demaq.soap.reliability.number_ranges import NumberRanges
from demaq.soap.reliability.protocol_messages import CreateSequence, IncompleteBehavior, Offer
from demaq.soap.reliability.reliability_faults import FaultName, ReliabilityFault
from demaq.soap.reliability.reliability_versions import MESSAGE_NUMBER_MAX, RELIABILITY_1_0, RELIABILITY_1_1
from demaq.soap.reliability.sequence_creation import CreationRules, answer_creation, create_inbound
from demaq.soap.reliability.sequence_destination import (
    HELD_MAX,
    RANGES_MAX,
    AckRequested,
    CloseRequested,
    ConfirmClose,
    ConfirmTerminate,
    DiscardMessages,
    HoldBack,
    IgnoreDuplicate,
    MessageArrived,
    ReleaseMessages,
    SendAcknowledgement,
    SendFault,
    StoreMessage,
    TerminateRequested,
    TimePassed,
    advance,
    refuse_unknown,
)

ACK = SendAcknowledgement()
NOW = 1000.0


def sequence(version=RELIABILITY_1_1, times=Assurance.EXACTLY_ONCE, in_order=True, **more):
    acks_to = make_anonymous(version.addressing)
    assurance = DeliveryAssurance(times, in_order)
    return InboundSequence(identifier="urn:s", version=version, acks_to=acks_to, assurance=assurance, **more)


def run(value, *events, now=NOW):
    """Return the last value, and the decisions about each event."""
    decided = []
    for event in events:
        value, decisions = advance(value, MessageArrived(event) if isinstance(event, int) else event, now)
        value = InboundSequence.from_json(value.to_json())
        decided.append(decisions)
    return value, decided


def fault_of(decisions):
    [found] = [decision.fault for decision in decisions if isinstance(decision, SendFault)]
    assert found.identifier == "urn:s"
    return found.name


def test_messages_in_order_are_stored_and_acknowledged():
    value, decided = run(sequence(), 1, 2, 3)
    assert decided == [(StoreMessage(number), ACK) for number in (1, 2, 3)]
    assert str(value.received) == "1-3"
    assert str(value.acknowledge().ranges) == "1-3"
    assert not value.acknowledge().is_final


@pytest.mark.parametrize("times", [Assurance.EXACTLY_ONCE, Assurance.AT_LEAST_ONCE])
def test_a_message_waits_for_those_before_it(times):
    value, decided = run(sequence(times=times), 3, 2, 5, 1)
    assert decided == [
        (HoldBack(3), ACK),
        (HoldBack(2), ACK),
        (HoldBack(5), ACK),
        (StoreMessage(1), ReleaseMessages((2, 3)), ACK),
    ]
    assert (str(value.received), str(value.held)) == ("1-3,5", "5")


@pytest.mark.parametrize("times", list(Assurance))
def test_without_order_a_message_waits_for_nothing(times):
    _, decided = run(sequence(times=times, in_order=False), 3, 1, 2)
    assert decided == [(StoreMessage(number), ACK) for number in (3, 1, 2)]


def test_a_late_message_is_not_delivered_if_order_matters_more_than_delivery():
    value, decided = run(sequence(times=Assurance.AT_MOST_ONCE), 2, 1, 3)
    assert [type(decisions[0]) for decisions in decided] == [StoreMessage, DiscardMessages, StoreMessage]
    assert str(value.received) == "1-3", "its source would send it again and again"


@pytest.mark.parametrize("times", list(Assurance))
@pytest.mark.parametrize("in_order", [False, True])
def test_a_duplicate_is_acknowledged_and_not_stored_again(times, in_order):
    value, decided = run(sequence(times=times, in_order=in_order), 1, 1, 4, 4)
    assert [decisions for decisions in decided if IgnoreDuplicate in map(type, decisions)] == [
        (IgnoreDuplicate(1), ACK),
        (IgnoreDuplicate(4), ACK),
    ]
    assert str(value.received) == "1,4"


def test_the_last_number_is_accepted_and_the_next_one_rolls_over():
    value, decided = run(sequence(in_order=False), MESSAGE_NUMBER_MAX, MESSAGE_NUMBER_MAX + 1, 1)
    assert decided[0] == (StoreMessage(MESSAGE_NUMBER_MAX), ACK)
    assert fault_of(decided[1]) == FaultName.MESSAGE_NUMBER_ROLLOVER
    assert decided[2] == (StoreMessage(1), ACK)
    assert value.state == InboundState.CREATED


def test_only_so_many_messages_wait_and_the_missing_one_always_fits():
    value, decided = run(sequence(), *range(2, HELD_MAX + 4))
    assert isinstance(decided[HELD_MAX - 1][0], HoldBack)
    assert isinstance(decided[HELD_MAX][0], DiscardMessages)
    assert value.held.count == HELD_MAX
    assert HELD_MAX + 2 not in value.received, "what is discarded is not acknowledged"
    _, [decisions] = run(value, 1)
    assert decisions == (StoreMessage(1), ReleaseMessages(tuple(range(2, HELD_MAX + 2))), ACK)


def test_only_so_many_ranges_are_kept_and_the_missing_one_always_fits():
    value, decided = run(sequence(in_order=False), *range(3, 3 * RANGES_MAX + 10, 2))
    assert len(value.received.ranges) == RANGES_MAX
    assert sum(isinstance(decisions[0], DiscardMessages) for decisions in decided) == len(decided) - RANGES_MAX
    assert len(value.to_json()) < 10_000
    value, decided = run(value, 1, 2)
    assert decided == [(StoreMessage(1), ACK), (StoreMessage(2), ACK)]


def test_the_last_message_of_1_0_ends_the_numbers():
    value, _decided = run(sequence(RELIABILITY_1_0), MessageArrived(2, is_last=True), 1)
    assert value.is_complete
    value, [decisions] = run(value, 3)
    assert fault_of(decisions) == FaultName.LAST_MESSAGE_NUMBER_EXCEEDED
    assert value.state == InboundState.TERMINATED
    value, [_, decisions] = run(sequence(RELIABILITY_1_0), 5, MessageArrived(4, is_last=True))
    assert fault_of(decisions) == FaultName.LAST_MESSAGE_NUMBER_EXCEEDED
    assert decisions[0] == ReleaseMessages((5,)), "it was acknowledged"


def test_an_empty_last_message_is_acknowledged_and_not_delivered():
    value, decided = run(sequence(RELIABILITY_1_0), 2, MessageArrived(3, is_last=True, has_content=False), 1)
    assert decided[1] == (DiscardMessages((3,), "it marks the end of the sequence"), ACK)
    assert decided[2] == (StoreMessage(1), ReleaseMessages((2,)), ACK)
    assert value.is_complete
    assert not value.held


def test_a_closed_sequence_acknowledges_what_it_has_and_accepts_nothing_new():
    value, decided = run(sequence(), 1, 2, CloseRequested(2), CloseRequested(2), AckRequested(), 2, 3)
    assert decided[2:6] == [(ConfirmClose(), ACK), (ConfirmClose(), ACK), (ACK,), (IgnoreDuplicate(2), ACK)]
    assert fault_of(decided[6]) == FaultName.SEQUENCE_CLOSED
    assert decided[6][-1] == ACK
    assert value.acknowledge().is_final
    assert str(value.received) == "1-2"


def test_a_terminated_sequence_answers_only_that_it_is():
    value, decided = run(
        sequence(), 1, TerminateRequested(1), TerminateRequested(1), 1, 2, AckRequested(), CloseRequested(1)
    )
    assert decided[1:3] == [(ConfirmTerminate(), ACK)] * 2
    assert [fault_of(decisions) for decisions in decided[3:]] == [FaultName.SEQUENCE_TERMINATED] * 4
    assert value.state == InboundState.TERMINATED


def test_terminate_of_1_0_is_not_answered():
    _, decided = run(sequence(RELIABILITY_1_0), 1, TerminateRequested(), TerminateRequested())
    assert decided[1:] == [(), ()]


@pytest.mark.parametrize("event", [CloseRequested(5), TerminateRequested(5), CloseRequested(None)])
def test_messages_that_wait_are_delivered_when_the_sequence_ends_with_gaps(event):
    value, decided = run(sequence(), 1, 3, 5, event)
    assert decided[-1][0] == ReleaseMessages((3, 5))
    assert not value.held
    assert str(value.received) == "1,3,5"
    assert not value.is_complete


def test_messages_after_a_gap_are_discarded_if_that_was_agreed_upon():
    waiting = sequence(behavior=IncompleteBehavior.DISCARD_FOLLOWING_FIRST_GAP)
    value, decided = run(waiting, 1, 3, 5, CloseRequested(5))
    assert decided[-1][0] == DiscardMessages((3, 5), "messages before it are missing")
    assert str(value.acknowledge().ranges) == "1"


@pytest.mark.parametrize("event", [CloseRequested(2), TerminateRequested(2), CloseRequested(2**64 - 1)])
def test_a_last_number_that_cannot_be_terminates_the_sequence(event):
    value, decided = run(sequence(in_order=False), 1, 3, event)
    assert fault_of(decided[-1]) == FaultName.SEQUENCE_TERMINATED
    assert value.state == InboundState.TERMINATED
    closed, _ = run(sequence(), 1, CloseRequested(3))
    _, [decisions] = run(closed, TerminateRequested(4))
    assert fault_of(decisions) == FaultName.SEQUENCE_TERMINATED


def test_an_expired_sequence_is_terminated():
    value, _ = run(sequence(expires_at=NOW + 10), 1, 3)
    assert advance(value, TimePassed(), NOW + 9) == (value, ())
    over, decisions = advance(value, TimePassed(), NOW + 10)
    assert (over.state, decisions) == (InboundState.TERMINATED, (ReleaseMessages((3,)),))
    _, decisions = advance(value, MessageArrived(2), NOW + 11)
    assert decisions[0] == ReleaseMessages((3,))
    assert fault_of(decisions) == FaultName.SEQUENCE_TERMINATED
    assert advance(over, TimePassed(), NOW + 20) == (over, ())


def test_an_unknown_sequence_is_a_fault():
    assert refuse_unknown(RELIABILITY_1_1, "urn:s").fault.name == FaultName.UNKNOWN_SEQUENCE


def test_a_value_is_read_as_it_was_stored():
    value = sequence(
        created_by="urn:uuid:1",
        offered="urn:o",
        expires_at=12.5,
        behavior=IncompleteBehavior.DISCARD_ENTIRE_SEQUENCE,
        state=InboundState.CLOSED,
        received=NumberRanges.parse("1-3,7-9"),
        held=NumberRanges.parse("7-9"),
        last_number=9,
    )
    value = replace(value, acks_to=replace(value.acks_to, address="http://a.invalid/", parameters=("<p/>",)))
    assert InboundSequence.from_json(value.to_json()) == value
    assert all(
        isinstance(one, (str, int, float, bool, dict, type(None))) for one in json.loads(value.to_json()).values()
    )


# creation


def create(rules, **more):
    request = CreateSequence(version=RELIABILITY_1_1, acks_to=more.pop("acks_to", HERE), **more)
    return create_inbound(request, rules, identifier="urn:s", message_id="urn:m", now=NOW)


HERE = make_anonymous(RELIABILITY_1_1.addressing)
ELSEWHERE = EndpointReference(version=RELIABILITY_1_1.addressing, address="http://a.invalid/")


@pytest.mark.parametrize(("wished", "granted"), [(None, 100.0), (50.0, 50.0), (1e9, 100.0)])
def test_a_sequence_lives_as_long_as_asked_for_but_not_for_ever(wished, granted):
    made = create(CreationRules(lifetime_seconds_max=100.0), expires_seconds=wished)
    assert isinstance(made, InboundSequence)
    assert (made.expires_at, made.created_by) == (NOW + granted, "urn:m")
    assert answer_creation(made, ELSEWHERE, NOW).expires_seconds == granted


def test_an_offer_is_accepted_where_answers_can_be_in_a_sequence():
    offer = Offer(identifier="urn:o")
    refused, accepted = create(CreationRules(), offer=offer), create(CreationRules(accepts_offers=True), offer=offer)
    assert isinstance(refused, InboundSequence)
    assert isinstance(accepted, InboundSequence)
    assert (refused.offered, answer_creation(refused, ELSEWHERE, NOW).accepted_acks_to) == (None, None)
    assert (accepted.offered, answer_creation(accepted, ELSEWHERE, NOW).accepted_acks_to) == ("urn:o", ELSEWHERE)


def test_acknowledgements_go_only_where_the_gateway_sends_them():
    refused = create(CreationRules(), acks_to=ELSEWHERE)
    assert isinstance(refused, ReliabilityFault)
    assert refused.name == FaultName.CREATE_SEQUENCE_REFUSED
    assert isinstance(create(CreationRules(accepts_addresses=True), acks_to=ELSEWHERE), InboundSequence)
    nowhere = replace(HERE, address=f"{HERE.version.namespace}/none")
    assert isinstance(create(CreationRules(accepts_addresses=True), acks_to=nowhere), ReliabilityFault)
