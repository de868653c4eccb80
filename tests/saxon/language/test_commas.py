"""Which expressions a comma joins: at the top of a rule's body those of the nearest branch, elsewhere XQuery's.

Bodies are drawn from the grammar as tokens, and read by two sentences of the language reference that need no parser:
a comma outside of all parentheses belongs to the nearest `then`, `else` or `return` before it that is outside too;
any other belongs to the parenthesis around it. `DEMAQ_TEST_SEED` repeats a run that failed.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from demaq.language import ast
from demaq.language.loader import check_text
from demaq.language.parser import parse_module, parse_query
from demaq.language.printing.printer import format_canonically
from demaq.testing import Lab
from tests.support.drawing import example_count, run_seed
from tests.support.language.checking import check

BODIES = example_count(400, "COMMA_BODIES")
BRANCH_WORDS = ("then", "else", "return")
HEAD = 'declare updating function local:act($n) { do enqueue <a n="{$n}"/> into q };\ncreate rule r for q '


class Drawing:
    """Draws the tokens of a rule's body. Conditions, clauses and actions are one token each, with commas of their own."""

    def __init__(self, dice: random.Random, always_else: bool = False) -> None:
        self.dice = dice
        self.always_else = always_else
        self.actions = 0

    def body(self) -> list[str]:
        return self.conditional(4, at_top=True)

    def one(self, depth: int, at_top: bool) -> list[str]:
        makers = [self.conditional, self.flwor, self.switch, self.typeswitch, self.copy, self.parenthesised]
        if depth <= 0 or self.dice.random() < 0.3:
            return [self.action()]
        return self.dice.choice(makers)(depth - 1, at_top)

    def branch(self, depth: int, at_top: bool) -> list[str]:
        tokens = self.one(depth, at_top)
        while at_top and self.dice.random() < 0.35:
            tokens += [",", *self.one(depth, at_top)]
        return tokens

    def action(self) -> str:
        self.actions += 1
        n = self.actions
        return self.dice.choice(
            [
                f"do enqueue <a n='{n}'/> into q with p value ({n}, 0)",
                f"do reset s key ({n}, 0)",
                f"do insert <a n='{n}'/> into .",
                f"insert nodes (<a n='{n}'/>, 0) into .",
                f"delete node a[{n}]",
                f"replace value of node a with {n}",
                f"local:act({n})",
                f"{n} => local:act()",
            ]
        )

    def condition(self) -> str:
        return self.dice.choice(["true()", "concat('a', 'b')", "1, 2", "some $x in 1, $y in 2 satisfies $x"])

    def conditional(self, depth: int, at_top: bool) -> list[str]:
        tokens = [f"if ({self.condition()})", "then"]
        tokens += self.branch(depth, at_top)
        if self.always_else or self.dice.random() < 0.5:
            tokens += ["else", *self.branch(depth, at_top)]
        return tokens

    def flwor(self, depth: int, at_top: bool) -> list[str]:
        clauses = self.dice.choice(
            ["for $x in (1, 2), $y in 3", "let $x := 1, $y := (2, 3)", "for $x in 1 order by 1, 2"]
        )
        return [clauses, "return", *self.branch(depth, at_top)]

    def switch(self, depth: int, at_top: bool) -> list[str]:
        case = ["case 1 case (2, 3)", "return", *self.branch(depth, at_top)]
        return ["switch (1)", *case, "default", "return", *self.branch(depth, at_top)]

    def typeswitch(self, depth: int, at_top: bool) -> list[str]:
        case = ["case $x as map(xs:string, node()) | xs:string", "return", *self.branch(depth, at_top)]
        return ["typeswitch (1)", *case, "default", "return", *self.branch(depth, at_top)]

    def copy(self, depth: int, at_top: bool) -> list[str]:
        start = "copy $c := 1, $d := 2 modify (delete node $c, delete node $d)"
        return [start, "return", *self.branch(depth, at_top)]

    def parenthesised(self, depth: int, at_top: bool) -> list[str]:
        tokens = ["(", *self.one(depth, False)]
        for _ in range(self.dice.randint(0, 2)):
            tokens += [",", *self.one(depth, False)]
        return [*tokens, ")"]


def drawn_bodies() -> list[list[str]]:
    dice = drawn_dice()
    return [Drawing(dice).body() for _ in range(BODIES)]


def drawn_dice() -> random.Random:
    seed = run_seed()
    print(f"DEMAQ_TEST_SEED={seed}")
    return random.Random(f"commas {seed}")


def written(tokens: list[str]) -> tuple[str, list[int]]:
    """A module with the rule, and where each token begins."""
    text, offsets = HEAD, []
    for token in tokens:
        offsets.append(len(text))
        text += token + " "
    return text, offsets


