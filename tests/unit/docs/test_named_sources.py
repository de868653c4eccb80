"""What pages say about the sources is so: files exist, and hold the names that the pages attribute to them."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.docs.pages import PROJECT, Page, all_pages
from tests.unit.skeleton.test_house import MAY_IMPORT, TOP

SOURCES = PROJECT / "src" / "demaq"
GLOSSARY = Page(PROJECT / "docs" / "reference" / "glossary.md")
CONTRIBUTING = Page(PROJECT / "CONTRIBUTING.md")
LIFE = Page(PROJECT / "docs" / "explanation" / "life-of-a-message.md")

_FILE = re.compile(r"`((?:[\w-]+/)*[\w-]+\.py|(?:[\w-]+/)+[\w-]+\.(?:xq|sql))`")
_FOLDER = re.compile(r"`((?:src/|bench/|tests/|docs/|language/|compiler/|store/|evaluation/)[\w/-]*/)`")
_NAMES = re.compile(r"`((?:[\w-]+/)*[\w-]+\.py)`((?:,? (?:and )?`(?!\w+\.py`)[\w.]+`)+)")
"""A file, and the names that follow it: `store/protocol.py`, `Step` and `Committed`."""
_ROW = re.compile(r"^  +(\w+) +((?:[\w-]+/)*[\w-]+\.py)  ", re.MULTILINE)
"""A row of a text block: a name, its file, what it does."""
_ENTRY = re.compile(r"^\| (?!word |---)([^|]+) \| [^|]+ \| `([\w/]+\.py)` `(\w+)` \|$", re.MULTILINE)
WORDS_LEAST, WORDS_MOST = 40, 70


def find_file(name: str) -> Path | None:
    """Return the file that a page names: below src/demaq, or else below the project."""
    return next((path for path in (SOURCES / name, PROJECT / name) if path.is_file()), None)


def _is_folder(name: str) -> bool:
    return (SOURCES / name).is_dir() or (PROJECT / name).is_dir()


@functools.cache
def names_in(path: Path) -> frozenset[str]:
    """Return the classes, functions, methods and module-level names of a file; methods with their class, too."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        found.update(_bound(node))
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                found.update([name for each in _bound(member) for name in (each, f"{node.name}.{each}")])
    return frozenset(found)


def _bound(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            yield node.name
        case ast.Assign():
            yield from [target.id for target in node.targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def attributed(text: str) -> Iterator[tuple[str, str]]:
    """Yield each file that a text names together with each name that it attributes to the file."""
    for file, names in _NAMES.findall(text):
        for name in re.findall(r"`([\w.]+)`", names):
            yield file, name
    for name, file in _ROW.findall(text):
        yield file, name


def wrong(text: str) -> list[str]:
    """Return what a text says about sources and is not so."""
    found = [f"there is no {file}" for file in _FILE.findall(text) if find_file(file) is None]
    found += [f"there is no {folder}" for folder in _FOLDER.findall(text) if not _is_folder(folder)]
    for file, name in attributed(text):
        path = find_file(file)
        if path is None or name not in names_in(path):
            found.append(f"{file} has no {name}")
    return sorted(set(found))


@pytest.mark.parametrize("page", all_pages(), ids=[page.name for page in all_pages()])
def test_files_and_names_that_a_page_mentions_exist(page: Page):
    if page.name == "CHANGELOG.md":
        return  # it tells what was
    blocks = [block for block in page.blocks() if block.language != "text"]
    inside = {number for block in blocks for number in range(block.start, block.end)}
    own = {block.file for block in blocks if block.file}
    lines = [line for number, line in enumerate(page.text.splitlines()) if number not in inside]

    text = re.sub(r"(,| and)\n *(?=`)", r"\1 ", "\n".join(lines))  # a name may be on the next line
    assert [each for each in wrong(text) if each.removeprefix("there is no ") not in own] == []


def test_a_wrong_name_and_a_missing_file_are_found():
    assert wrong("`engine/engine.py`, `Engine`, and `store/protocol.py`, `Step` and `Store.append`") == []
    assert wrong("  pending   engine/engine.py   the line") == ["engine/engine.py has no pending"]
    assert wrong("`engine/engine.py`, `Engine` and `Motor`") == ["engine/engine.py has no Motor"]
    assert wrong("see `engine/motor.py`") == ["there is no engine/motor.py"]
    assert wrong("`compiler/rewrites/`, `compiler/emit/run.xq`, `compiler/motors/`") == [
        "there is no compiler/emit/run.xq",
        "there is no compiler/motors/",
    ]


def test_the_life_of_a_message_names_the_function_of_each_step():
    assert len(set(attributed(LIFE.text))) >= 25


def test_every_word_of_the_glossary_has_one_meaning_and_a_home():
    rows = [line for line in GLOSSARY.text.splitlines() if line.startswith("| ")]
    entries = _ENTRY.findall(GLOSSARY.text)
    words = [word.strip() for entry in entries for word in entry[0].split(",")]

    assert len(entries) == len([row for row in rows if not row.startswith(("| word ", "| --- "))]), (
        "a row without a home"
    )
    assert WORDS_LEAST <= len(entries) <= WORDS_MOST
    assert len(words) == len(set(words))
    assert [f"{word}: {file} has no {name}" for word, file, name in entries if not _is_home(file, name)] == []


def _is_home(file: str, name: str) -> bool:
    path = find_file(file)
    return path is not None and name in names_in(path)


def test_the_picture_names_classes_of_the_walk():
    picture = (PROJECT / "docs" / "path-of-a-message.svg").read_text(encoding="utf-8")
    shown = re.findall(r'class="code middle"[^>]*>([^<]+)<', picture)
    walked = {name for _, name in attributed(LIFE.text)}

    assert len(shown) >= 7
    assert {name for text in shown for name in text.split(" · ")} - walked == set()
    assert "prefers-color-scheme: dark" in picture


def test_contributors_are_shown_the_layers_in_their_order():
    layers = re.findall(r"^\| `(\w+)` \| ", CONTRIBUTING.section("Where things are"), re.MULTILINE)

    assert layers == [name for name in MAY_IMPORT if name != TOP]


def test_figures_of_the_readme_are_those_of_the_benchmarks():
    section = Page(PROJECT / "README.md").section("Measured against hand-written code")
    measured = Page(PROJECT / "docs" / "reference" / "benchmarks.md").text
    rows = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    figures = [figure for row in rows for cell in row.split("|")[2:] for figure in re.findall(r"\d[\d,.]*\d", cell)]

    assert len(figures) >= 17
    assert [figure for figure in figures if figure not in measured] == []
    bench = PROJECT / "bench" / "demaq_bench"
    rules, baseline = (
        sum([len((bench / name).read_text().splitlines()) for name in names])
        for names in (
            [f"applications/{name}.dmq" for name in ("w1", "w2", "w3", "w1n", "w2n")],
            ["baseline.py", "hand_written_steps.py"],
        )
    )
    said = re.search(r"(\d+) lines of rules, (\d+) lines of Python", section)
    assert said is not None
    assert [int(said[1]), int(said[2])] == [pytest.approx(rules, rel=0.05), pytest.approx(baseline, rel=0.05)]


def test_pictures_that_pages_show_exist():
    shown = [(page, image) for page in all_pages() for image in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", page.text)]

    assert len(shown) >= 3
    assert [f"{page.name}: {image}" for page, image in shown if not (page.path.parent / image).is_file()] == []
