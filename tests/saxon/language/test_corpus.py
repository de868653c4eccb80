"""The hand-written corpus: what must be accepted, what refused, and that printing keeps the meaning."""

from __future__ import annotations

from typing import Any

import pytest

saxonche = pytest.importorskip("saxonche")

from demaq.errors import ProgramError  # noqa: E402  (Saxon is looked for first)
from demaq.language import ast, parse_query, print_query  # noqa: E402
from demaq.language.parser import parse_module  # noqa: E402
from tests.support.language.corpus import cases  # noqa: E402

ACCEPTED = [
    case for case in cases("accepted") if not case[1].startswith("import schema") and "import schema" not in case[1]
]
SCHEMA_IMPORTS = [case for case in cases("accepted") if case[0].startswith("parse-only/import-schema")]
UPDATES = cases("updates")
NOT_EVALUATED = ("parse-only/", "library-modules/", "beyond-saxon/")
RULE = "create queue q\ncreate rule r for q if ({})\nthen do enqueue <x/> into q\ncreate queue next kind basic"


def ids(found: list[tuple[str, str]]) -> list[str]:
    return [name for name, _ in found]


def test_every_accepted_query_parses_and_prints_to_the_same_tree() -> None:
    for name, text in ACCEPTED + UPDATES:
        tree = parse_query(text)
        printed = print_query(tree)
        assert ast.same_tree(tree, parse_query(printed)), f"{name}: {printed}"


@pytest.mark.parametrize(
    ("name", "text"), cases("refused") + cases("updates-refused"), ids=ids(cases("refused") + cases("updates-refused"))
)
def test_every_syntax_error_is_refused(name: str, text: str) -> None:
    with pytest.raises(ProgramError) as refusal:
        parse_query(text)
    assert refusal.value.code in ("DQ0101", "DQ0102")
    assert refusal.value.at is not None


@pytest.mark.parametrize(("name", "text"), SCHEMA_IMPORTS, ids=ids(SCHEMA_IMPORTS))
def test_schema_imports_are_refused_with_a_reason(name: str, text: str) -> None:
    with pytest.raises(ProgramError, match="not supported"):
        parse_query(text)


class Judge:
    """Saxon as judge: the value of a query as text, or the code of its error."""

    def __init__(self) -> None:
        self.processor = saxonche.PySaxonProcessor(license=False)
        show = 'function($v as item()*) { serialize($v, map { "method": "adaptive" }) }'
        self.show: Any = self.processor.new_xquery_processor().run_query_to_value(query_text=show).head

    def value(self, query: str) -> str:
        try:
            value = self.processor.new_xquery_processor().run_query_to_value(query_text=query)
            if value is None:
                return ""
            return str(self.processor.get_string_value(self.show.call([value]).head))
        except saxonche.PySaxonApiError as error:
            words = [
                word for word in str(error).split() if len(word) == 8 and word[:4].isupper() and word[4:].isdigit()
            ]
            return f"error {words[:1]}"


def test_what_is_printed_means_the_same_to_saxon() -> None:
    judge = Judge()
    differences = []
    for name, text in ACCEPTED:
        if name.startswith(NOT_EVALUATED):
            continue
        printed = print_query(parse_query(text))
        before, after = judge.value(text), judge.value(printed)
        if before != after:
            differences.append(f"{name}\n  {text}\n  {printed}\n  {before}\n  {after}")
    assert not differences, "\n".join(differences[:20])


def test_an_expression_in_a_rule_ends_where_it_ends() -> None:
    """Losing one's place would show in the next statement."""
    for name, text in ACCEPTED:
        query = parse_query(text)
        if query.prolog or query.version or query.body is None:
            continue
        module, errors = parse_module(RULE.format(text))
        assert not errors, f"{name}: {errors[0]}"
        rule, following = module.statements[1], module.statements[2]
        assert isinstance(rule, ast.RuleDecl)
        assert isinstance(rule.body, ast.If)
        assert ast.same_tree(rule.body.condition, query.body), name
        assert isinstance(following, ast.QueueDecl)
        assert following.name.local == "next"


def test_every_node_knows_its_place() -> None:
    for name, text in ACCEPTED[::7]:
        query = parse_query(text, "some.xq")
        for node in ast.walk(query):
            assert node.at.file == "some.xq", name
            assert node.at.line >= 1
            assert 0 <= node.at.start <= node.at.end <= len(node.at.source.text), f"{name}: {node}"
