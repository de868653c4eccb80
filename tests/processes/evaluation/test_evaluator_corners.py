"""Corners where a plan could show through: each of these once did, or nearly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from demaq.documents import parse_document
from tests.support.programs import NOW, Bench, bodies, failures, program, values

QUEUES = "create queue a create queue b create queue c\n"
FILLERS = "\n".join([f"create rule f{n} for a if (/never{n}) then do enqueue <z/> into c" for n in range(10)])
"""So many rules that the candidates among them are picked by what a message has."""

STORED = (
    "<m><id>1</id><v>one</v></m>",
    "<m><id>2</id><v>two</v></m>",
    '<n xmlns="urn:p" id="2"><id>2</id><v>deux</v></n>',
)
MESSAGE = '<m><k>2</k><x id="q"><y/></x><x/></m>'


def bench(folder: Path, text: str, prolog: str = "", **files: str) -> Bench:
    return Bench(program(folder, prolog + QUEUES + text, **files))


def seen(folder: Path, expression: str, body: str = MESSAGE, stored: tuple[str, ...] = STORED, prolog: str = "") -> str:
    """What an expression gives in a rule on queue a, with three messages in queue b."""
    text = f"create rule r for a if (true()) then do enqueue <o>{{{expression}}}</o> into c"
    lab = bench(folder, text, prolog)
    lab.add("b", *stored)
    outcome = lab.run("a", body)
    assert failures(outcome) == []
    return bodies(outcome)[0].removeprefix("<o>").removesuffix("</o>").replace("<o/>", "")


# --- state asked for by a computed name --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "condition",
    [
        "qs:queue(//none)",
        "qs:queue(string(//none))",
        "collection(string(//none))",
        'qs:queue(string(//q))/x = "1"',
        "qs:queue(string(//q))/x = 1",
        'qs:queue(string(//q))/x eq "1"',
        'collection(string(//q))/x != "1"',
        'qs:queue("no such queue " || //q)/x = "1"',
    ],
)
def test_a_computed_name_never_ends_the_process(tmp_path: Path, condition: str) -> None:
    script = f"""
from pathlib import Path
from tests.support.programs import Bench, program
text = {QUEUES!r} + '''create rule r for a if ({condition}) then do enqueue <o/> into c'''
lab = Bench(program(Path({str(tmp_path)!r}), text))
lab.add("b", "<x>1</x>")
outcome = lab.run("a", "<m><q>b</q></m>")
assert not outcome.errors, outcome.errors
print(outcome.fired)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    fires = condition.startswith("qs:queue(string(//q))")
    assert done.stdout.strip() == ("['r']" if fires else "[]")