def owners(tokens: list[str]) -> dict[int, int]:
    """For each comma the token that its list follows, as the language reference says."""
    found: dict[int, int] = {}
    opened: list[int] = []
    nearest_branch = -1
    for number, token in enumerate(tokens):
        if token == "(":
            opened.append(number)
        elif token == ")":
            opened.pop()
        elif token == ",":
            found[number] = opened[-1] if opened else nearest_branch
        elif token in BRANCH_WORDS and not opened:
            nearest_branch = number
    return found


def parsed(text: str) -> ast.Module:
    module, errors = parse_module(text)
    assert not errors, f"{errors[0]}\n{text}"
    return module


def rule_of(module: ast.Module) -> ast.RuleDecl:
    (rule,) = module.statements
    assert isinstance(rule, ast.RuleDecl)
    return rule


def list_around(rule: ast.RuleDecl, comma: int) -> ast.Sequence:
    """The list that the comma at an offset separates items of."""
    for node in ast.walk(rule.body):
        if isinstance(node, ast.Sequence) and node.items:
            for before, after in zip(node.items, node.items[1:], strict=False):
                if before.at.end <= comma < after.at.start:
                    return node
    raise AssertionError("the comma joins nothing")


# --- drawn bodies ----------------------------------------------------------------------------------------------------


@pytest.mark.draws
def test_every_comma_joins_what_the_language_reference_says():
    seen: Counter[str] = Counter()
    for tokens in drawn_bodies():
        text, offsets = written(tokens)
        rule = rule_of(parsed(text))
        for comma, owner in owners(tokens).items():
            assert list_around(rule, offsets[comma]).at.start == offsets[owner + 1], f"{text}\nat {offsets[comma]}"
            inner = [word for word in tokens[owner + 1 : comma] if word in BRANCH_WORDS]
            seen[f"{tokens[owner]} {'around a branch' if inner else ''}".strip()] += 1
    assert min([seen[word] for word in ("then", "else", "return", "(", "( around a branch")]) > 10, seen


@pytest.mark.draws
def test_the_warning_is_given_for_an_else_a_default_and_an_inner_if_alone():
    seen: Counter[bool] = Counter()
    for tokens in drawn_bodies():
        text, offsets = written(tokens)
        first_then = tokens.index("then")
        expected = []
        for owner in dict.fromkeys(owners(tokens).values()):
            word, before = tokens[owner], tokens[owner - 1]
            unclear = word == "else" or before == "default" or (word == "then" and owner != first_then)
            if word != "(":
                seen[unclear] += 1
            if word != "(" and unclear:
                expected.append(min([offsets[comma] for comma, its in owners(tokens).items() if its == owner]))
        found = [item.at.start for item in check_text(text, "a.dmq").diagnostics if item.code == "DQ1405" and item.at]
        assert found == sorted(expected), text
    assert min(seen.values()) > 10, seen


@pytest.mark.draws
def test_what_is_formatted_reads_the_same_without_any_comma_at_the_top():
    for tokens in drawn_bodies():
        module = parsed(written(tokens)[0])
        laid_out = format_canonically(module)
        again = parsed(laid_out)
        assert ast.same_tree(module, again), laid_out
        assert not again.continuations, laid_out
        assert format_canonically(again) == laid_out


@pytest.mark.draws
def test_in_parentheses_a_comma_means_what_it_means_to_xquery():
    """The same text with plain calls for the updates is an expression that only XQuery's grammar reads."""
    dice, lists = drawn_dice(), 0
    for _ in range(BODIES):
        drawing = Drawing(dice, always_else=True)
        tokens = ["(", *drawing.one(4, False), ",", *drawing.one(4, False), ")"]
        rule = rule_of(parsed(written(["if (1)", "then", *tokens])[0]))
        assert isinstance(rule.body, ast.If)
        plain = parse_query(" ".join([plain_call(token) for token in tokens])).body
        lists += sum([isinstance(node, ast.Sequence) for node in ast.walk(rule.body)])
        assert outline(rule.body.then) == outline(plain), " ".join(tokens)
    assert lists > BODIES


def plain_call(token: str) -> str:
    starts = ("do ", "insert ", "delete ", "replace ", "local:", *"0123456789")
    return "f()" if token.startswith(starts) else token


_UPDATES = (ast.Enqueue, ast.Reset, ast.Insert, ast.Delete, ast.Replace, ast.FunctionCall, ast.Arrow)


def outline(node: ast.Node | None) -> object:
    """The shape of a tree: how it branches, and not what the updates and conditions are."""
    if node is None or isinstance(node, _UPDATES):
        return "update"
    if isinstance(node, ast.If):
        return ("If", outline(node.then), outline(node.otherwise))
    return (type(node).__name__, *[outline(child) for child in ast.children(node)])


# --- examples --------------------------------------------------------------------------------------------------------

APPLICATION = """
create queue q create queue out kind outgoingGateway
create property k as xs:string queue q value /*/@k
create slicing s on k
create rule r for s if (qs:slice()) then {}
"""


