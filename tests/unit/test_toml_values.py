"""Where TOML is written: the parser must agree with tomllib on every value, and find every key where it stands."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import event, given, seed
from hypothesis import strategies as st

from demaq.configuration import ConfigurationReader, Value
from demaq.source import Source
from demaq.toml_values import parse_toml
from tests.support.drawing import run_seed

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x7f"), max_size=8)
BASIC = TEXTS.map(lambda text: json.dumps(text, ensure_ascii=False))
LITERAL = st.text(st.sampled_from('ab "#=[]{},.\\\t'), max_size=6).map(lambda text: f"'{text}'")
LINES = st.lists(st.sampled_from(["a", "b c", '""', "# no comment", "[x]", "k = 1", "\\\\", '\\"', "\\\n  ", "'", "é"]))
MULTI_LINE = st.tuples(LINES, st.sampled_from(["", '"', '""'])).map(
    lambda drawn: f'"""{chr(10).join(drawn[0])}x{drawn[1]}"""'
)
MULTI_LITERAL = st.tuples(st.text(st.sampled_from('a"#\\\n]=')), st.sampled_from(["", "'", "''"])).map(
    lambda drawn: f"'''{drawn[0]}{drawn[1]}'''"
)
SCALARS = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.sampled_from(["0xFF", "1_000", "1.5e-3", "+1.0", "inf", "true", "false", '""', "''", '""""""', "''''''"]),
    st.sampled_from(["2026-11-16", "08:30:00", "2026-11-16T08:30:00Z", "2026-11-16 08:30:00.5"]),
    BASIC,
    LITERAL,
    MULTI_LINE,
    MULTI_LITERAL,
)
KEYS = st.sampled_from(["a", "b", "c-1", "_", "17", "a.b", "", "é", "[x]", "#", 'say "x"', "two words", "a\\b", "\t"])


@dataclass(frozen=True)
class Scalar:
    written: str


Tree = st.recursive(
    SCALARS.map(Scalar),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(st.dictionaries(KEYS, inner, max_size=2), max_size=2),
        st.dictionaries(KEYS, inner, max_size=4),
        st.dictionaries(KEYS, st.dictionaries(KEYS, inner, max_size=2), min_size=1, max_size=2),
    ),
    max_leaves=12,
)
Path = tuple[str | int, ...]


@dataclass
class Writer:
    """Writes a tree in one of the many forms that TOML has for it, and records where each key is first written."""

    data: st.DataObject
    text: str = ""
    keys: dict[Path, tuple[int, int]] = field(default_factory=dict)
    forms: Counter[str] = field(default_factory=Counter)

    def pick(self, *choices: str) -> str:
        return self.data.draw(st.sampled_from(choices))

    def blank(self) -> None:
        self.text += self.pick("", " ", "\t ")

    def between(self) -> None:
        self.text += self.pick("", "\n", " # [a] = 'x'\n", "\t\n\n")

    def end_line(self) -> None:
        self.blank()
        self.text += self.pick("\n", "\n\n", "# k = 1\n", "#\n\n")

    def key(self, path: Path) -> None:
        name = path[-1]
        assert isinstance(name, str)
        forms = [json.dumps(name, ensure_ascii=False)]
        forms += [f"'{name}'"] if "'" not in name else []
        forms += (
            [name]
            if name and all([letter.isascii() and (letter.isalnum() or letter in "-_") for letter in name])
            else []
        )
        start = len(self.text)
        self.text += self.pick(*forms)
        self.keys.setdefault(path, (start, len(self.text)))

    def dotted(self, paths: list[Path]) -> None:
        for position, path in enumerate(paths):
            if position:
                self.text += "."
            self.blank()
            self.key(path)
            self.blank()

    def table(self, path: Path, header: list[Path], tree: dict[str, Any], kind: str = "") -> None:
        """Write a table: its pairs below its header, and tables with headers of their own before or after them."""
        pairs: list[tuple[str, Any]] = []
        headed: list[tuple[str, Any]] = []
        for name, value in tree.items():
            is_table = isinstance(value, dict)
            is_tables = isinstance(value, list) and value and all([isinstance(item, dict) for item in value])
            has_header = (is_table or is_tables) and self.pick("header", "pair") == "header"
            (headed if has_header else pairs).append((name, value))
        before = kind == "[" and headed and self.pick("after", "before") == "before"
        if before:
            self.forms["table after its own"] += 1
            self.headed(path, header, headed)
        if kind and (pairs or kind == "[[" or not headed or before or self.pick("implicit", "explicit") == "explicit"):
            self.forms[kind] += 1
            self.text += kind
            self.dotted(header)
            self.text += kind.replace("[", "]")
            self.end_line()
        for name, value in pairs:
            self.pair([(*path, name)], value)
            self.end_line()
        if not before:
            self.headed(path, header, headed)

    def headed(self, path: Path, header: list[Path], tables: list[tuple[str, Any]]) -> None:
        for name, value in tables:
            below = (*path, name)
            if isinstance(value, dict):
                self.table(below, [*header, below], value, "[")
            else:
                for number, item in enumerate(value):
                    self.table((*below, number), [*header, below], item, "[[")

    def pair(self, paths: list[Path], value: Any) -> None:
        if isinstance(value, dict) and value and self.pick("dotted", "inline") == "dotted":
            self.forms["dotted"] += 1
            for position, (name, inner) in enumerate(value.items()):
                if position:
                    self.text += "," if self.inline else "\n"
                self.pair([*paths, (*paths[-1], name)], inner)
            return
        self.dotted(paths)
        self.text += "="
        self.blank()
        self.value(paths[-1], value)

    inline: bool = False

    def value(self, path: Path, value: Any) -> None:
        if isinstance(value, Scalar):
            self.text += value.written
        elif isinstance(value, list):
            self.forms["array"] += 1
            self.text += "["
            self.between()
            for number, item in enumerate(value):
                self.value((*path, number), item)
                self.between()
                self.text += "," if number < len(value) - 1 else self.pick("", ",")
                self.between()
            self.text += "]"
        else:
            self.forms["inline"] += 1
            outer, self.inline = self.inline, True
            self.text += "{"
            self.blank()
            for position, (name, inner) in enumerate(value.items()):
                self.text += "," if position else ""
                self.pair([(*path, name)], inner)
                self.blank()
            self.text += "}"
            self.inline = outer


def plain(value: Value) -> Any:
    if isinstance(value.content, dict):
        return {name: plain(item) for name, item in value.content.items()}
    return [plain(item) for item in value.content] if isinstance(value.content, list) else value.content


def found_keys(value: Value, path: Path = ()) -> dict[Path, tuple[int, int]]:
    found = {}
    if isinstance(value.content, dict):
        for name, item in value.content.items():
            found[*path, name] = (item.key_at.start, item.key_at.end)
            found |= found_keys(item, (*path, name))
    elif isinstance(value.content, list):
        for number, item in enumerate(value.content):
            found |= found_keys(item, (*path, number))
    return found


def scalars(value: Value) -> list[Value]:
    items = value.content.values() if isinstance(value.content, dict) else value.content
    return (
        [inner for item in items for inner in scalars(item)]
        if isinstance(items, (list, type({}.values())))
        else [value]
    )


DRAWN: Counter[str] = Counter()
"""The forms that were written in this process."""


@given(st.dictionaries(KEYS, Tree, max_size=4), st.data())
def test_every_key_is_found_where_it_is_written_and_every_value_is_that_of_tomllib(
    tree: dict[str, Any], data: st.DataObject
):
    writer = Writer(data)
    writer.between()
    writer.table((), [], tree)
    text = writer.text.replace("\n", "\r\n") if data.draw(st.booleans()) else writer.text
    for form in writer.forms:
        event(form)
    DRAWN.update(writer.forms)

    reader = ConfigurationReader(Source(text, "any.toml"))
    root = parse_toml(reader)

    assert reader.problems == []
    assert root is not None
    assert repr(plain(root)) == repr(tomllib.loads(text))
    assert found_keys(root) == writer.keys
    for scalar in scalars(root):
        assert repr(tomllib.loads(f"v = {scalar.at.text}")["v"]) == repr(scalar.content)


def test_the_forms_that_are_drawn_include_each_that_toml_has():
    """Mostly those of the property above are all of them; alone, this test draws some."""

    @given(st.dictionaries(KEYS, Tree, max_size=4), st.data())
    def draw(tree: dict[str, Any], data: st.DataObject) -> None:
        writer = Writer(data)
        writer.table((), [], tree)
        DRAWN.update(writer.forms)

    forms = ("[", "[[", "dotted", "inline", "array", "table after its own")
    for number in range(20):
        if all([DRAWN[form] for form in forms]):
            break
        seed(run_seed() + number)(draw)()  # without a seed of its own, each call would draw the same
    assert [form for form in forms if not DRAWN[form]] == []


@given(TEXTS | st.text(st.sampled_from("ab=[]{}\"'\n.,#1 \\"), max_size=20))
def test_any_text_is_read_as_tomllib_reads_it_or_reported_in_one_line(text: str):
    reader = ConfigurationReader(Source(text, "any.toml"))
    root = parse_toml(reader)
    try:
        expected = tomllib.loads(reader.source.text)
    except tomllib.TOMLDecodeError:
        (problem,) = reader.problems
        assert str(problem).startswith(f"any.toml:{problem.at.line}:{problem.at.column}: not TOML: ")
        assert "\n" not in str(problem)
    else:
        assert root is not None
        assert repr(plain(root)) == repr(expected)


def test_an_error_has_the_location_that_tomllib_reports():
    reader = ConfigurationReader(Source('[node]\na = 1\nb = "x\n', "s.toml"))
    assert parse_toml(reader) is None
    assert [str(problem) for problem in reader.problems] == ["s.toml:3:7: not TOML: Illegal character '\\n'"]
    reader = ConfigurationReader(Source("a = " + "[" * 3000 + "]" * 3000, "s.toml"))
    assert parse_toml(reader) is None
    assert [str(problem) for problem in reader.problems] == ["s.toml:1:1: not TOML: nested too deeply"]
