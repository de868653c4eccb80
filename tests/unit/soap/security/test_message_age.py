"""How old a message may be, and that it is accepted once: timestamps, users, replays."""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demaq.soap.refusals import SoapRefusal
from demaq.soap.security import (
    MessageParts,
    PasswordForm,
    SecurityRequirements,
    UserCredential,
    UsernameRequirement,
    VerificationSettings,
    secure,
)
from demaq.soap.security.timestamps import format_time, parse_time
from tests.support.soap.security_parties import (
    BODY_SIGNED,
    NAMESPACES,
    NOW,
    PASSWORD,
    MemoryReplayCache,
    make_envelope,
    make_protection,
    receive,
    send,
)

AGED = SecurityRequirements(timestamp=True)
SETTINGS = VerificationSettings(clock_skew=timedelta(seconds=60), lifetime_max=timedelta(seconds=600))
EXPIRED = (f"Q{{{NAMESPACES['wsu']}}}MessageExpired",)
DIGEST = SecurityRequirements(username=UsernameRequirement())
TEXT = SecurityRequirements(username=UsernameRequirement(password=PasswordForm.TEXT, nonce=False, created=False))


def age(seconds):
    return NOW + timedelta(seconds=seconds)


def change_times(data, created, expires):
    data = re.sub(rb"<wsu:Created>[^<]*</wsu:Created>", b"<wsu:Created>" + created + b"</wsu:Created>", data)
    return re.sub(
        rb"<wsu:Expires>[^<]*</wsu:Expires>", expires and b"<wsu:Expires>" + expires + b"</wsu:Expires>", data
    )


@pytest.mark.parametrize("seconds", [-59, 0, 100, 359])
def test_a_message_is_accepted_while_it_is_valid(seconds):
    receive(send(AGED), AGED, now=age(seconds), settings=SETTINGS)


@pytest.mark.parametrize(("seconds", "text"), [(-61, "in the future"), (361, "expired"), (9999, "too old")])
def test_a_message_that_is_too_new_or_too_old_is_refused(seconds, text):
    with pytest.raises(SoapRefusal, match=text) as refused:
        receive(send(AGED), AGED, now=age(seconds), settings=SETTINGS)
    assert refused.value.protocol is not None
    assert refused.value.protocol.subcodes == EXPIRED
    assert refused.value.kind == "refused"


def test_a_sender_cannot_make_its_messages_live_longer():
    data = send(AGED, lifetime=timedelta(days=365))
    receive(data, AGED, now=age(600), settings=SETTINGS)
    with pytest.raises(SoapRefusal, match="too old"):
        receive(data, AGED, now=age(661), settings=SETTINGS)


@pytest.mark.parametrize(
    ("created", "expires"),
    [
        (b"2026-05-01T12:00:00Z", b"2026-05-01T12:05:00Z"),
        (b"2026-05-01T12:00:00.1Z", b"2026-05-01T12:05:00.1234567Z"),
        (b"2026-05-01T12:00:00", b""),
        (b"2026-05-01T14:00:00+02:00", b"2026-05-01T06:35:00-05:30"),
        (b"\n 2026-05-01T12:00:00Z ", b"<!-- c -->2026-05-01T12:05:00Z"),
    ],
)
def test_times_are_read_with_and_without_milliseconds_and_zones(created, expires):
    receive(change_times(send(AGED), created, expires), AGED)


@pytest.mark.parametrize(
    ("created", "expires"),
    [
        (b"2026-05-01", b""),
        (b"", b""),
        (b"now", b""),
        (b"2026-13-01T12:00:00Z", b""),
        (b"2026-05-01T12:00:60Z", b""),
        (b"0001-01-01T00:00:00+23:00", b""),
        (b"9999-12-31T23:59:59Z", b"9999-12-31T23:59:59Z"),
        (b"2026-05-01T12:00:00+99:00", b""),
        (b"<b/>2026-05-01T12:00:00Z", b""),
        (b"2026-05-01T12:00:00Z</wsu:Created><wsu:Created>2026-05-01T12:00:00Z", b""),
        (b"2026-05-01T12:05:00Z", b"2026-05-01T12:00:00Z"),
        ("\uff12026-05-01T12:00:00Z".encode(), b""),
    ],
)
def test_times_that_are_none_are_refused(created, expires):
    with pytest.raises(SoapRefusal):
        receive(change_times(send(AGED), created, expires), AGED)


