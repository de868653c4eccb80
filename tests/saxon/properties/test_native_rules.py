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
from tests.support.reference.xquery_grammar import DEFAULTS, FUNCTIONS, PROLOG, STATEMENTS, Grammar, draw_document

ANSWERS = example_count(2000, "NATIVE_ANSWERS")
"""So many native answers are compared, not counting messages that native rules leave to Saxon."""
RULES, MESSAGES, STORED = 80, 25, 3
"""In one program, for each rule, and in the state that rules read."""
NATIVE_RULES_MIN = 50
"""So many different rules are native, or else the answers say little."""
NATIVE_SHARE_MIN = 0.5
"""Of the rules that are drawn, more are native, though many operands are drawn to be of the wrong kind."""
PASSED_SHARE_MIN = 0.3
"""So many answers are also computed when their messages arrive, straight from the text."""
CRASHES_SHARE_MAX = 0.05
"""For so few answers there is nothing to compare with, because an exception of Java has ended Saxon's evaluation."""
SECONDS_BETWEEN_NOTES = 60


FEATURES = {
    "default namespaces": " xmlns=",
    "prefixes": "p:",
    "names with stars": "*:",
    "predicates on attributes": "[@",
    "positions": "[position()",
    "last": "last()",
    "attributes of any name": "@*",
    "reverse axes": "ancestor",
    "sibling axes": "-sibling::",
    "sets": " except ",
    "node comparisons": " is ",
    "all nodes": "node()",
    "names": "local-name(",
    "computed elements": "element {",
    "computed attributes": "attribute ",
    "texts": "text {",
    "for at": " at $n",
    "order by": "order by",
    "descending": " descending",
    "group by": "group by",
    "count": " count $c",
    "some": "(some ",
    "every": "(every ",
    "switch": "(switch ",
    "typeswitch": "(typeswitch ",
    "types": " instance of ",
    "ranges": " to ",
    "arrows": " => ",
    "declared functions": "local:",
    "global variables": "$two",
    "global trees": "$tree",
    "sequences": "subsequence(",
    "sorting": "sort(",
    "state": "qs:queue(",
    "timers": "with timeout",
    "properties": "qs:property(",
    "explicit properties": " with key value",
}
"""What occurs in native rules, and how it is recognised."""
PROGRAMS_MAX = 60
"""Even the shortest run goes on until all of them have occurred, which takes about ten programs."""


@pytest.mark.draws
def test_native_rules_answer_what_saxon_answers_whatever_the_expression():
    seed = int(os.environ.get("NATIVE_SEED") or run_seed())
    print(f"NATIVE_SEED={seed}")
    found = Comparison()
    drawn_rules = 0
    noted = time.monotonic()
    while found.compared < ANSWERS or find_missing(found):
        assert drawn_rules < PROGRAMS_MAX * RULES or found.compared < ANSWERS, find_missing(found)
        drawn = compare_drawn(seed)
        assert not drawn.differences, f"NATIVE_SEED={seed}\n" + "\n\n".join(drawn.differences[:5])
        assert not drawn.faults, f"NATIVE_SEED={seed}\n" + "\n".join(drawn.faults)
        drawn_rules += RULES - len(drawn.refused)
        found.add(drawn)
        seed += 1
        if time.monotonic() - noted > SECONDS_BETWEEN_NOTES:
            noted = time.monotonic()
            print(
                f"{found.compared} answers of {len(found.native)} rules, {found.fallbacks} fallbacks", file=sys.stderr
            )
    native = len(found.native)
    print(f"{found.compared} native answers of {native} rules are Saxon's; {found.fallbacks} messages were left to it")
    assert native >= max(NATIVE_RULES_MIN, drawn_rules * NATIVE_SHARE_MIN)
    assert found.fallbacks < found.compared
    assert found.crashes < found.compared * CRASHES_SHARE_MAX
    assert found.passed > found.compared * PASSED_SHARE_MIN


def find_missing(found: Comparison) -> list[str]:
    """What has not occurred in native rules."""
    return [name for name, text in FEATURES.items() if not any([text in rule for rule in found.native])]


def draw_node_comparison(random: Random) -> str:
    """A rule that compares nodes: the grammar seldom draws one that is native."""
    one, other = [f"(//{random.choice('abcr')})[{random.randint(1, 2)}]" for _ in range(2)]
    return f"if ({one} {random.choice(('is', '<<', '>>', 'is'))} {other}) then do enqueue <o/> into o"


def draw_range(random: Random) -> str:
    """The same for a range."""
    first, last = random.randint(-1, 2), random.choice(("3", "0", "count(//a)", "string-length(string(/*))"))
    return f"if (/*) then do enqueue <o>{{ for $n in {first} to {last} return $n * 2 }}</o> into o"


def compare_drawn(seed: int) -> Comparison:
    """What a seed draws."""
    random = Random(seed)
    grammar = Grammar(random)
    rules = [grammar.rule(random.choice((1, 2, 3, 4))) for _ in range(RULES - 2)]
    rules += [draw_node_comparison(random), draw_range(random)]
    messages = [parse_document(draw_document(random)) for _ in range(MESSAGES)]
    prolog = random.choice(DEFAULTS) + PROLOG + FUNCTIONS + STATEMENTS
    return compare(rules, messages, prolog, [parse_document(draw_document(random)) for _ in range(STORED)])
