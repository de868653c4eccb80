"""Every mistake that forbids deployment is reported with its code and its place."""

import pytest

from demaq.errors import ProgramError
from demaq.language.codes import CODES
from demaq.language.diagnostics import Diagnostic
from demaq.language.loader import check_application, load_program
from demaq.language.recursion import NESTING_MAX
from tests.support.language.checking import check, expected, found
from tests.support.language.error_cases import ENQUEUE, ERROR_CASES, FILES, PARTS, rule
from tests.support.soap.policies import SIGNED_BODY


def program(text: str) -> str:
    """The standard parts go after the prolog and before the statements."""
    cut = text.rfind(";") + 1 if text.lstrip("¦").startswith(("declare", "import")) else 0
    return f"{text[:cut]}\n{PARTS}{text[cut:]}"


@pytest.mark.parametrize(("code", "text"), [c[1:] for c in ERROR_CASES], ids=[c[0] for c in ERROR_CASES])
def test_a_mistake_is_reported_where_it_is(tmp_path, code, text):
    text = program(text)

    checked = check(tmp_path, text, FILES)

    assert found(checked.errors) == expected(code, text)
    assert checked.program is None
    assert all(item.code in CODES for item in checked.diagnostics)


CORRECT = {
    "a rule that may leave its else out": rule("if (//x) then do enqueue <x/> into b"),
    "three actions behind one return": rule(
        "if (//x) then let $x := //x return do enqueue $x into b, do enqueue $x into log, do enqueue <y/> into out"
    ),
    "a call of fn:error beside actions": rule("if (//x) then do enqueue <x/> into b else error()"),
    "an empty else beside actions": rule("if (//x) then do enqueue <x/> into b else ()"),
    "actions in all branches of a switch": rule(
        "if (//x) then switch (//x) case 1 return do enqueue <x/> into b default return ()"
    ),
    "a typeswitch that binds its cases": rule(
        "if (//x) then typeswitch (/*) case $e as element(x) return do enqueue $e into b"
        " default $d return do enqueue <y>{$d}</y> into b"
    ),
    "a copy that is changed and enqueued": rule(
        "if (//x) then copy $c := /* modify (delete node $c//secret, insert node <y/> into $c)"
        " return do enqueue $c into b"
    ),
    "a copy in the draft's way": rule(
        "if (//x) then do enqueue (transform copy $c := /* modify do delete $c//secret return $c) into b"
    ),
    "a copy changed in a loop": rule(
        "if (//x) then copy $c := /* modify for $y in $c//y return delete node $y return do enqueue $c into b"
    ),
    "transform with": rule("if (//x) then do enqueue (/* transform with { delete node ./y }) into b"),
    "an updating function of one's own": "declare updating function local:f($x) { do enqueue $x into b };"
    + rule("if (//x) then local:f(//x)"),
    "an updating function for copies": "declare updating function local:f($x) { delete node $x//y };"
    + rule("if (//x) then copy $c := /* modify local:f($c) return do enqueue $c into b"),
    "a function that asks for the message": "declare function local:id() { qs:message()//id };"
    + rule("if (local:id() = 1) then " + ENQUEUE),
    "closures that see outer variables": rule(
        "if (let $n := //n return for-each(//x, function($x) { $x = $n })) then " + ENQUEUE
    ),
    "a focus set inside a function": "declare function local:f($x) { $x//y[z = name()] ! string() };"
    + rule("if (local:f(.)) then " + ENQUEUE),
    "catch variables": rule("if (try { //x } catch err:FORG0001 | * { $err:code, $err:line-number }) then " + ENQUEUE),
    "windows, groups and counts": rule(
        "if (for tumbling window $w in //x start $s at $p previous $q next $n when $s = 1 and $p = 1 and $q and $n"
        " end $e when $e = $s let $k := $e group by $k count $c order by $c return ($w, $k)) then " + ENQUEUE
    ),
    "namespaces of constructors": rule(
        'if (//x) then do enqueue <o:y xmlns:o="urn:o" o:z="1">{//o:q}<o:r/></o:y> into b'
    ),
    "a name with its namespace written out": rule("if (//Q{urn:o}x) then do enqueue <x/> into Q{}b"),
    "system properties": rule('if (qs:property("demaq:header.Subject") = qs:property("demaq:id")) then ' + ENQUEUE),
    "transport properties": rule(
        'if (//x) then (do enqueue <x/> into out with Sender value "a" with Recipient value "b",'
        ' do enqueue <x/> into timer with timeout value 5 with target value "demaq:errors")'
    ),
    "the system's error queue": rule('if (qs:queue("demaq:errors")) then do enqueue <x/> into demaq:errors'),
    "a rule on the system's error queue": rule("if (//x) then " + ENQUEUE, "demaq:errors"),
    "a slicing on a system property": "create slicing conversation on demaq:connection "
    "create rule done for conversation if (qs:slice()/x) then do reset",
    "collections nobody declares": rule('if (collection("prices")/x and collection("urn:x:y")) then ' + ENQUEUE),
    "a queue computed at run time": rule("if (qs:queue(string(//q))) then " + ENQUEUE),
    "a bare reset and the slice in a slicing's rule": rule("if (qs:slice()/x = qs:slicekey()) then do reset", "s"),
    "qs:queue() in a slicing's rule": rule("if (qs:queue()/x) then do reset", "s"),
    "a reset by name from anywhere": rule("if (//x) then do reset s key //id"),
    "a property computed from others": 'create property p as xs:string queue a value qs:property("id")',
    "an external variable with a value": 'declare variable $x external := "y";',
    "a library with functions and variables": 'import module namespace l = "urn:library" at "library.xqm";'
    + rule("if (l:one() = $l:three) then " + ENQUEUE),
}