@pytest.mark.parametrize("condition", ["true()", "false()"])
@pytest.mark.parametrize(
    "actions",
    [
        "(if ({}) then do enqueue <x/> into out else do enqueue <y/> into out, do reset)",
        "((if ({}) then do enqueue <x/> into out else do enqueue <y/> into out), do reset)",
        "(if ({}) then do enqueue <x/> into out else do enqueue <y/> into out), do reset",
    ],
)
def test_a_reset_after_an_if_in_parentheses_happens_in_either_case(condition: str, actions: str):
    with Lab(APPLICATION.format(actions.format(condition))) as lab:
        for _ in range(2):
            lab.enqueue("q", "<m k='1'/>")
            lab.run_until_idle()
        assert len(lab.read_queue("out")) == 2
        assert lab.read_queue("q") == []  # what was reset is in no slice, and is gone


def test_a_reset_after_an_else_without_parentheses_belongs_to_it_and_is_warned_of(tmp_path: Path):
    text = APPLICATION.format("if (/m/@a) then do enqueue <x/> into out\n  else do enqueue <y/> into out, do reset")
    (found,) = [item for item in check(tmp_path, text).warnings if item.code == "DQ1405"]
    assert found.render().split("\n", 1)[1].replace(str(tmp_path), "") == (
        "  /app.dmq:6:32\n"
        "     else do enqueue <y/> into out, do reset\n"
        "                                  ^\n"
        "hint: write `else (do enqueue <y/> into out, do reset)` if that is meant, and "
        "`(if (/m/@a) then do enqueue … else do enqueue <y/> into out), do reset` if it is to happen in any case"
    )


def test_the_hint_for_the_rules_own_else_keeps_an_if_as_the_rules_body(tmp_path: Path):
    text = "create queue q create rule r for q if (/a) then do enqueue <x/> into q else do reset, do reset"
    (found,) = [item for item in check(tmp_path, text).warnings if item.code == "DQ1405"]
    assert found.hint is not None
    assert "`if (true()) then ((if (/a) then do enqueue <x/> into q else do reset), do reset)`" in found.hint


def test_a_then_that_an_else_ends_has_one_reading(tmp_path: Path):
    text = "create queue q create rule r for q if (/a) then if (/b) then do reset, do reset else do reset"
    (found,) = [item for item in check(tmp_path, text).warnings if item.code == "DQ1405"]
    assert found.hint == "write `then (do reset, do reset)`"


def test_the_warning_can_be_silenced(tmp_path: Path):
    text = "create queue q create rule r for q if (/a) then do reset else do reset, do reset (: demaq:ignore DQ1405 :)"
    assert "DQ1405" not in [item.code for item in check(tmp_path, text).diagnostics]


def test_a_function_of_a_library_may_follow_a_comma(tmp_path: Path):
    library = (
        'module namespace l = "urn:l"; declare updating function l:act() { do enqueue <x/> into out };'
        "declare function l:value() { 1 };"
    )
    text = (
        'import module namespace l = "urn:l" at "l.xqm"; create queue q create queue out kind outgoingGateway\n'
        "create rule r for q if (/a) then do enqueue <y/> into out, {}"
    )
    assert check(tmp_path, text.format("l:act()"), {"l.xqm": library}).program is not None
    assert [item.code for item in check(tmp_path, text.format("l:value()")).errors] == ["DQ0404"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("do enqueue <a/> into q with p value 1¦, 2", "unexpected `,`"),
        ("do enqueue <a/> into q¦, ()", "unexpected `,`"),
        ("do reset¦, concat('a', 'b')", "unexpected `,`"),
        ("copy $c := . modify delete node $c/a¦, delete node $c/b return $c", "expected `return`, found `,`"),
        ("copy $c := . modify if (a) then delete node $c else delete node $c¦, () return $c", "expected `return`"),
    ],
)
def test_a_comma_that_joins_no_actions_is_an_error(text: str, message: str):
    program = HEAD + "if (1) then " + text
    _, (error, *_) = parse_module(program.replace("¦", ""))
    assert error.message.startswith(message)
    assert error.at is not None
    assert error.at.start == program.index("¦")
    assert error.hint is not None
    assert "parentheses" in error.hint


@pytest.mark.parametrize(
    "text",
    [
        "declare updating function local:f() { if (1) then do reset else do reset, do reset }; 1",
        "if (1) then do reset else (if (1) then do reset else do reset, do reset)",
        "if (1) then do reset else do reset, do reset",
    ],
)
def test_no_comma_of_a_query_continues_a_branch(text: str):
    query = parse_query(text)
    lists = [node for node in ast.walk(query) if isinstance(node, ast.Sequence)]
    assert [[type(item) for item in node.items] for node in lists] == [[ast.If, ast.Reset]]


def test_a_comma_in_the_body_of_a_function_of_a_module_ends_the_branch():
    module = parsed("declare updating function local:f() { if (1) then do reset else do reset, do reset };")
    lists = [node for node in ast.walk(module) if isinstance(node, ast.Sequence)]
    assert [[type(item) for item in node.items] for node in lists] == [[ast.If, ast.Reset]]
    assert not module.continuations
