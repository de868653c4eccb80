"""Policies in any form come to the same alternatives, by the rules of WS-Policy 1.5, section 4.3."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from lxml import etree

from demaq.errors import ProgramError
from demaq.soap.policy import normal_form
from demaq.soap.policy.assertions import Assertion
from demaq.soap.policy.normal_form import ALTERNATIVES_MAX, Normaliser
from demaq.soap.policy.policy_documents import PolicyDocuments
from tests.support.drawing import example_count, run_seed
from tests.support.soap.policies import POLICY_1_2, POLICY_1_5, policy

DRAWN = example_count(400, "NORMAL_FORMS")


def alternatives(text: str, path: Path = Path("policy.xml")) -> list[str]:
    """Return each alternative as the names of its assertions, with nested ones in brackets."""
    documents = PolicyDocuments()
    document = documents.add_content(path, text.encode())
    return [" ".join(map(show, found)) for found in Normaliser(documents).normalise(document, document.root)]


def show(assertion: Assertion) -> str:
    return (
        assertion.local if assertion.nested is None else f"{assertion.local}({' '.join(map(show, assertion.nested))})"
    )


def refusal(text: str, path: Path = Path("policy.xml")) -> ProgramError:
    with pytest.raises(ProgramError) as caught:
        alternatives(text, path)
    return caught.value


@pytest.mark.parametrize("version", [POLICY_1_2, POLICY_1_5])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", [""]),
        ("<wsp:All/>", [""]),
        ("<wsp:ExactlyOne/>", []),
        ("<x:a/><x:b/>", ["a b"]),
        ("<wsp:All><x:a/><wsp:Policy><x:b/></wsp:Policy></wsp:All>", ["a b"]),
        ("<wsp:ExactlyOne><x:a/><wsp:All><x:b/><x:c/></wsp:All></wsp:ExactlyOne>", ["a", "b c"]),
        ('<x:a wsp:Optional="true"/>', ["a", ""]),
        ('<x:a wsp:Optional="false"/>', ["a"]),
        ('<x:a wsp:Optional=" 1 "/><wsp:ExactlyOne><x:b/><x:c/></wsp:ExactlyOne>', ["a b", "a c", "b", "c"]),
        ('<x:a wsp:Ignorable="true"/>', ["a"]),
        ("<x:a><wsp:Policy/></x:a>", ["a()"]),
        ('<x:a><wsp:Policy><x:b wsp:Optional="true"/></wsp:Policy></x:a>', ["a(b)", "a()"]),
        ("<x:a><wsp:Policy><wsp:ExactlyOne/></wsp:Policy></x:a>", []),
        ("<x:a><x:parameter/><wsp:Policy><x:b/></wsp:Policy></x:a>", ["a(b)"]),
    ],
)
def test_a_policy_has_the_alternatives_of_its_normal_form(content, expected, version):
    assert alternatives(policy(content, wsp=version)) == expected


@pytest.mark.parametrize("name", ['wsu:Id="P"', 'xml:id="P"', 'Name="#P"'])
def test_a_reference_finds_a_policy_of_its_document_by_any_identifier(name):
    content = f'<wsp:PolicyReference URI="#P"/><x:a><wsp:Policy {name}><x:b/><x:c/></wsp:Policy></x:a>'
    assert alternatives(policy(content)) == ["b c a(b c)"]


def test_a_reference_finds_a_policy_by_its_name_that_is_an_address():
    content = '<wsp:PolicyReference URI="http://p.invalid/b"/><wsp:Policy Name="http://p.invalid/b"><x:b/></wsp:Policy>'
    assert alternatives(policy(content)) == ["b b"]


def test_a_reference_finds_a_policy_in_a_file_beside_the_document(tmp_path):
    (tmp_path / "other.xml").write_text(policy('<x:b/><wsp:PolicyReference URI="third%20one.xml#T"/>'))
    third = policy("<x:c/>", ' wsu:Id="T"')
    (tmp_path / "third one.xml").write_text(f"<x>{third}</x>")
    content = '<x:a/><wsp:PolicyReference URI="other.xml"/>'
    assert alternatives(policy(content), tmp_path / "p.xml") == ["a b c"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('<wsp:PolicyReference URI="#Nope"/>', '2:1 no policy has the identifier "Nope"'),
        ('<wsp:PolicyReference URI="nope.xml"/>', "2:1 nope.xml cannot be read: No such file or directory"),
        ('<wsp:PolicyReference URI="plain.xml"/>', "2:1 plain.xml is no policy"),
        ('<wsp:PolicyReference URI="broken.xml"/>', "2:1 broken.xml is not well-formed"),
        ('<wsp:PolicyReference URI="https://p.invalid/p.xml"/>', "2:1 https://p.invalid/p.xml is no local file"),
        ("<wsp:PolicyReference/>", "2:1 wsp:PolicyReference has no URI"),
        ('<wsp:PolicyReference URI="#P" Digest="x"/>', "2:1 wsp:PolicyReference has other attributes than URI"),
        (
            '<x:b/>\n <wsp:Policy wsu:Id="P"><wsp:PolicyReference URI="#P"/></wsp:Policy>',
            "3:2 the policy refers to itself",
        ),
        ('<wsp:PolicyReference URI="self.xml"/>', "the policy refers to itself"),
        (
            '<wsp:Policy wsu:Id="P"/>\n<wsp:Policy xml:id="P"/><wsp:PolicyReference URI="#P"/>',
            '3:1 two policies are called "#P"',
        ),
        ("<wsp:Nope/>", "2:1 wsp:Nope is neither an operator nor an assertion"),
        ("<nope/>", "2:1 nope is neither an operator nor an assertion"),
        ('<wsp:All wsp:Optional="true"/>', "2:1 wsp:All has attributes that are not supported"),
        ('<wsp:Policy wsp:Optional="true"/>', "2:1 wsp:Policy has attributes that are not supported"),
        ('<x:a wsp:Optional="maybe"/>', '2:1 wsp:Optional is "maybe": true or false'),
        ("<x:a><wsp:All/></x:a>", "2:1 x:a has something else than one nested wsp:Policy"),
        ("<x:a><wsp:Policy/><wsp:Policy/></x:a>", "2:1 x:a has something else than one nested wsp:Policy"),
    ],
)
def test_what_is_wrong_with_the_form_of_a_policy_is_said_with_its_place(tmp_path, content, words):
    for name, text in {"plain.xml": "<plain/>", "broken.xml": "<broken>"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "self.xml").write_text(policy('<wsp:PolicyReference URI="self.xml"/>'))
    error = refusal(policy(content), tmp_path / "p.xml")
    assert error.code == "DQ0603"
    assert error.at is not None
    assert words in f"{error.at.line}:{error.at.column} {error.message}"


def test_what_is_no_policy_is_refused():
    assert refusal("<plain/>").message == "plain is no policy"
    assert refusal('<!DOCTYPE a [<!ENTITY e "x">]><a/>').message == "a document type declaration is not allowed"


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_alternatives_are_bounded():
    exponential = '<x:a wsp:Optional="true"/>'
    assert len(alternatives(policy(exponential * 9))) == ALTERNATIVES_MAX
    assert "more than 512 alternatives" in refusal(policy(exponential * 10)).message
    assert "more than 512 alternatives" in refusal(policy(f"<wsp:ExactlyOne>{'<x:a/>' * 513}</wsp:ExactlyOne>")).message


def reference_to(number: int) -> str:
    return f'<wsp:PolicyReference URI="#P{number}"/>'


def test_references_that_multiply_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(normal_form, "WORK_MAX", 2_000)
    doubling = [
        f'<wsp:Policy wsu:Id="P{n}">{reference_to(n + 1) * 2 if n < 40 else "<x:a/>"}</wsp:Policy>' for n in range(41)
    ]
    for content in ("".join(doubling), "".join(doubling).replace("<x:a/>", "")):
        assert "too large" in refusal(policy(content)).message


def test_nesting_is_bounded_by_elements_and_by_references():
    deep = "<x:a><wsp:Policy>" * 100 + "</wsp:Policy></x:a>" * 100
    chain = "".join([f'<wsp:Policy wsu:Id="P{n}">{reference_to(n + 1)}</wsp:Policy>' for n in range(100)])
    for content in (deep, chain):
        assert "nested more than 60 levels" in refusal(policy(content)).message


def test_entities_are_not_expanded():
    laughs = "".join([f'<!ENTITY e{n + 1} "&e{n};&e{n};&e{n};&e{n};&e{n};&e{n};&e{n};&e{n};">' for n in range(12)])
    with pytest.raises((ProgramError, etree.XMLSyntaxError)):
        alternatives(f'<!DOCTYPE a [<!ENTITY e0 "ha">{laughs}]><a>&e12;</a>')
    unused = f'<!DOCTYPE a [<!ENTITY e0 "ha">{laughs}]><a/>'
    assert refusal(unused).message == "a document type declaration is not allowed"


def test_a_file_is_bounded():
    assert "larger than 1024 KiB" in refusal(policy("<!--" + "x" * 1024 * 1024 + "-->")).message


# --- against the rules -----------------------------------------------------------------------------------------------

Tree = tuple[str, object, bool]
"""An operator with its children, or an assertion with its nested children or None; and whether it is optional."""


def draw(rng: random.Random, depth: int) -> Tree:
    kind = rng.choice(["a", "b", "c", "All", "ExactlyOne", "Policy"] if depth else ["a", "b", "c"])
    children = [draw(rng, depth - 1) for _ in range(rng.choice([0, 1, 1, 2, 2, 3]))] if depth else []
    if kind in "abc":
        return kind, (children if rng.random() < 0.3 else None), rng.random() < 0.3
    return kind, children, False


def write(tree: Tree) -> str:
    kind, children, optional = tree
    attribute = ' wsp:Optional="true"' if optional else ""
    inside = "".join(map(write, children)) if isinstance(children, list) else ""
    if kind not in "abc":
        return f"<wsp:{kind}>{inside}</wsp:{kind}>"
    return f"<x:{kind}{attribute}>{'' if children is None else f'<wsp:Policy>{inside}</wsp:Policy>'}</x:{kind}>"


def expand(tree: Tree) -> list[tuple[str, ...]]:
    """The rules: optional is a choice with nothing, a choice is a union, everything else a product."""
    kind, children, optional = tree
    parts = [expand(child) for child in children] if isinstance(children, list) else []
    if kind == "ExactlyOne":
        return [alternative for part in parts for alternative in part]
    all_of = [tuple(sorted(sum(chosen, ()))) for chosen in product(*parts)]
    if kind not in "abc":
        return all_of
    found: list[tuple[str, ...]] = (
        [(kind,)] if children is None else [(f"{kind}({' '.join(inner)})",) for inner in all_of]
    )
    return [*found, ()] if optional else found


def ordered(alternative: Assertion) -> str:
    if alternative.nested is None:
        return alternative.local
    return f"{alternative.local}({' '.join(sorted(map(ordered, alternative.nested)))})"


def test_drawn_policies_in_compact_and_in_normal_form_mean_what_the_rules_say():
    rng = random.Random(run_seed())
    several = 0
    for _ in range(DRAWN):
        tree: Tree = ("Policy", [draw(rng, 3) for _ in range(rng.randint(1, 3))], False)
        expected = Counter(expand(tree))
        if sum(expected.values()) > 200:
            continue
        several += len(expected) > 1
        compact = policy(write(tree))
        normal = policy(
            f"<wsp:ExactlyOne>{''.join([f'<wsp:All>{write_normal(one)}</wsp:All>' for one in normalise(compact)])}</wsp:ExactlyOne>"
        )
        for text in (compact, normal):
            found = Counter([tuple(sorted(map(ordered, one))) for one in normalise(text)])
            assert found == expected, text
    assert several > DRAWN // 10


def normalise(text: str) -> tuple[tuple[Assertion, ...], ...]:
    documents = PolicyDocuments()
    document = documents.add_content(Path("p.xml"), text.encode())
    return Normaliser(documents).normalise(document, document.root)


def write_normal(alternative: tuple[Assertion, ...]) -> str:
    """Return an alternative without any operator but those of the normal form."""
    return "".join(
        [
            f"<x:{one.local}/>"
            if one.nested is None
            else f"<x:{one.local}><wsp:Policy><wsp:ExactlyOne><wsp:All>{write_normal(one.nested)}</wsp:All>"
            f"</wsp:ExactlyOne></wsp:Policy></x:{one.local}>"
            for one in alternative
        ]
    )