@pytest.mark.parametrize("text", CORRECT.values(), ids=CORRECT.keys())
def test_what_is_right_has_no_errors(tmp_path, text):
    checked = check(tmp_path, program(text), FILES)

    assert [item.render() for item in checked.errors] == []
    assert checked.program is not None


def test_all_mistakes_are_reported_at_once(tmp_path):
    text = program(
        "create rule r for ¦nope if (¦$x) then do enqueue <x/> into ¦bb with ¦tagg value 1"
        " create rule ¦clean for a if (¦exist(//x)) then do enqueue <x/> into ¦in"
    )

    checked = check(tmp_path, text)

    assert found(checked.errors) == expected("DQ0204 DQ0201 DQ0203 DQ0206 DQ0208 DQ0301 DQ0501", text)


def test_a_repeated_definition_names_the_first_place(tmp_path):
    checked = check(tmp_path, "create queue orders\n\ncreate queue orders")

    (problem,) = checked.errors
    assert f"{tmp_path}/app.dmq:1:14" in problem.message


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (rule("if (//x) then do enqueue <x/> into lg"), 'did you mean "log"?'),
        (rule("if (//x) then let $info := 1 return do enqueue $infos into b"), "did you mean $info?"),
        (rule("if (exist(//x)) then " + ENQUEUE), "did you mean exists()?"),
        (rule("if (message()//x) then " + ENQUEUE), "did you mean qs:message()?"),
        (rule("if (//x castable as integer) then " + ENQUEUE), "did you mean xs:integer?"),
        (rule('if (qs:property("Id")) then ' + ENQUEUE), 'did you mean "id"?'),
        (rule(ENQUEUE), "if (true()) then …"),
        (rule("if (fnn:true()) then " + ENQUEUE), "did you mean `fn:`?"),
    ],
)
def test_a_hint_shows_the_way(tmp_path, text, hint):
    (problem,) = check(tmp_path, program(text)).errors

    assert problem.hint == hint


def test_names_may_be_used_before_they_are_defined(tmp_path):
    checked = check(
        tmp_path,
        "create rule r for q if (qs:slice()/x) then do enqueue <x/> into z "
        "create slicing q on p create property p as xs:string queue z value //p create queue z",
    )

    assert checked.errors == []


def test_modules_of_one_application_share_their_parts(tmp_path):
    (tmp_path / "one.dmq").write_text("create queue a create rule r for b if (//x) then do enqueue <x/> into a")
    (tmp_path / "two.dmq").write_text("create queue b create rule q for a if (//y) then do enqueue <y/> into b")

    checked = check_application(tmp_path)

    assert checked.errors == []
    assert checked.program is not None
    assert [rule.module for rule in checked.program.rules] == [0, 1]


def test_functions_belong_to_the_module_that_declares_them(tmp_path):
    (tmp_path / "one.dmq").write_text("declare function local:f() { 1 }; create queue a")
    (tmp_path / "two.dmq").write_text("create rule r for a if (local:f()) then do enqueue <x/> into a")

    assert [item.code for item in check_application(tmp_path).errors] == ["DQ0301"]


def test_syntax_errors_come_with_the_other_mistakes(tmp_path):
    text = program("create rule broken for a if ¦(//x then\ncreate rule r for a if (¦$x) then do enqueue <x/> into b")

    assert found(check(tmp_path, text).errors) == expected("DQ0101 DQ0201", text)