@given(st.datetimes(datetime(2, 1, 2), datetime(9998, 1, 1)).map(lambda time: time.replace(tzinfo=UTC)))
def test_a_written_time_is_read_again_with_milliseconds(time):
    assert parse_time(format_time(time)) == time.replace(microsecond=time.microsecond // 1000 * 1000)


def test_a_second_timestamp_is_refused():
    data = send(AGED)
    timestamp = re.search(rb"<wsu:Timestamp.*</wsu:Timestamp>", data)
    assert timestamp is not None
    second = re.sub(rb"wsu:Id=\"[^\"]*\"", b"", timestamp[0])
    with pytest.raises(SoapRefusal, match="more than 1 Timestamp"):
        receive(data.replace(b"</wsse:Security>", second + b"</wsse:Security>"), AGED)


def test_a_missing_timestamp_is_refused():
    data = send(replace(BODY_SIGNED, timestamp=False, signed=MessageParts(body=True)))
    with pytest.raises(SoapRefusal, match="no Timestamp"):
        receive(data, replace(BODY_SIGNED, signed=MessageParts(body=True)))


@pytest.mark.parametrize("requirements", [DIGEST, TEXT], ids=["digest", "text"])
@pytest.mark.parametrize(("user", "password"), [("ann", "wrong"), ("bob", PASSWORD), ("ann", ""), ("Ann", PASSWORD)])
def test_a_wrong_user_and_a_wrong_password_are_refused_alike(requirements, user, password):
    with pytest.raises(SoapRefusal) as refused:
        receive(send(requirements, credential=UserCredential(user, password)), requirements)
    assert refused.value.message == "the user or the password is wrong"
    assert refused.value.kind == "authentication"
    assert refused.value.protocol is not None
    assert refused.value.protocol.subcodes == (f"Q{{{NAMESPACES['wsse']}}}FailedAuthentication",)


def test_no_user_is_known_where_there_are_none():
    with pytest.raises(SoapRefusal, match="wrong"):
        receive(send(DIGEST), DIGEST, users=None)


@pytest.mark.parametrize(
    ("sent", "demanded", "text"),
    [
        (TEXT, DIGEST, "no Nonce"),
        (replace(DIGEST, username=UsernameRequirement(created=False)), DIGEST, "no Created"),
        (DIGEST, TEXT, "not given as text"),
        (replace(TEXT, username=UsernameRequirement(password=PasswordForm.TEXT)), DIGEST, "not given as digest"),
        (replace(DIGEST, username=UsernameRequirement(password=PasswordForm.NONE)), DIGEST, "no password"),
        (AGED, DIGEST, "no UsernameToken"),
        (DIGEST, replace(DIGEST, username=UsernameRequirement(encrypted=True)), "not encrypted"),
        (DIGEST, replace(DIGEST, username=UsernameRequirement(signed=True)), "not signed"),
    ],
)
def test_a_user_must_be_named_as_the_policy_says(sent, demanded, text):
    with pytest.raises(SoapRefusal, match=text):
        receive(send(sent), demanded)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"</wsse:UsernameToken>", b"<wsse:Salt>x</wsse:Salt></wsse:UsernameToken>"),
        (b"<wsse:Username>ann", b"<wsse:Username>" + b"a" * 300),
        (b"<wsse:Username>ann", b"<wsse:Username>"),
        (b"<wsse:Nonce ", b"<wsse:Nonce xml:lang='en' "),
        (b"<wsse:Username>ann</wsse:Username>", b"<wsse:Username>ann</wsse:Username>" * 2),
    ],
)
def test_a_token_with_something_else_in_it_is_refused(old, new):
    data = send(DIGEST)
    assert old in data
    if old == b"<wsse:Nonce ":
        data = re.sub(rb"EncodingType=\"[^\"]*\"", b'EncodingType="urn:hex"', data)
    with pytest.raises(SoapRefusal):
        receive(data.replace(old, new), DIGEST)


def test_a_nonce_is_accepted_once():
    replays = MemoryReplayCache()
    data = send(DIGEST)
    receive(data, DIGEST, replays=replays)
    with pytest.raises(SoapRefusal, match="received before") as refused:
        receive(data, DIGEST, replays=replays, now=age(30))
    assert refused.value.kind == "refused"
    receive(send(DIGEST), DIGEST, replays=replays)
    assert all(until > NOW for until in replays.keys.values())


def test_a_digest_is_too_old_when_its_nonce_is_forgotten():
    replays = MemoryReplayCache()
    data = send(DIGEST)
    receive(data, DIGEST, replays=replays, settings=SETTINGS)
    (forgotten,) = replays.keys.values()
    with pytest.raises(SoapRefusal, match="too old"):
        receive(data, DIGEST, now=forgotten, settings=SETTINGS)


@pytest.mark.parametrize("is_bound", [True, False], ids=["signed timestamp", "unsigned timestamp"])
def test_a_signed_message_is_accepted_once(is_bound):
    requirements = replace(BODY_SIGNED, signed=MessageParts(body=True, timestamp=is_bound))
    replays = MemoryReplayCache()
    data = send(requirements)
    receive(data, requirements, replays=replays, settings=SETTINGS)
    changed = data.replace(b"</ds:SignatureValue>", b"\n</ds:SignatureValue>").replace(
        b"<ds:SignedInfo>", b"<ds:SignedInfo><!-- the same to a signature -->"
    )
    if not is_bound:
        changed = change_times(changed, b"2026-05-01T12:01:00Z", b"2026-05-01T12:05:00Z")
    for again in (data, changed):
        with pytest.raises(SoapRefusal, match="received before"):
            receive(again, requirements, replays=replays, settings=SETTINGS)
    (until,) = replays.keys.values()
    assert until == (parse_time("2026-05-01T12:06:00.123Z") if is_bound else NOW + SETTINGS.replay_memory)
    receive(send(requirements), requirements, replays=replays, settings=SETTINGS)


def test_a_refused_message_is_not_remembered():
    replays = MemoryReplayCache()
    for data in (send(BODY_SIGNED).replace(b">17<", b">18<"), send(DIGEST, credential=UserCredential("ann", "wrong"))):
        with pytest.raises(SoapRefusal):
            receive(data, BODY_SIGNED if b"Signature" in data else DIGEST, replays=replays)
    assert replays.keys == {}


def test_a_sender_makes_every_message_anew():
    protection = make_protection(BODY_SIGNED)
    made = [secure(make_envelope(), protection, now=NOW, random=secrets.token_bytes).data for _ in range(2)]
    assert made[0] != made[1]
