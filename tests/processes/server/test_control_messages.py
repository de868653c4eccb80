"""Messages on their way through the control socket: whatever is known of one arrives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from demaq.control.client import RemoteNode, running_node
from demaq.control.message_json import (
    decode_incoming,
    decode_message,
    encode_for_listing,
    encode_incoming,
    encode_message,
)
from demaq.engine.intake import IncomingMessage
from demaq.errors import OperatorError, StoreError
from demaq.messages import PropertyValue
from demaq.server.control_server import ControlServer
from demaq.store.protocol import NewMessage, StoredMessage, Timer
from tests.support.gateways.nodes import Running, running

MOMENT = datetime(2026, 11, 17, 5, 0, 0, 123456, tzinfo=UTC)
LATER = datetime(2027, 1, 1, tzinfo=UTC)
WHOLE = NewMessage(
    queue="q",
    body="<m>é\u2028</m>",
    properties={"p": PropertyValue("decimal", "1.50", "1.5")},
    created=MOMENT,
    rule="r",
    trigger=2**60,
    origin=3,
    hops=4,
    priority=-5,
    slices=(("s", "k"), ("t", "\0")),
    entries=(("i", "v"),),
    timer=Timer(due=LATER, target="q"),
    transient=True,
    undelivered=True,
    request="a\0b",
)
STORED = StoredMessage(
    seq=1,
    queue="q",
    body="<m/>",
    properties={},
    created=MOMENT,
    rule=None,
    trigger=None,
    origin=1,
    hops=0,
    slices=(),
    processed=None,
    retired=None,
    timer=None,
    transient=False,
    undelivered=False,
)
OTHER_VALUES: dict[str, Any] = {
    "seq": 2,
    "queue": "other",
    "body": "<n/>",
    "properties": {"p": PropertyValue.string("v")},
    "created": LATER,
    "rule": "r",
    "trigger": 3,
    "origin": 4,
    "hops": 5,
    "slices": (("s", "k"),),
    "processed": 6,
    "retired": 7,
    "timer": Timer(due=LATER, target="q"),
    "transient": True,
    "undelivered": True,
    "unmatched": True,
}


def over_a_socket(data: Any) -> Any:
    return json.loads(json.dumps(data).encode())


def expect_no_default(value: Any, but: tuple[str, ...] = ()) -> None:
    """Fail for a field that would look the same if it were dropped: a new field is to be added to the example."""
    if isinstance(value, IncomingMessage):
        defaults: dict[str, Any] = dict.fromkeys(value._fields) | value._field_defaults
    else:
        defaults = {field.name: None if field.default is MISSING else field.default for field in fields(value)}
        made = [field for field in fields(value) if field.default_factory is not MISSING]
        defaults |= {field.name: field.default_factory() for field in made if field.default_factory is not MISSING}
    for name, default in defaults.items():
        assert name in but or getattr(value, name) != default, name


def test_a_message_to_be_stored_arrives_with_all_its_fields():
    expect_no_default(WHOLE)
    assert decode_message(over_a_socket(encode_message(WHOLE))) == WHOLE


def test_what_a_sender_gives_arrives_with_all_its_fields():
    sent = IncomingMessage(b"<m>\xff</m>", {"p": "v"}, "a\0b", {"demaq:sender": PropertyValue.string("s")}, None, 7)
    # The document is made of the body; what the engine adds does not come from a sender.
    expect_no_default(sent, but=("document", "trigger", "rule", "system"))
    assert decode_incoming(over_a_socket(encode_incoming(sent))) == sent


def test_every_field_of_a_stored_message_is_in_its_json():
    assert OTHER_VALUES.keys() == {field.name for field in fields(STORED)}
    plain = over_a_socket(encode_for_listing(STORED))
    for name, value in OTHER_VALUES.items():
        assert over_a_socket(encode_for_listing(replace(STORED, **{name: value}))) != plain, name


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("control"), "create queue box") as found:
        control = ControlServer(found.node)
        yield found
        control.close()


@pytest.fixture
def remote(here: Running) -> RemoteNode:
    found = running_node(here.node.folder)
    assert found is not None
    return found


def test_a_running_node_stores_and_gives_out_what_it_is_given(here: Running, remote: RemoteNode):
    program = here.node.store.program()
    assert program is not None
    remote.enqueue_all("box", [IncomingMessage("<sent/>", hops=7)])
    copied = replace(WHOLE, queue="box", priority=None, slices=(), entries=(), timer=None, undelivered=False)
    assert remote.append([copied], program[1]) == [True]
    stored = here.stored("box")
    assert [(message.body, message.hops) for message in stored] == [("<sent/>", 7), (WHOLE.body, 4)]
    for field in fields(NewMessage):
        if field.name not in ("priority", "entries", "request"):  # these are no fields of a stored message
            assert getattr(stored[1], field.name) == getattr(copied, field.name), field.name
    listed = [encode_for_listing(message) for message in stored]
    assert remote.take("box", 9) == over_a_socket(listed)


def test_what_a_running_node_cannot_do_is_no_error_of_its_store(remote: RemoteNode):
    with pytest.raises(OperatorError) as unknown:
        remote.pause("queue", "boxes", "a test")
    assert str(unknown.value).startswith("there is no queue boxes")
    assert not isinstance(unknown.value, StoreError)


def test_a_text_that_is_not_utf_8_is_never_sent_to_a_node(remote: RemoteNode):
    with pytest.raises(OperatorError, match="not UTF-8"):
        remote.pause("queue", "box", "a test", "because \udcff")
    assert remote.pause("queue", "box", "a test", "because ü") is True
    assert remote.resume("queue", "box", "a test") is True


def test_the_error_about_what_was_refused_has_come_as_far_as_that(tmp_path: Path):
    application = "create queue inbox kind incomingGateway create property n as xs:integer queue inbox value /m/@n"
    with running(tmp_path, application) as node:
        for hops, body in ((5, "<m n='x'/>"), (6, "<m>")):
            answer = node.post("/inbox", body, Demaq_Hops=str(hops))
            assert answer.status_code in (400, 422)
        assert [message.hops for message in node.wait_for("demaq:errors", 2)] == [5, 6]
