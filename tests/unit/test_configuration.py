"""Files that people write: the same checks and messages for TOML and YAML, with the location of each value."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from demaq.configuration import ConfigurationReader, Value
from demaq.source import Source
from demaq.toml_values import parse_toml
from demaq.yaml_values import parse_yaml

Get = Callable[[ConfigurationReader, Value], object]


def read(text: str, format: str) -> tuple[ConfigurationReader, Value]:
    reader = ConfigurationReader(Source(text, f"f.{format}"), scalars_are_text=format == "yaml")
    root = (parse_yaml if format == "yaml" else parse_toml)(reader)
    assert root is not None
    return reader, root.content["k"]


@pytest.mark.parametrize(
    ("toml", "yaml", "get", "expected"),
    [
        ('k = "a b"', "k: a b", lambda reader, value: reader.text(value, "k"), "a b"),
        ("k = 17", "k: 17", lambda reader, value: reader.number(value, "k"), 17),
        ("k = true", "k: true", lambda reader, value: reader.flag(value, "k"), True),
        ('k = "90s"', "k: 90s", lambda reader, value: reader.duration(value, "k"), 90.0),
        ('k = "2KB"', "k: 2KB", lambda reader, value: reader.size(value, "k"), 2000),
        ('k = "a"', "k: a", lambda reader, value: reader.one_of(value, "k", ["a", "b"]), "a"),
        ('k = "a"', "k: a", lambda reader, value: reader.name(value, "queue", {"a": 1}, "queues"), "a"),
        ("k = [[], []]", "k: [[], []]", lambda reader, value: len(reader.list(value, "k") or []), 2),
        ("k = {a = 1}", "k: {a: 1}", lambda reader, value: list(reader.table(value, "k", ["a"])), ["a"]),
    ],
)
def test_a_value_of_its_kind_is_read(toml: str, yaml: str, get: Get, expected: object):
    for text, format in ((toml, "toml"), (yaml, "yaml")):
        reader, value = read(text, format)

        assert get(reader, value) == expected
        assert reader.problems == []


@pytest.mark.parametrize(
    ("toml", "yaml", "get", "problem"),
    [
        ("k = [1]", "k: [1]", lambda reader, value: reader.text(value, "k"), "k must be text, not a list"),
        ("k = -1", "k: -1", lambda reader, value: reader.number(value, "k"), "k must be a number from 0 on"),
        ("k = 1", "k: yes", lambda reader, value: reader.flag(value, "k"), "k must be true or false"),
        ('k = "x"', "k: 0s", lambda reader, value: reader.duration(value, "k"), "k must be a duration longer than 0s"),
        ("k = 1", "k: 1", lambda reader, value: reader.size(value, "k"), "k must be a size, such as 500KB"),
        (
            'k = "alpa"',
            "k: alpa",
            lambda reader, value: reader.one_of(value, "k", ["alpha", "b"]),
            'k must be one of "alpha", "b"; did you mean "alpha"?',
        ),
        (
            'k = "xyz"',
            "k: xyz",
            lambda reader, value: reader.name(value, "queue", ["b", "a"], "queues"),
            'there is no queue "xyz"; queues: a, b',
        ),
        ('k = "x"', "k: x", lambda reader, value: reader.list(value, "k"), "k must be a list, not text"),
        ('k = "x"', "k: x", lambda reader, value: reader.table(value, "k"), "k must be keys with values, not text"),
        ("k = {}", "k: {}", lambda reader, value: reader.table(value, "k", ["a"]), 'k needs the key "a"'),
    ],
)
def test_another_kind_of_value_is_a_problem_at_its_location(toml: str, yaml: str, get: Get, problem: str):
    for text, format in ((f"# first\n {toml}", "toml"), (f"# first\n{yaml}", "yaml")):
        reader, value = read(text, format)

        assert not get(reader, value)
        (found,) = reader.problems
        assert str(found).startswith(f"f.{format}:2:{6 if format == 'toml' else 4}: {problem}")


def test_an_unknown_key_is_a_problem_at_the_key_and_the_others_are_read():
    for text, format in (('k = {one = "1", colr = "2"}', "toml"), ("k: {one: 1, colr: 2}", "yaml")):
        reader, value = read(text, format)

        assert list(reader.table(value, "k", [], ["one", "color"])) == ["one"]
        (found,) = reader.problems
        assert (found.message, found.hint) == ('"colr" is not a key of k', 'did you mean "color"?')
        assert (found.at.text, found.at.line) == ("colr", 1)


def test_a_value_that_is_not_there_is_none_without_a_problem():
    reader, _ = read("k: 1", "yaml")

    assert [reader.text(None, "k"), reader.flag(None, "k"), reader.list(None, "k"), reader.any_table(None, "k")] == [
        None
    ] * 4
    assert [reader.one_of(None, "k", ["a"]), reader.name(None, "k", ["a"], "names")] == [None] * 2
    assert reader.problems == []


def test_an_alias_of_yaml_may_contain_itself_or_be_used_often():
    _, value = read("k: &x [*x]", "yaml")
    assert value.content[0].content is value.content

    text = "a0: &a0 x\n" + "".join([f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60)]) + "k: *a59\n"
    _, value = read(text, "yaml")
    assert value.content[0].content is value.content[1].content