def test_what_a_broken_statement_declares_counts_as_declared(tmp_path):
    text = "create queue q ¦kynd basic\ncreate rule r for q if (//x) then do enqueue <x/> into q"

    checked = check(tmp_path, text)

    assert found(checked.diagnostics) == expected("DQ0101", text)


def test_a_broken_prolog_makes_no_unknown_names(tmp_path):
    text = "declare function local:f() { ¦) };\ncreate queue q create rule r for q if (local:f()) then do reset s key 1"

    assert [item.code for item in check(tmp_path, text).errors] == ["DQ0101"]


def test_a_module_may_name_its_error_queue(tmp_path):
    text = "module m errorqueue ¦nope; create queue a create rule r for a if (//x) then do enqueue <x/> into a"

    assert found(check(tmp_path, text).errors) == expected("DQ0203", text)


def test_a_file_that_is_not_there_is_reported_beside_the_others(tmp_path):
    (tmp_path / "app.dmq").write_text("create queue a create queue a")

    checked = check_application([tmp_path / "missing.dmq", tmp_path / "app.dmq"])

    assert [item.code for item in checked.errors] == ["DQ0104", "DQ0208"]


def test_a_file_that_is_not_utf8_is_reported_with_the_place(tmp_path):
    (tmp_path / "app.dmq").write_bytes(b"create queue a\ncreate queue \xe4")

    (problem,) = check_application(tmp_path / "app.dmq").errors

    assert problem.code == "DQ0103"
    assert str(problem.at) == f"{tmp_path}/app.dmq:2:14"


def test_nesting_beyond_the_limit_is_reported(tmp_path):
    deep = "(1 + " * NESTING_MAX + "1" + ")" * NESTING_MAX

    (problem,) = check(tmp_path, f"create queue a create rule r for a if ({deep}) then do enqueue <x/> into a").errors

    assert problem.code == "DQ0102"


@pytest.mark.parametrize(
    ("before", "inside", "after"),
    [
        ("if (", "//x[y", ") then do enqueue <x/> into b"),
        ("if (1) then do enqueue ", "<x>{", " into b"),
        ("", "if (1) then ", "do enqueue <x/> into b"),
        ("if (1) then ", "let $x := 1 return ", "do enqueue <x/> into b"),
    ],
)
def test_deep_nesting_is_checked_like_any_other(tmp_path, before, inside, after):
    levels = 2_000
    closing = {"//x[y": "//x" + "]" * levels, "<x>{": "1" + "}</x>" * levels}.get(inside, "")
    opening = {"//x[y": "//x["}.get(inside, inside)
    text = program(f"create rule r for a {before}{opening * levels}{closing}{after}")

    assert check(tmp_path, text).errors == []


def test_loading_raises_the_first_error_and_keeps_the_others(tmp_path):
    (tmp_path / "app.dmq").write_text("create queue a create queue a create queue b errorqueue nope")

    with pytest.raises(ProgramError) as caught:
        load_program(tmp_path)

    assert [caught.value.code, *[other.code for other in caught.value.others]] == ["DQ0208", "DQ0203"]


def test_what_a_compiler_finds_is_asked_for_last(tmp_path):
    late = Diagnostic(severity="error", code="DQ0304", message="types do not fit", at=None)
    asked = []

    def static_check(program):
        asked.append(program)
        return [late]

    (tmp_path / "good.dmq").write_text("create queue a")
    (tmp_path / "bad.dmq").write_text("create queue a errorqueue b")

    good = check_application(tmp_path / "good.dmq", static_check)
    check_application(tmp_path / "bad.dmq", static_check)

    assert (good.program, good.errors, len(asked)) == (None, [late], 1)


