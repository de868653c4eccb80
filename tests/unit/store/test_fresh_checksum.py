"""The checksum of a new message is that of its row, however it is computed."""

from __future__ import annotations

import random

from demaq.store.checksums import message_checksum, prepare_fresh_checksum, state_checksum

NAMES = ["in", "größe", "a'b", 'a"b', "back\\slash", "line\nbreak", "\U0001f600", ""]


def test_the_checksum_of_a_new_message_is_that_of_its_row(chance: random.Random):
    for _ in range(500):
        seq, created, hops = chance.randrange(1 << 60), chance.randrange(1 << 52), chance.randrange(100)
        origin = chance.choice((seq, 1))
        queue, rule = chance.choice(NAMES), chance.choice([*NAMES, None])
        trigger, request = chance.choice((None, 7)), chance.choice([*NAMES, None])
        transient, priority = chance.randrange(2), chance.choice((None, 0, -3, 12))
        fixed = (seq, queue, created, rule, trigger, origin, hops, transient, None, None, request)
        state = state_checksum(seq, None, None, None, 0, None, None)
        compute_checksum = prepare_fresh_checksum(queue, created, rule, hops, priority, transient)
        assert compute_checksum(seq, trigger, origin, request) == message_checksum(fixed, state, priority)