@pytest.mark.parametrize("expression", ["concat(//v, 7)", "xs:integer(//v[1])", "//v[1] + 1", "xs:date(//v) eq 1"])
def test_an_error_that_quotes_rare_characters_never_ends_the_process(tmp_path: Path, expression: str) -> None:
    """Where Saxon shortens a text it takes characters beyond U+FFFF apart, and ends when it is asked for such a string."""
    script = f"""
import random
from pathlib import Path
from tests.support.programs import Bench, failures, program
text = {QUEUES!r} + 'create rule r for a if (true()) then do enqueue <o>{{{expression}}}</o> into c'
lab = Bench(program(Path({str(tmp_path)!r}), text))
for _ in range(400):  # one in ten such texts is enough for it
    value = "".join([random.choice("x1 \\u00e9\\u20ac\\U0001d11e\\U0010fffd") for _ in range(random.randrange(1, 60))])
    [failure] = failures(lab.run("a", f"<m><v>x{{value}}</v><v/></m>"))
    assert failure[2] in ("XPTY0004", "FORG0001"), (value, failure)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr[:2000]


def test_a_property_may_be_computed_from_a_queue_with_a_computed_name(tmp_path: Path) -> None:
    lab = bench(
        tmp_path,
        "create property n as xs:integer queue c create rule r for a if (true()) then "
        "do enqueue <o/> into c with n value count(qs:queue(string(//q)))",
    )
    lab.add("b", "<x/>", "<x/>")
    outcome = lab.run("a", "<m><q>b</q></m>")
    assert failures(outcome) == []
    assert values(outcome) == [{"n": "2"}]


# --- the filter ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "condition",
    [
        'qs:queue("b")//id = "2"',
        'qs:queue("b")/m/id = ("2", "3")',
        '//k[qs:queue("b")//v = "one"]',
        '<t><zz>1</zz></t>/zz = "1"',
        'parse-xml("<t><zz>1</zz></t>")//zz = "1"',
        '//k/<t><zz>1</zz></t>/zz = "1"',
        '//k[<t><zz>1</zz></t>/zz = "1"]',
        '//k/qs:queue("b")//v = "two"',
        'string(//zz) = ""',
        "count(//zz) >= 0",
        'not(//zz = "1")',
        "every $z in //zz satisfies $z = 1",
        '//zz = "" or //k = "2"',
        "(//zz, //k)",
        "//(zz | k)",
        "//k/../x",
        '//x/@id/../../k = "2"',
        "/self::node()/m",
        "//self::k",
        "//k[/m/x]",
        ".[//k]/m",
        '/m = "2"',
        '//k/text() = "2"',
        "//k = 2.0",
        "0 < count(//k)",
        "if (//zz) then false() else //k",
    ],
)
@pytest.mark.parametrize("filtered", [False, True])
def test_a_rule_is_asked_whenever_its_condition_may_hold(tmp_path: Path, condition: str, filtered: bool) -> None:
    text = f"create rule r for a if ({condition}) then do enqueue <o/> into c\n{FILLERS if filtered else ''}"
    lab = bench(tmp_path, text)
    lab.add("b", *STORED)
    assert lab.run("a", MESSAGE).fired == ["r"]


@pytest.mark.parametrize("filtered", [False, True])
def test_whether_a_rule_fires_does_not_depend_on_how_many_rules_there_are(tmp_path: Path, filtered: bool) -> None:
    """It fires when its condition holds, and an `if` in an `if` without else is part of the condition."""
    text = "create rule r for a if (true()) then if (//zz) then do enqueue <o/> into c\n"
    text += 'create rule s for a if (qs:queue("a")) then if (//zz) then do enqueue <o/> into c\n'
    outcome = bench(tmp_path, text + (FILLERS if filtered else "")).run("a", MESSAGE)
    assert (outcome.fired, outcome.actions) == ([], [])


@pytest.mark.parametrize("constant", ["a&#13;b", "a&#10;b", 'a""&amp;b', "{x}", "a&#9;b"])
def test_constants_with_strange_characters_are_found_by_the_filter(tmp_path: Path, constant: str) -> None:
    lab = bench(tmp_path, f'create rule r for a if (//x = "{constant}") then do enqueue <o/> into c\n{FILLERS}')
    assert lab.run("a", f"<m><x>{constant.replace(chr(34) * 2, chr(34))}</x></m>").fired == ["r"]


def test_namespaces_with_strange_characters_are_found_by_the_filter(tmp_path: Path) -> None:
    prolog = 'declare namespace p = "urn:a&amp;b";\n'
    lab = bench(tmp_path, f"create rule r for a if (//p:x) then do enqueue <o/> into c\n{FILLERS}", prolog)
    assert lab.run("a", '<x xmlns="urn:a&amp;b"/>').fired == ["r"]


# --- keys ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "found"),
    [
        # positions count messages of the queue, not those that an index finds
        ('qs:queue("b")[//id = qs:message()//k and position() = 2]/*/v/string()', "two"),
        ('qs:queue("b")[position() = last() and //*:id = qs:message()//k]/*/*:v/string()', "deux"),
        ('count(qs:queue("b")[last()][//*:id = qs:message()//k])', "1"),
        ('let $k := //k return count(qs:queue("b")[2][//id = $k])', "1"),
        ('for $q at $p in qs:queue("b") where $q//id = //k return $p', "2"),
        ('for $q in qs:queue("b") count $p where $q//id = //k return $p', "2"),
        # variables inside what a key is made of are no variables of the key
        ('let $k := if (some $z in //none satisfies $z = 1) then "1" else "2" return qs:queue("b")[//id = $k]//v/string()', "two"),
        ('let $k := (for $z in //none return $z, //k) return qs:queue("b")[//id = $k]//v/string()', "two"),
        ('let $a := //k let $b := (let $a := "1" return $a) return qs:queue("b")[//id = ($a, $b)]//v/string()', "one two"),
        ('let $a := "1" let $b := $a let $a := //k return qs:queue("b")[//id = ($a, $b)]//v/string()', "one two"),
        # what an index does not hold
        ('let $k := string(//none) return count(qs:queue("b")[string(m/none) = $k])', "3"),
        ('count(qs:queue("b")[string(m/none) = ""])', "3"),
        ('count(qs:queue("b")[data(m/none) = ""])', "0"),
        # the whole queue is asked for by a type
        ('let $k := "9" let $q as document-node()+ := qs:queue("b") return count($q[//id = $k])', "0"),
        # items that are not of the queue
        ('let $k := "2", $x := //x return count((qs:queue("b")/$x)[/m/k = $k])', "2"),
        # kinds of keys
        ('count(qs:queue("b")[//id = 2e0])', "1"),
        ('count(qs:queue("b")[//id = number("x")])', "0"),
        ('count(qs:queue("b")[//id = ()])', "0"),
        ('count(qs:queue("b")[//id = (1, 2.0)])', "2"),
        # kinds of paths
        ('let $k := //k return count(qs:queue("b")[//@id = $k])', "1"),
        ('let $k := //k return count(qs:queue("b")[//@* = $k])', "1"),
        ('let $k := //k return count(qs:queue("b")[//text() = $k])', "2"),
        ('let $k := //k return count(qs:queue("b")[//node() = $k])', "2"),
        ('let $k := //k return count(qs:queue("b")[*/* = $k])', "2"),
        ('let $k := //k return count(qs:queue("b")[//*:id = $k])', "2"),
        ('let $k := //k return count(qs:queue("b")[//Q{urn:p}* = $k])', "1"),
        ('let $k := //k return count(qs:queue("b")[//element(id) = $k])', "1"),
        ('let $k := //k return count(qs:queue("b")[descendant-or-self::node()/id = $k])', "1"),
        ('let $k := //k return count(qs:queue("b")/*/*[. = $k])', "2"),
        # keys through clauses
        ('for $q in qs:queue("b") let $i := string($q//*:id) group by $i where $i = "2" return count($q)', "2"),
        ('for $k in //k, $q in qs:queue("b") group by $n := name($k) return count($q[//id = $k])', "1"),
        ('for $a in qs:queue("b"), $b in qs:queue("b") where $a//*:id = $b//*:id and $a//id = //k return count(($a, $b))', "2 2"),
        ('some $k in //k, $q in qs:queue("b") satisfies $q//id = $k', "true"),
        ('every $q in qs:queue("b") satisfies $q//id = //k', "false"),
        ('for $q in qs:queue("b") return if ($q//id = //k) then 1 else 0', "0 1 0"),
        ('let $k := //k, $q := qs:queue("b") return (count($q[//id = $k]), count($q[//id = "1"]), count($q))', "1 1 3"),
        ('//x[1]/(let $z := string(../k) return count(qs:queue("b")[//id = $z]))', "1"),
    ],
)  # fmt: skip
def test_a_key_finds_what_a_scan_finds(tmp_path: Path, read: str, found: str) -> None:
    assert seen(tmp_path, read) == found


def test_a_key_obeys_the_default_collation(tmp_path: Path) -> None:
    collation = "http://www.w3.org/2005/xpath-functions/collation/html-ascii-case-insensitive"
    prolog = f'declare default collation "{collation}";\n'
    read = 'count(qs:queue("b")[m/id = qs:message()//k])'
    assert seen(tmp_path, read, "<m><k>ID</k></m>", ("<m><id>id</id></m>",), prolog) == "1"


def test_messages_and_collections_are_in_one_order_however_often_they_are_read(tmp_path: Path) -> None:
    """Which one is left open; but evaluating a message again must give the same outcome."""
    text = 'create rule r for a if (true()) then do enqueue <o>{(qs:message() | collection("k"))/*/name()}</o> into c'
    lab = bench(tmp_path, text)
    lab.state.add_to_collection("k", parse_document("<kept/>"))
    assert bodies(lab.run("a", "<m/>")) == bodies(lab.run("a", "<m/>"))


# --- the message in its batch ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("count(//x | qs:queue()//x)", "2"),
        ("count(qs:queue()//x except //x)", "0"),
        ("count(qs:queue()//x intersect //x)", "2"),
        ("//y is qs:queue()//y", "true"),
        ('//y << qs:queue("b")[1]/*', "false"),
        ('(//k | qs:queue("b")//id)/string()', "1 2 2"),
        ("generate-id(/*) = generate-id(qs:queue()/*)", "true"),
        ("deep-equal(., qs:queue()[last()])", "true"),
    ],
)
def test_the_nodes_of_the_message_are_those_of_its_queue(tmp_path: Path, expression: str, expected: str) -> None:
    assert seen(tmp_path, expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('let $x := /* return qs:queue("b") ! $x ! count(..//x)', "2 2 2"),
        ('let $x := /* return qs:queue("b")[1] ! $x ! name(..)', ""),
        ('let $x := //y return qs:queue("b")[1] ! $x ! name(/*)', "m"),
        ('let $x := /* return count(qs:queue("b")[name($x/..) = ""])', "3"),
        ("(/qs:message()) instance of document-node()", "true"),
        ("name($up(/*))", ""),
        ("for-each(/*, $up) ! name(.)", ""),
        ("name(local:up(/*))", ""),
        ("for-each(//y, root#1) ! name(*)", "m"),
        ("apply(root#1, [//y]) ! name(*)", "m"),
        ("let $f := root(?) return $f(//y)/*/name()", "m"),
        ('map { "f": root#1 }?f(//y)/*/name()', "m"),
        ("fold-left(//y, (), function($all, $n) { $n/ancestor::*/name() })", "m x"),
        ("//y ! (/) ! name(*)", "m"),
        ("path(//y)", "/Q{}m[1]/Q{}x[1]/Q{}y[1]"),
        ("count(//y/ancestor::node())", "3"),
        ("count(//x[2]/following::node())", "0"),
        ("count(//k/preceding::node())", "0"),
        ("count(innermost(//node())), count(outermost(//node()))", "3 1"),
        ("count(//x[//y]), count(//x[/m]), count((/)//x)", "2 2 2"),
        ("count(/node()), count(//node()), count(text())", "1 6 0"),
        ("//@id/../name()", "x"),
        ("//y/../.. instance of element()", "true"),
    ],
)
def test_a_rule_sees_its_message_and_nothing_around_it(tmp_path: Path, expression: str, expected: str) -> None:
    prolog = "declare variable $up := function($n) { $n/.. }; declare function local:up($n) { $n/.. };\n"
    text = f"create rule r for a if (true()) then do enqueue <o>{{{expression}}}</o> into c"
    lab = bench(tmp_path, text, prolog)
    lab.add("b", *STORED)
    messages = [
        lab.state.add("a", parse_document(body)) for body in ("<first><x/></first>", MESSAGE, "<last><k/></last>")
    ]
    outcome = lab.evaluator.evaluate(messages, lab.state, NOW)[1]
    assert failures(outcome) == []
    assert bodies(outcome) == [f"<o>{expected}</o>" if expected else "<o/>"]


def test_global_functions_of_a_library_may_go_up(tmp_path: Path) -> None:
    library = 'module namespace l = "urn:l"; declare variable $l:up := function($n) { $n/.. };'
    prolog = 'import module namespace l = "urn:l" at "l.xqm";\n'
    text = "create rule r for a if (true()) then do enqueue <o>{name($l:up(/*))}</o> into c"
    assert bodies(bench(tmp_path, text, prolog, l_xqm=library).run("a", "<x/>")) == ["<o/>"]


@pytest.mark.parametrize("way", ["/*", "(let $m := . return $m/*)"])
def test_a_message_keeps_its_namespaces_whatever_the_prolog_says_about_copies(tmp_path: Path, way: str) -> None:
    prolog = "declare copy-namespaces no-preserve, no-inherit;\n"
    read = f'local-name-from-QName(resolve-QName("p:x", {way}))'
    assert seen(tmp_path, read, '<m xmlns:p="urn:p"/>', prolog=prolog) == "x"


# --- properties and functions --------------------------------------------------------------------------------------------------


def test_properties_of_other_messages_keep_their_line_ends(tmp_path: Path) -> None:
    text = """
    create property n as xs:string queue b value string(.)
    create rule r for a if (true()) then do enqueue <o>{string-to-codepoints(qs:property("n", qs:queue("b")))}</o> into c
    """
    lab = bench(tmp_path, text)
    lab.add("b", "<m>a&#13;b</m>")
    assert bodies(lab.run("a", "<m/>")) == ["<o>97 13 98</o>"]


def test_the_value_of_a_property_may_call_functions_that_know_the_message(tmp_path: Path) -> None:
    prolog = "declare function local:id() { qs:message()//id };\n"
    text = """
    create property n as xs:string queue a value local:id()
    create rule r for a if (true()) then do enqueue <o>{qs:property("n")}</o> into c
    """
    assert bodies(bench(tmp_path, text, prolog).run("a", "<m><id>7</id></m>")) == ["<o>7</o>"]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("for-each((1, 2), l:own#1)", "1 1 1 2"),
        ('"z" => l:own()', "1 z"),
        ('l:two(?, 1)("a")', "a 1 2"),
        ('let $f := l:two("p", ?) return $f("q")', "p q 2"),
        ("apply(l:two#2, [1, 2])", "1 2 2"),
        ("count(l:found(//k)), count(\"2\" => l:found())", "1 1"),
        ("name(l:up(/*)), name(l:top(/*)/*)", " m"),
    ],
)  # fmt: skip
def test_functions_of_a_library_know_the_message_however_they_are_called(
    tmp_path: Path, call: str, expected: str
) -> None:
    library = """
    module namespace l = "urn:l"; declare default element namespace "urn:p";
    declare function l:own($x) { count(qs:message()//*:k), $x };
    declare function l:two($x, $y) { $x, $y, qs:message()//*:k/string() };
    declare function l:up($n) { $n/.. };
    declare %private function l:hidden($n) { root($n) };
    declare function l:top($n) { l:hidden($n) };
    declare function l:found($k) { qs:queue("b")[//id = $k] };
    """
    prolog = 'import module namespace l = "urn:l" at "l.xqm";\n'
    lab = bench(
        tmp_path,
        f"create rule r for a if (true()) then do enqueue <o>{{{call}}}</o> into c",
        prolog,
        l_xqm=library,
    )
    lab.add("b", *STORED)
    assert bodies(lab.run("a", MESSAGE)) == [f"<o>{expected}</o>"]
