"""The formatter: canonical layout, the same tree, every comment where it belongs."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from demaq.language import ast
from demaq.language.parser import parse_module
from demaq.language.printing import format_module
from demaq.language.printing.printer import WRITERS
from demaq.language.printing.statements import module as write_module
from demaq.language.printing.stream import BREAKS, NOTHING_OR_BREAK, End, SourceMark
from demaq.language.printing.writer import Printer
from tests.support.language import trees


def parsed(text: str) -> ast.Module:
    module, errors = parse_module(text)
    assert not errors, f"{errors[0]}\n{text}"
    return module


def formatted(text: str) -> str:
    result = format_module(parsed(dedent(text)))
    assert format_module(parsed(result)) == result
    return result


def test_clauses_stand_in_canonical_order_without_semicolons():
    assert formatted("create queue q mode transient errorqueue e kind echo;") == (
        "create queue q kind echo mode transient errorqueue e\n"
    )


def test_a_mailbox_stays_a_mailbox():
    assert formatted("create queue q mode transient kind mailbox") == "create queue q kind mailbox mode transient\n"


def test_one_line_statements_of_a_kind_stand_together():
    text = "create queue a create queue b create slicing s on p create collection c create collection d"
    assert formatted(text) == (
        "create queue a\ncreate queue b\n\ncreate slicing s on p\n\ncreate collection c\ncreate collection d\n"
    )


def test_a_statement_of_several_lines_is_set_apart():
    result = formatted(f"create queue a create queue b schema {'x' * 50}.xsd interface {'y' * 50}.wsdl create queue c")
    assert result == (
        f"create queue a\n\ncreate queue b\n  schema {'x' * 50}.xsd\n  interface {'y' * 50}.wsdl\n\ncreate queue c\n"
    )


def test_a_rule_has_its_condition_and_its_actions_on_lines_of_their_own():
    assert formatted("create rule r for q if (//a) then do enqueue <b/> into c") == (
        "create rule r for q\n  if (//a) then\n    do enqueue <b/> into c\n"
    )


def test_a_list_of_actions_stands_in_parentheses():
    assert formatted("create rule r for q if (a) then do enqueue <b/> into c, do reset") == (
        "create rule r for q\n  if (a) then (do enqueue <b/> into c, do reset)\n"
    )


def test_an_if_without_else_keeps_none():
    text = "create rule r for q if (a) then if (b) then do reset else do reset s key 1"
    assert formatted(text).count("else") == 1


def test_the_header_and_the_prolog_come_first():
    assert formatted('module m errorqueue e; declare namespace p = "u"; declare variable $x := 1; create queue e') == (
        'module m errorqueue e;\n\ndeclare namespace p = "u";\n\ndeclare variable $x := 1;\n\ncreate queue e\n'
    )


def test_an_empty_module_stays_empty():
    assert formatted("") == ""


def test_comments_between_statements_stay_between_them():
    text = """\
        (: the application :)

        (: queues :)
        create queue a
        (: about b,
           on two lines :)
        create queue b

        (: rules :)

        create rule r for a
          if (b) then
            do reset
        (: the end :)
    """
    assert formatted(text) == dedent(text)


def test_a_comment_after_a_statement_stays_on_its_line():
    text = """\
        create queue a (: quiet :)
        create queue b (: quiet, too :)
    """
    assert formatted(text) == dedent(text)


def test_a_comment_after_part_of_a_statement_stays_on_that_line():
    text = """\
        create rule r for q (: one :)
          if (a) then (: two :)
            let $x := $y (: three :)
            let $z := f($x (: four :), 2)
            return do enqueue $z into q (: five :)
          else (: six :)
            do reset
    """
    assert formatted(text) == dedent(text)


def test_a_comment_before_code_stays_before_it():
    text = """\
        create queue a
        (: about b :) create queue b
    """
    assert formatted(text) == dedent(text)


def test_comments_never_enter_a_constructor():
    text = """create rule r for q if (a) then do enqueue (: 1 :) <x a="(: text :)">(: text :){ (: 2 :) b }</x> into q"""
    module = parsed(formatted(text))
    assert [comment.text for comment in module.comments] == ["(: 1 :)", "(: 2 :)"]


def test_a_statement_that_was_not_understood_is_not_printed():
    module, errors = parse_module("create queue 1")
    assert errors
    module.statements = (ast.BrokenStatement(module.at, "queue", ast.Name(module.at, "q")),)
    with pytest.raises(ValueError, match="could not be parsed"):
        format_module(module)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(trees.modules(), st.sampled_from([10, 40, 100]))
def test_a_formatted_module_means_the_same_and_is_formatted(tree, width):
    text = format_module(tree, width)
    again = parsed(text)
    assert ast.same_tree(tree, again), text
    assert format_module(again, width) == text


@st.composite
def scribbled(draw: Any) -> str:
    """A module as an author might have written it: lines broken anywhere, comments everywhere."""
    tree = parsed(format_module(draw(trees.modules())))
    printer = Printer(WRITERS)
    write_module(printer, tree)
    pieces: list[str] = []
    comments = 0
    spaces = st.sampled_from([" ", " ", " ", "\n", "\n\n", "{}", "\n{}\n", "\n{} ", " {}\n", "\n\n{}\n\n", "{} {}\n"])
    for item in printer.stream:
        if isinstance(item, str):
            pieces.append(item)
        elif item in BREAKS or isinstance(item, SourceMark | End):
            if item not in BREAKS and draw(st.integers(0, 9)):
                continue
            space = draw(spaces)
            if not space.strip() and (isinstance(item, SourceMark | End) or item is NOTHING_OR_BREAK):
                space = space.replace(" ", "")
            while "{}" in space:
                comments += 1
                lines = "\n" if not draw(st.integers(0, 9)) else " "
                space = space.replace("{}", f"(:{lines}{comments} :)", 1)
            pieces.append(space)
    return "".join(pieces)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(scribbled(), st.sampled_from([10, 40, 100]))
def test_formatting_keeps_the_tree_and_the_comments_and_is_idempotent(text, width):
    module = parsed(text)
    result = format_module(module, width)
    again = parsed(result)
    assert ast.same_tree(module, again), result
    assert [comment.text for comment in again.comments] == [comment.text for comment in module.comments]
    assert format_module(again, width) == result
    for before, after in zip(module.comments, again.comments, strict=True):
        if code_in_front(module, before):
            assert code_in_front(again, after), f"{before.text} moved away from its line:\n{text}\n-----\n{result}"


def code_in_front(module: ast.Module, comment: ast.Comment) -> bool:
    """Whether something other than comments stands in front of the comment on its line (or of what it continues)."""
    text = comment.at.source.text
    for other in module.comments:
        text = text[: other.at.start] + " " * len(other.text) + text[other.at.end :]
    return bool(text[text.rfind("\n", 0, comment.at.start) + 1 : comment.at.start].strip())