class TestLibraries:
    def test_a_private_function_is_unknown_outside(self, tmp_path):
        text = program(
            'import module namespace l = "urn:library" at "library.xqm";' + rule("if (¦l:two()) then " + ENQUEUE)
        )

        assert found(check(tmp_path, text, FILES).errors) == expected("DQ0301", text)

    def test_a_library_that_cannot_be_read_makes_no_unknown_functions(self, tmp_path):
        text = program('¦import module namespace l = "urn:l" at "no.xqm";' + rule("if (l:f($l:x)) then " + ENQUEUE))

        assert found(check(tmp_path, text).errors) == expected("DQ0605", text)

    def test_a_syntax_error_is_reported_in_the_library(self, tmp_path):
        text = program('import module namespace l = "urn:l" at "l.xqm";' + rule("if (l:f()) then " + ENQUEUE))

        (problem,) = check(
            tmp_path, text, {"l.xqm": 'module namespace l = "urn:l";\ndeclare function l:f() { 1 +  };'}
        ).errors

        assert problem.code == "DQ0101"
        assert str(problem.at).startswith(f"{tmp_path}/l.xqm:2:")

    def test_mistakes_in_a_library_are_reported_there_once(self, tmp_path):
        library = 'module namespace l = "urn:l"; declare function l:f() { doc("x"), qs:slice(), //x };'
        (tmp_path / "l.xqm").write_text(library)
        for name in ("one", "two"):
            (tmp_path / f"{name}.dmq").write_text('import module namespace l = "urn:l" at "l.xqm";')

        errors = check_application(tmp_path).errors

        assert sorted([item.code for item in errors]) == ["DQ0303", "DQ0305", "DQ0308"]

    def test_libraries_may_import_each_other(self, tmp_path):
        one = 'module namespace m = "urn:m"; import module namespace n = "urn:n" at "n.xqm"; '
        two = 'module namespace n = "urn:n"; import module namespace m = "urn:m" at "m.xqm"; '
        files = {
            "m.xqm": one + "declare function m:f($x) { n:g($x) };",
            "n.xqm": two + "declare function n:g($x) { if ($x) then m:f($x/..) else () };",
        }
        text = program('import module namespace m = "urn:m" at "m.xqm";' + rule("if (m:f(.)) then " + ENQUEUE))

        checked = check(tmp_path, text, files)

        assert checked.errors == []
        assert checked.program is not None
        assert len(checked.program.modules[0].libraries) == 2

    def test_dependencies_stand_first(self, tmp_path):
        files = {
            "m.xqm": 'module namespace m = "urn:m"; import module namespace n = "urn:n" at "n.xqm";',
            "n.xqm": 'module namespace n = "urn:n";',
        }
        text = 'import module namespace m = "urn:m" at "m.xqm"; create queue a'

        program_ = check(tmp_path, text, files).program

        assert program_ is not None
        assert [library.at.file for library in program_.modules[0].libraries] == [
            str(tmp_path / "n.xqm"),
            str(tmp_path / "m.xqm"),
        ]


class TestPrograms:
    def test_a_program_knows_its_parts(self, tmp_path):
        text = (
            "module m errorqueue e; create queue e create queue q kind outgoingGateway mode transient priority 7"
            ' endpoint "http://x.invalid/" using WS-Security policy p.xml schema order.xsd'
            " create property p as xs:integer inherited queue q value 5 create slicing s on p"
            " create rule r for s errorqueue e if (1) then do reset"
        )
        schema = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="x"/></xs:schema>'

        program_ = check(tmp_path, text, {"order.xsd": schema, "p.xml": SIGNED_BODY}).program

        assert program_ is not None
        queue = program_.queues["q"]
        assert (queue.kind, queue.mode, queue.priority, queue.schema) == (
            "outgoingGateway",
            "transient",
            7,
            tmp_path / "order.xsd",
        )
        assert queue.gateway is not None
        assert (queue.gateway.endpoint, queue.gateway.extensions) == (
            "http://x.invalid/",
            (("WS-Security", tmp_path / "p.xml"),),
        )
        assert list(program_.queues) == ["demaq:errors", "e", "q"]
        assert (program_.properties["p"].type, program_.properties["p"].variant) == ("integer", "inherited")
        assert (program_.rules[0].target, program_.rules[0].on_slicing, program_.rules[0].errorqueue) == (
            "s",
            True,
            "e",
        )
        assert program_.modules[0].errorqueue == "e"
        assert [slicing.name for slicing in program_.slicings_of("q")] == ["s"]

    def test_a_slicing_on_a_system_property_covers_all_queues(self, tmp_path):
        program_ = check(tmp_path, "create queue q create slicing s on demaq:connection").program

        assert program_ is not None
        assert [slicing.name for slicing in program_.slicings_of("q")] == ["s"]

    def test_true_without_parentheses_is_the_constant(self, tmp_path):
        program_ = check(tmp_path, "create queue q create property p as xs:boolean queue q value true").program

        assert program_ is not None
        value = program_.properties["p"].values["q"]
        assert value is not None
        assert program_.modules[0].names.functions[value][1:] == ("true", 0)


def test_a_global_variable_has_no_time_of_its_own(tmp_path):
    file = tmp_path / "app.dmq"
    file.write_text("declare variable $now := current-dateTime();\ncreate queue a", encoding="utf-8")
    (found,) = check_application(file).errors
    assert found.code == "DQ0310"
    assert str(found.at).endswith("app.dmq:1:26")
