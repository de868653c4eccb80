"""Rules that need no Saxon: which they are, and that unusual messages are left to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from demaq.compiler.emit.python.queue_code import emit_intake
from demaq.documents import Document, parse_document
from demaq.evaluation.native.fallback import NeedsSaxon
from demaq.evaluation.native.markup import copied
from demaq.evaluation.native.number_texts import decimal_text, double, double_text
from demaq.evaluation.native.values import entries, total
from demaq.evaluation.outcomes import Enqueued, Outcome
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.processor import Saxon
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.memory_state import MemoryState
from tests.support.programs import NOW, program


class NoSaxon(Saxon):
    """Compiles, and is never asked to evaluate anything."""

    is_needed = False

    def call_for_documents(self, *args):
        if not self.is_needed:
            raise AssertionError("Saxon was asked")
        return super().call_for_documents(*args)


class NativeProgram:
    """A program whose rules must be native."""

    def __init__(self, folder: Path, text: str) -> None:
        self.saxon = NoSaxon()
        compiled = compile_program(program(folder, text), self.saxon)
        self.evaluator = SaxonEvaluator(compiled)
        slicings = {slicing.name: slicing.property for slicing in compiled.plan.program.slicings.values()}
        self.state = MemoryState(self.evaluator, slicings, NOW)

    def run(self, body: str) -> Outcome:
        message = self.state.add("q", parse_document(body))
        return self.evaluator.evaluate([message], self.state, NOW)[0]

    def made(self, body: str) -> list[str]:
        return [action.document.text for action in self.run(body).actions if isinstance(action, Enqueued)]


HEAD = "create queue q create queue o "


def rule(content: str, condition: str = "true()") -> str:
    return f"{HEAD} create rule r for q if ({condition}) then do enqueue <o>{content}</o> into o"


@pytest.mark.parametrize(
    ("content", "body", "made"),
    [
        ("{//a}", "<m><b><a>1</a></b>t<a/></m>", "<o><a>1</a><a/></o>"),
        ("{//a[1]}", "<m><b><a>1</a><a>2</a></b><a>3</a></m>", "<o><a>1</a><a>3</a></o>"),
        ("{(//a)[1]}", "<m><b><a>1</a><a>2</a></b><a>3</a></m>", "<o><a>1</a></o>"),
        ("{//a/b}", "<m><a><a><b>1</b></a><b>2</b></a></m>", "<o><b>1</b><b>2</b></o>"),
        ("{(//b | //a)}", "<m><a/><b/><a/></m>", "<o><a/><b/><a/></o>"),
        ("{sum(//a/(@p * @n))}", '<m><a p="2.5" n="3"/><a p="1"/></m>', "<o>7.5</o>"),
        ("{sum(//nobody)}", "<m/>", "<o>0</o>"),
        ("{1e6, 1234567.5e0, 1e-7}", "<m/>", "<o>1.0E6 1.2345675E6 1.0E-7</o>"),
        ("{//a/text()}", "<m><a>1<b/>2</a></m>", "<o>12</o>"),
        ("{//a/@k}", '<m><a k="1"/></m>', '<o k="1"/>'),
        ('{for $a in //a where $a/@k > 1 return <i k="{$a/@k}"/>}', '<m><a k="1"/><a k="2"/></m>', '<o><i k="2"/></o>'),
        ("{let $i := <i/> return ($i, $i)}", "<m/>", "<o><i/><i/></o>"),
        ("{.}", "<m>1</m>", "<o><m>1</m></o>"),
        ("{{}} &lt;&#65; ", "<m/>", "<o>{} &lt;A </o>"),
        ("{//a}", '<m xmlns:p="urn:p"><a p:k="1"/></m>', '<o><a xmlns:p="urn:p" p:k="1"/></o>'),
    ],
)
def test_a_native_rule_needs_no_saxon(tmp_path: Path, content: str, body: str, made: str):
    assert NativeProgram(tmp_path, rule(content)).made(body) == [made]


def test_names_with_namespaces_are_native_too(tmp_path: Path):
    text = (
        f'declare namespace p = "urn:p"; {HEAD} create rule r for q if (/p:m) then '
        'do enqueue <p:o p:k="1">{//p:a, //a}</p:o> into o'
    )
    native = NativeProgram(tmp_path, text)
    made = native.made('<p:m xmlns:p="urn:p"><a/><p:a>1</p:a></p:m>')
    assert made == ['<p:o xmlns:p="urn:p" p:k="1"><p:a>1</p:a><a/></p:o>']
    assert native.made("<m><a/></m>") == []
    made = native.made('<x:m xmlns:x="urn:p"><a/></x:m>')  # the same namespace by another prefix
    assert made == ['<p:o xmlns:p="urn:p" p:k="1"><a xmlns:x="urn:p"/></p:o>']


@pytest.mark.parametrize(
    ("content", "body", "made"),
    [
        ("<i>{//d:a}</i>", '<m xmlns="urn:d"><a/></m>', '<o xmlns="urn:o"><i><a xmlns="urn:d"/></i></o>'),
        ("{//Q{}a}", "<m><a><b/></a></m>", '<o xmlns="urn:o"><a xmlns=""><b/></a></o>'),
        ("{//d:a}", '<d:m xmlns:d="urn:d"><d:a/></d:m>', '<o xmlns="urn:o"><d:a xmlns:d="urn:d"/></o>'),
        ("{let $i := <i/> return $i}", "<m/>", '<o xmlns="urn:o"><i xmlns="urn:o"/></o>'),
        ("{element i {attribute k {1}, 2}}", "<m/>", '<o xmlns="urn:o"><i k="1">2</i></o>'),
        ("{element {name(/*)} {}}", "<m/>", '<o xmlns="urn:o"><m/></o>'),
        ("{/*/@*}", '<m k="1" d:k="2" xmlns:d="urn:d"/>', '<o xmlns="urn:o" k="1" xmlns:d="urn:d" d:k="2"/>'),
        ("{/*/node()}", "<m>1<a/>2<!--3--></m>", '<o xmlns="urn:o">1<a xmlns=""/>2<!--3--></o>'),
    ],
)
def test_default_namespaces_are_native(tmp_path: Path, content: str, body: str, made: str):
    text = (
        f'declare namespace d = "urn:d"; {HEAD} create rule r for q if (true()) then '
        f'do enqueue <o xmlns="urn:o">{content}</o> into o'
    )
    assert NativeProgram(tmp_path, text).made(body) == [made]


@pytest.mark.parametrize(
    "body",
    [
        "<m><!-- a --><a>1</a></m>",
        "<m><?p i?><a>1</a></m>",
        '<m xmlns:p="urn:p"><a xmlns:q="urn:p">1</a></m>',
        '<m xmlns="urn:p"><a xmlns="">1</a></m>',
        "<m><a><![CDATA[1]]></a></m>",
    ],
)
def test_comments_and_any_namespaces_need_no_saxon(tmp_path: Path, body: str):
    [made] = NativeProgram(tmp_path, rule("{sum(//a)}{//a}")).made(body)
    assert made.startswith("<o>1<a")
    assert made.endswith(">1</a></o>")


def test_a_message_with_a_wrong_number_is_left_to_saxon(tmp_path: Path):
    native = NativeProgram(tmp_path, rule("{sum(//a)}{//a}"))
    with pytest.raises(AssertionError, match="Saxon was asked"):
        native.run("<m><a>x</a></m>")
    native.saxon.is_needed = True
    assert native.run("<m><a>x</a></m>").errors


def test_an_expression_is_translated_once_however_often_its_value_is_used(tmp_path: Path):
    value = "string(//a)"
    for _ in range(30):
        value = f'({value} ! (if (. = "a" and . = "a") then string(.) else "b"))'
    assert NativeProgram(tmp_path, rule(f"{{{value}}}")).made("<m><a>a</a></m>") == ["<o>a</o>"]


def test_a_rule_asks_all_that_comes_first_before_it_reads(tmp_path: Path):
    text = f"""{HEAD} create queue s
      create rule r for q if (/m) then
        let $found := qs:queue("s")[/s/k = qs:message()//k]
        return do enqueue <o>{{count($found)}}</o> into o"""
    native = NativeProgram(tmp_path, text)
    for k in (1, 1, 2):
        native.state.add("s", parse_document(f"<s><k>{k}</k></s>"))
    assert native.made("<m><k>1</k></m>") == ["<o>2</o>"]
    outcome = native.run("<m><k>3</k></m>")
    assert outcome.reads.entries == {(1, "s3")}
    assert not native.run("<n/>").fired


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.0, "0"), (1e6, "1.0E6"), (999999.5, "999999.5"), (1e-6, "0.000001"), (9e-7, "9.0E-7"), (-2.50, "-2.5")),
        *((float("inf"), "INF"), (float("-inf"), "-INF"), (float("nan"), "NaN"), (-0.0, "-0")),
    ],
)
def test_doubles_are_written_as_xquery_writes_them(value: float, text: str):
    assert double_text(value) == text


@pytest.mark.parametrize("text", ["7", " 7.5\n", "-.5", "+7.", "1e3", "1E-3"])
def test_numbers_are_read_as_xquery_reads_them(text: str):
    assert double(text) == float(text)


@pytest.mark.parametrize(
    "text", ["", "x", "1_000", "nan", "NaN", "INF", "infinity", "1e400", "\u0661", "1\xa0", "0x1F"]
)
def test_what_only_python_takes_for_a_number_needs_saxon(text: str):
    with pytest.raises(NeedsSaxon):
        double(text)


def test_the_sum_of_one_number_is_that_number():
    assert str(total([-0.0])) == "-0.0"
    assert total([]) == 0
    assert total([0.1, 0.2, 0.3]) == 0.1 + 0.2 + 0.3


def test_decimals_are_written_in_one_way():
    assert [decimal_text(text) for text in ("1.50", " 007 ", "-0", ".5", "3.")] == ["1.5", "7", "0", "0.5", "3"]
    with pytest.raises(NeedsSaxon):
        decimal_text("1e3")


def test_index_entries_know_strings_and_numbers():
    assert entries(["1", "01", "x", " 2"]) == ["s1", "n1", "s01", "sx", "s 2", "n2"]
    with pytest.raises(NeedsSaxon):
        entries(["NaN"])


def test_a_copy_keeps_the_namespaces_that_are_in_scope():
    root = Document('<m xmlns:p="urn:p" xmlns:q="urn:q"><p:a>1<b/>2</p:a>t</m>').native_root
    assert root is not None
    assert copied(root[0]) == '<p:a xmlns:p="urn:p" xmlns:q="urn:q">1<b/>2</p:a>'


@pytest.mark.parametrize("is_native", [True, False])
def test_a_key_inside_of_a_constructor_has_the_namespaces_of_the_constructor(tmp_path: Path, is_native: bool):
    text = f"""{HEAD} create queue s create rule r for q if (true()) then
      do enqueue <o xmlns="urn:d" xmlns:p="urn:p">{{count(qs:queue("s")[a/p:k = qs:message()//b])}}</o> into o"""
    compiled = compile_program(program(tmp_path, text), Saxon())
    evaluator = SaxonEvaluator(compiled, native=is_native)
    state = MemoryState(evaluator, {}, NOW)
    for k in (1, 2):
        state.add("s", parse_document(f'<a xmlns="urn:d" xmlns:p="urn:p"><p:k>{k}</p:k></a>'))
    message = state.add("q", parse_document('<m xmlns="urn:d"><b>1</b></m>'))
    [action] = evaluator.evaluate([message], state, NOW)[0].actions
    assert isinstance(action, Enqueued)
    assert action.document.text == '<o xmlns="urn:d" xmlns:p="urn:p">1</o>'


@pytest.mark.parametrize(
    ("value", "is_linear"),
    [
        ("//a", True),
        ("(/m/a | /m/b)/@k", True),
        ("upper-case(/m/a)", True),
        ("//a[1]", True),
        ("//a[@k = 1]", True),
        ("//a[b = c]", False),
        ("//a[@k = //b]", False),
        ("//a[b = //b]", False),
        ("for $a in //a order by $a/@k return $a/b", True),
        ("for $a in //a, $b in //b return $a/@k", False),
        ("let $a := //a return count($a)", True),
        ("for $a in //a return count(//b[. = $a])", False),
        ("some $a in //a satisfies $a/@k = 1", True),
        ("some $a in //a satisfies //b = $a", False),
        ("sum(1 to xs:integer(//a))", False),
        ("deep-equal(//a, //b)", False),
        ("//a/../b", True),
        ("//a/following-sibling::b", False),
        ("//a/preceding::b", False),
        ("//a ! count(//b)", False),
        ("//a/count(//b)", False),
        ("local:slow(//a)", False),
        ('replace(/m, "(x+x+)+y", "")', False),
    ],
)
def test_what_is_computed_without_time_limit_is_linear(tmp_path: Path, value: str, is_linear: bool):
    text = (
        "declare function local:slow($a) { for $x in $a, $y in $a return $x };"
        f"{HEAD} create property p as xs:string queue q value {value}"
    )
    compiled = compile_program(program(tmp_path, text))
    assert emit_intake("q", compiled.plan).is_linear == is_linear
