"""What repeated requests are known by: of whom, and with what they say."""

from __future__ import annotations

import itertools

from demaq.gateways.idempotency import request_of
from demaq.gateways.security.authentication import ANONYMOUS, Identity
from demaq.store.request_names import bounds_of, digest_of, has_digest, make_request, name_of

JOE = Identity(name="joe", kind="basic")
SENDERS = [
    ANONYMOUS,
    JOE,
    Identity(name="joe", kind="bearer"),
    Identity(name="joe", kind="certificate"),
    Identity(name="joe:k", kind="basic"),
    Identity(name="", kind="basic"),
]


def test_names_of_different_senders_gateways_and_ways_are_different():
    found = [
        name_of(request_of(way, queue, sender, key, "d", is_guessable=False))
        for way, queue, sender, key in itertools.product(("http", "node"), ("a", "b"), SENDERS, ("k", "k:k", ":k"))
    ]
    assert len(set(found)) == len(found)


def test_a_guessable_name_of_an_anonymous_sender_counts_with_what_it_says():
    one, other = [request_of("node", "q", ANONYMOUS, "id/5", digest, is_guessable=True) for digest in ("1", "2")]
    assert name_of(one) != name_of(other)


def test_a_name_of_a_known_sender_or_of_ones_own_making_counts_alone():
    for sender, is_guessable in ((JOE, True), (JOE, False), (ANONYMOUS, False)):
        one, other = [request_of("node", "q", sender, "id/5", digest, is_guessable=is_guessable) for digest in "12"]
        assert name_of(one) == name_of(other)
        assert one != other
        assert has_digest(one)


def test_a_digest_tells_where_parts_end():
    said: list[list[str | bytes | None]] = [
        ["ab", "c"],
        ["a", "bc"],
        ["abc"],
        ["abc", ""],
        ["abc", None],
        [None, "abc"],
        [b"abc", b"-"],
        [b"ab", b"c-"],
    ]
    assert len({digest_of(parts) for parts in said}) == len(said)
    assert digest_of(["ä"]) == digest_of(["ä".encode()])


def test_requests_of_a_name_lie_between_its_bounds_and_others_do_not():
    first, end = bounds_of(make_request("k", "1"))
    assert all([first <= request < end for request in ("k", make_request("k", "0"), make_request("k", "f" * 40))])
    assert not [
        request
        for request in ("j", "k ", "k!", "kk", make_request("k k", "1"), make_request("kk", "1"))
        if first <= request < end
    ]
