"""What `why` says is so: against plain XQuery, and by making true what it says was false."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import saxonche

from demaq.documents import parse_document
from demaq.errors import ProgramError
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.processor import Saxon
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.memory_state import MemoryState
from demaq.messages import Message
from demaq.operations.why.rule_verdicts import RuleExaminer
from demaq.operations.why.verdict_text import write_details, write_headline, write_short
from demaq.operations.why.verdicts import Cause, MadeMessage, RuleVerdict
from tests.support.drawing import draw_until
from tests.support.programs import NOW, program
from tests.support.properties.rule_grammar import FUNCTIONS, PROLOGS, STATEMENTS, Grammar, Scope, document
from tests.support.reference.rule_oracle import RuleOracle, Verdict, canonical

WANTED = (
    *("fired", "not-fired", "not-asked", "failed", "else"),
    *("made", "several causes", "nested", "given", "operands", "held", "another namespace", "inner if", "made nothing"),
    *("claims", "passed", "fires when it is true"),
)
"""What must have occurred among the examples."""

SAXON: list[Saxon] = []


def saxon() -> Saxon:
    """One for all examples: they are dear."""
    if not SAXON:
        SAXON.append(Saxon())
    return SAXON[0]


# --- examples -----------------------------------------------------------------------------------------------------------


def condition(grammar: Grammar, scope: Scope) -> str:
    """Conjuncts, most of them of the kinds that are taken apart."""
    if grammar.number(12) == 0:  # an error if there are none, and no other conjunct that could be false instead
        return f"1 div count({grammar.nodes(scope, 1)}) > 0"
    parts = [grammar.condition(scope, grammar.pick(1, 2, 2, 3)) for _ in range(grammar.pick(1, 1, 2, 3))]
    if grammar.number(3) == 0:
        parts.append(special_condition(grammar, scope))
    return " and ".join([f"({part})" if grammar.number(2) else part for part in parts])


def special_condition(grammar: Grammar, scope: Scope) -> str:
    """What the grammar of conditions has not: FLWOR expressions, functions of the application, predicates, arrows."""
    node, below = scope.bound("nodes")
    inner = grammar.condition(below, 1)
    return str(
        grammar.pick(
            f"(for {node} in {grammar.nodes(scope, 1)} where {inner} return {node})",
            f"(let {node} := {grammar.nodes(scope, 1)} return {inner})",
            f"(for {node} in {grammar.state(scope, 1)} let $w := {node}//{grammar.name()} where exists($w) return $w)",
            f"local:is-like({grammar.nodes(scope, 1)}, {grammar.literal()})",
            f"({grammar.nodes(scope, 1)} => exists())",
            f"{grammar.steps(scope, 2)}[{grammar.condition(Scope('node', False), 1)}]/@k",
            f"({grammar.nodes(scope, 1)})[1] castable as xs:integer",
            f"xs:integer(({grammar.nodes(scope, 1)})[1]) > {grammar.number(2)}",
            f"starts-with(string(({grammar.nodes(scope, 1)})[1]), {grammar.literal()})",
        )
    )


def rule(grammar: Grammar, scope: Scope) -> str:
    kind = grammar.pick(0, 1, 1, 2, 3, 3, 4)
    first = condition(grammar, scope)
    if kind == 0:
        return f"if ({first}) then {grammar.actions(scope, 2)}"
    if kind == 1:
        return f"if ({first}) then (if ({condition(grammar, scope)}) then do enqueue <o/> into c)"
    if kind == 2:
        return f"if ({first}) then do enqueue <o/> into c else do enqueue <p/> into c"
    if kind == 3:
        node, below = scope.bound("nodes")
        loop = f"for {node} in {grammar.nodes(scope, 1)} where {grammar.condition(below, 1)}"
        return f"if ({first}) then {loop} return do enqueue <o/> into c"
    return f"if ({first}) then do enqueue <o>{{{grammar.content(scope, 1)}}}</o> into c"


class Example:
    """A program, and messages for it."""

    def __init__(self, chance: Random) -> None:
        prolog = chance.choice(PROLOGS)
        grammar = Grammar(chance, "namespace p" in prolog)
        self.head = "\n".join([prolog, FUNCTIONS, LIKE, STATEMENTS])
        self.rules: list[str] = []
        for number in range(grammar.pick(1, 2, 3)):
            target = grammar.pick("a", "a", "bys", "byn")
            self.rules.append(f"create rule r{number} for {target} {rule(grammar, Scope('message', target != 'a'))}")
        if chance.random() < 0.4:  # so many that they are filtered
            self.rules += [f"create rule f{n} for a if (/never{n}) then do enqueue <z/> into c" for n in range(8)]
        self.stored = [(chance.choice("ab"), document(chance.randrange(2**32))) for _ in range(chance.randint(0, 4))]
        self.collected = [document(chance.randrange(2**32)) for _ in range(chance.randint(0, 1))]
        self.arriving = [document(chance.randrange(2**32)) for _ in range(2)]


LIKE = "declare function local:is-like($n, $t as xs:string) as xs:boolean { exists($n) and $n = $t };"


def compiled(text: str) -> SaxonEvaluator | None:
    with tempfile.TemporaryDirectory() as folder:
        checked = program(Path(folder), text)
    try:
        return SaxonEvaluator(compile_program(checked, saxon()))
    except ProgramError:
        return None  # what Saxon can tell before any message comes, a type error mostly


def state_of(example: Example, evaluator: SaxonEvaluator) -> tuple[MemoryState, list[Message]]:
    state = MemoryState(evaluator, {s.name: s.property for s in evaluator.program.slicings.values()}, NOW)
    for queue, body in example.stored:
        state.add(queue, parse_document(body))
    for body in example.collected:
        state.add_to_collection("k", parse_document(body))
    return state, [state.add("a", parse_document(body)) for body in example.arriving]


# --- comparing ----------------------------------------------------------------------------------------------------------


def all_causes(causes: Sequence[Cause]) -> Iterator[Cause]:
    for cause in causes:
        yield cause
        yield from all_causes(cause.parts)


def check_result(said: RuleVerdict, expected: Verdict) -> None:
    """A rule that is said to have fired did fire, and made what is said; one that did not is never said to have."""
    if "XPTY0004" in str((expected.error, said.failure)):
        return  # Saxon finds some type errors or misses them by how it happens to rewrite an expression
    if expected.error is not None:  # a condition with a part that is false may be false or an error (XQuery 3.1, 2.3.4)
        assert said.result == "failed" or (expected.condition_failed and said.result in ("not-fired", "not-asked"))
        return
    assert (said.result == "fired") == expected.fired
    assert (said.result == "else") == (not expected.fired and bool(expected.actions))
    made = [
        ("E", item.queue, canonical(item.body)) if isinstance(item, MadeMessage) else ("R", item.slicing, item.key)
        for item in said.made
    ]
    assert made == [action[:3] for action in expected.actions]


def count(said: RuleVerdict, seen: Counter[str]) -> None:
    seen[said.result] += 1
    seen["made"] += bool(said.made)
    seen["made nothing"] += said.result == "fired" and bool(said.causes)
    seen["several causes"] += len(said.causes) > 1
    seen["held"] += bool(said.held)
    for cause in all_causes(said.causes):
        seen["nested"] += bool(cause.parts)
        seen["given"] += cause.given is not None
        seen["operands"] += bool(cause.operands)
        seen["another namespace"] += any(" here, and in " in hint for hint in cause.hints)


def check_named(example: Example, text: str, number: int, said: RuleVerdict, cause: Cause, seen: Counter[str]) -> None:
    """The named conjunct is false, and its operands have as many items as is said, by plain XQuery."""
    claims = [f"not({text[cause.start : cause.end]})"]
    claims += [
        f"count(({each.expression})) = {each.value.count}" for each in cause.operands if "…" not in each.expression
    ]
    target = said.slicing or "a"
    rules = [
        f"create rule c{n} for {target} if ({claim}) then do enqueue <o/> into c" for n, claim in enumerate(claims)
    ]
    evaluator = compiled("\n".join([example.head, *rules]))
    if evaluator is None:
        return
    state, messages = state_of(example, evaluator)
    try:
        found = RuleOracle(evaluator.program).verdicts(messages[number], state.messages, {"k": example.collected})
    except saxonche.PySaxonApiError:
        return  # a type error that Saxon sees beforehand
    for name, verdict in found.items():
        assert verdict.fired or verdict.error is not None, claims[int(name[1:])]
        seen["claims"] += verdict.fired


def check_passed(example: Example, text: str, number: int, said: RuleVerdict, cause: Cause, seen: Counter[str]) -> None:
    """Making the named conjunct true makes the rule pass that conjunct; if it was the only one, the rule goes on."""
    assert text[cause.start : cause.end].split() == cause.expression.split() or cause.expression.endswith("…")
    evaluator = compiled(f"{text[: cause.start]}true(){text[cause.end :]}")
    if evaluator is None:
        return
    state, messages = state_of(example, evaluator)
    again = RuleExaminer(evaluator, messages[number], state, NOW).examine(said.rule)[0]
    for other in again.causes:
        is_elsewhere = other.end <= cause.start or other.start >= cause.start + len("true()")
        assert is_elsewhere, "it is not named again"
    if len(said.causes) == 1 and again.result in ("not-fired", "else"):
        # Only the condition of an `if` inside the one that holds now may be false.
        outer = evaluator.compiled.plan.rules[said.rule].rule.body.condition
        assert again.causes, "what is false is named"
        assert min([other.start for other in again.causes]) >= outer.at.end
        seen["inner if"] += 1
    seen["passed"] += 1
    seen["fires when it is true"] += again.result == "fired"


def check(example: Example, chance: Random, seen: Counter[str]) -> None:
    text = "\n".join([example.head, *example.rules])
    evaluator = compiled(text)
    if evaluator is None:
        return
    state, messages = state_of(example, evaluator)
    oracle = RuleOracle(evaluator.program)
    for number, message in enumerate(messages):
        try:
            expected = oracle.verdicts(message, state.messages, {"k": example.collected})
        except saxonche.PySaxonApiError:
            return  # a type error that Saxon sees beforehand
        long_queues = frozenset(chance.choice([(), ("b",)]))
        for said in RuleExaminer(evaluator, message, state, NOW, long_queues).examine():
            check_result(said, expected.get(said.rule, Verdict()))
            count(said, seen)
            assert [*write_details(said, "tried"), *write_short(said, "tried")], write_headline(said, "tried")
            if said.result in ("not-fired", "else"):
                assert said.causes, "what is false is named"
                cause = chance.choice(said.causes)
                check_named(example, text, number, said, cause, seen)
                check_passed(example, text, number, said, cause, seen)


def test_what_why_says_is_so(chance: Random) -> None:
    seen: Counter[str] = Counter()
    for _ in draw_until(lambda: all([seen[what] for what in WANTED]), 100, "DEMAQ_WHY_PROGRAMS"):
        seed = chance.randrange(2**63)
        example = Example(Random(seed))
        try:
            check(example, Random(seed), seen)
        except AssertionError as error:
            error.add_note(f"seed {seed}\n" + "\n".join([*example.rules, *map(str, example.stored), *example.arriving]))
            raise
    assert {what: seen[what] for what in WANTED if not seen[what]} == {}
