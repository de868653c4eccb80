"""Native rules compute with atomic values as Saxon does: numbers, texts, dates and durations, casts and comparisons.

New examples in every run. To repeat one, or to look harder:

    ATOMICS_SEED=123 ./test tests/saxon/properties/test_native_atomics.py
    ATOMICS_ANSWERS=1000000 ./test tests/saxon/properties/test_native_atomics.py -s
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Set
from random import Random

import pytest

from demaq.documents import parse_document
from tests.support.drawing import example_count, run_seed
from tests.support.native import Comparison, compare
from tests.support.reference.atomic_grammar import AtomicGrammar
from tests.support.reference.atomic_texts import draw_values

ANSWERS = example_count(8000, "ATOMICS_ANSWERS")
"""So many native answers are compared, not counting messages that native rules leave to Saxon."""
RULES, MESSAGES = 120, 20
PROGRAMS_MAX = 40
"""So many programs are drawn at most until everything has occurred, if there are enough answers."""
NATIVE_SHARE_MIN = 0.5
"""Of all rules, and of all messages that native rules are given."""


@pytest.mark.draws
def test_native_rules_compute_as_saxon_does():
    seed = int(os.environ.get("ATOMICS_SEED") or run_seed())
    print(f"ATOMICS_SEED={seed}")
    found = Comparison()
    drawn: set[str] = set()
    native: Counter[str] = Counter()
    programs = rules = 0
    while found.compared < ANSWERS or (drawn - set(native) and programs < PROGRAMS_MAX):
        random = Random(seed)
        missing = drawn - set(native) if found.compared >= ANSWERS else set()
        productions = draw_rules(random, missing)
        messages = [parse_document(draw_values(random)) for _ in range(MESSAGES)]
        part = compare(list(productions), messages)
        assert not part.differences, f"ATOMICS_SEED={seed}\n" + "\n\n".join(part.differences[:5])
        assert not part.faults, f"ATOMICS_SEED={seed}\n" + "\n".join(part.faults)
        for rule, names in productions.items():
            drawn |= names
            if rule in part.answered:
                native.update(names)
        found.add(part)
        programs, rules, seed = programs + 1, rules + len(productions) - len(part.refused), seed + 1
    print(f"{found.compared} native answers are Saxon's; {found.fallbacks} messages of native rules were left to it")
    assert not drawn - set(native), "these never occurred in a native answer"
    assert len(found.left) < (1 - NATIVE_SHARE_MIN) * rules
    assert found.fallbacks < (1 - NATIVE_SHARE_MIN) * (found.fallbacks + found.compared)


def draw_rules(random: Random, missing: Set[str] = frozenset()) -> dict[str, set[str]]:
    """Return rules, each with the names of its productions; only ones with missing productions, if there are any."""
    grammar = AtomicGrammar(random)
    found: dict[str, set[str]] = {}
    while len(found) < RULES:
        rule = grammar.rule(random.choice((1, 2, 2, 3)))
        if not missing or grammar.drawn & missing:
            found[rule] = grammar.drawn
    return found
