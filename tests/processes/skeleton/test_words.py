"""Words that we no longer say, in pages, in the help of commands, in sources and tests: the field has a better one.

A list of private words, each with what to write instead. New words of ours go into docs/reference/glossary.md.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

from demaq.cli import main as cli
from demaq.cli.command_classes import LazyCommand
from tests.support.docs.pages import PROJECT, Page, all_pages

IN_PAGES = {
    "anybody": "any client, any user",
    "at rest": "offline",
    "behind": "after",
    "beside the node": "in a worker process, while a node runs",
    "by hand": "hand-written, manually",
    "everybody": "all users, every client",
    "goes round": "repeats",
    "hears": "gets, is answered",
    "in front of it": "before it",
    "in vain": "discarded, without success",
    "nobody": "no one, or the passive",
    "odd": "what it is",
    "search for circles": "garbage collector",
    "simple rules": "native rules",
    "somebody": "a client, a user, an operator",
    "told": "notified, answered, reported, listed",
    "whoever": "the caller, the sender, anyone who",
}
"""What pages do not say."""
_ALLOWED = re.compile(r"behind (?:a|such a|which)? ?(?:proxy|proxies|firewall|pool|connections)", re.IGNORECASE)
IN_SOURCES = {**IN_PAGES, "the answer is": "Return …"}
"""What Python files below src/ and bench/ do not say, in names, comments or texts."""
NAMES = {
    "came_in": "note_received_bytes",
    "delegating": "a protocol",
    "filling_in": "offline_migration",
    "goes_on": "continues",
    "is_lonely": "is_independent",
    "led_to": "descendants",
    "look_seldom": "tune_gc",
    "meets_others": "reads_other_messages",
    "running_again": "replay",
    "slowing": "throttle",
}
"""Names of functions, modules and variables that were given up."""


def find_words(text: str, words: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a text that have one of the words, each with what to say instead."""
    if not words:
        return
    pattern = re.compile(rf"(?<![A-Za-z])({'|'.join(map(_across_lines, words))})(?![A-Za-z])", re.IGNORECASE)
    for match in pattern.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        word = re.sub(r"[\s#]+", " ", match[1]).lower()
        yield f"line {line}: {word!r}: say {words[word]}"


def _across_lines(word: str) -> str:
    """Return a pattern for words that may be on two lines, of a comment too."""
    return r"(?:[ \t]+|[ \t]*\n[ \t#]*)".join(re.escape(part) for part in word.split())


def prose(page: Page) -> str:
    """Return a page without blocks of code, targets of links and what is allowed, line by line."""
    inside = {number for block in page.blocks() for number in range(block.start, block.end)}
    lines = ["" if number in inside else line for number, line in enumerate(page.text.splitlines())]
    return _ALLOWED.sub("", re.sub(r"\]\([^)\s]*\)", "]", "\n".join(lines)))


def prose_of_code(text: str) -> str:
    """Return comments, docstrings and names of Python code, each on its line. All other strings are data of a test."""
    kept: list[str] = []
    line, is_start = 1, True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = token.type == tokenize.STRING and is_start
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            is_start = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        if is_docstring or token.type in (tokenize.COMMENT, tokenize.NAME):
            kept += ["\n" * (token.start[0] - line) or "; " * bool(kept), token.string]
            line = token.end[0]
    return "".join(kept)


def python_files() -> list[Path]:
    return sorted([*(PROJECT / "src").rglob("*.py"), *(PROJECT / "bench").rglob("*.py")])


@pytest.mark.parametrize("page", all_pages(), ids=[page.name for page in all_pages()])
def test_a_page_says_it_in_ordinary_words(page: Page):
    assert list(find_words(prose(page), IN_PAGES)) == []


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_the_help_of_a_command_says_it_in_ordinary_words(name: str):
    command = cli.demaq.commands[name]
    assert isinstance(command, LazyCommand)
    loaded = command.load()
    nested = [loaded, *loaded.commands.values()] if isinstance(loaded, click.Group) else [loaded]
    for each in nested:
        assert list(find_words(each.get_help(click.Context(each, info_name=name)), IN_SOURCES)) == []


def test_sources_say_it_in_ordinary_words():
    found: dict[str, list[str]] = {}
    for path in python_files():
        text = path.read_text(encoding="utf-8")
        found[path.relative_to(PROJECT).as_posix()] = list(find_words(text, {**IN_SOURCES, **NAMES}))

    assert len(found) > 300
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_tests_say_it_in_ordinary_words():
    found: dict[str, list[str]] = {}
    for path in sorted((PROJECT / "tests").rglob("*.py")):
        name = path.relative_to(PROJECT).as_posix()
        if path != Path(__file__):
            text = prose_of_code(path.read_text(encoding="utf-8"))
            found[name] = [*find_words(text, NAMES), *find_words(text.replace("_", " "), IN_SOURCES)]

    assert len(found) > 200
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_of_code_comments_docstrings_and_names_are_prose_and_other_strings_are_not():
    code = '''"""Of a module."""
LINES = ["told",
         "told"]  # of a line
"""Of LINES."""

def is_told(a, b="told"):
    # of a function
    """In it."""
    return f("told"
             "told")
'''
    assert prose_of_code(code).splitlines() == [
        '"""Of a module."""',
        "LINES",
        "# of a line",
        '"""Of LINES."""',
        "",
        "def; is_told; a; b",
        "# of a function",
        '"""In it."""',
        "return; f",
    ]


def test_a_word_is_found_across_lines_and_in_capitals_but_not_inside_others():
    words = {"simple rules": "native rules", "told": "notified"}

    assert list(find_words("Some\n# simple\n# rules.", words)) == ["line 2: 'simple rules': say native rules"]
    assert list(find_words("Told so, and was_told.", words)) == ["line 1: 'told': say notified"] * 2
    assert list(find_words("untold, toldest; simple\n\nrules", words)) == []
