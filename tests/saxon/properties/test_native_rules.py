"""Native rules answer what Saxon answers, on expressions from the whole grammar of XPath and XQuery.

New examples in every run. To repeat one, or to look harder:

    NATIVE_SEED=123 ./test tests/saxon/properties/test_native_rules.py
    NATIVE_ANSWERS=1000000 ./test tests/saxon/properties/test_native_rules.py -s
"""

from __future__ import annotations

import os
import sys
import time
from random import Random

import pytest

from demaq.documents import parse_document
from tests.support.drawing import example_count, run_seed
from tests.support.native import Comparison, compare
from tests.support.reference.xquery_grammar import PROLOG, Grammar, draw_document

ANSWERS = example_count(2000, "NATIVE_ANSWERS")
"""So many native answers are compared, not counting messages that native rules leave to Saxon."""
RULES, MESSAGES, STORED = 80, 25, 3
"""In one program, for each rule, and in the state that rules read."""
NATIVE_RULES_MIN = 50
"""So many different rules are native, or else the answers say little."""
SECONDS_BETWEEN_NOTES = 60


@pytest.mark.draws
def test_native_rules_answer_what_saxon_answers_whatever_the_expression():
    seed = int(os.environ.get("NATIVE_SEED") or run_seed())
    print(f"NATIVE_SEED={seed}")
    found = Comparison()
    native = 0
    noted = time.monotonic()
    while found.compared < ANSWERS:
        drawn = compare_drawn(seed)
        assert not drawn.differences, f"NATIVE_SEED={seed}\n" + "\n\n".join(drawn.differences[:5])
        assert not drawn.faults, f"NATIVE_SEED={seed}\n" + "\n".join(drawn.faults)
        native += RULES - len(drawn.left) - len(drawn.refused)
        found.compared += drawn.compared
        found.fallbacks += drawn.fallbacks
        seed += 1
        if time.monotonic() - noted > SECONDS_BETWEEN_NOTES:
            noted = time.monotonic()
            print(f"{found.compared} answers of {native} rules, {found.fallbacks} fallbacks", file=sys.stderr)
    print(f"{found.compared} native answers of {native} rules are Saxon's; {found.fallbacks} messages were left to it")
    assert native >= NATIVE_RULES_MIN
    assert found.fallbacks < found.compared


def compare_drawn(seed: int) -> Comparison:
    """What a seed draws."""
    random = Random(seed)
    grammar = Grammar(random)
    rules = [grammar.rule(random.choice((1, 2, 3, 4))) for _ in range(RULES)]
    messages = [parse_document(draw_document(random)) for _ in range(MESSAGES)]
    return compare(rules, messages, PROLOG, [parse_document(draw_document(random)) for _ in range(STORED)])
