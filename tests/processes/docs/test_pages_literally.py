"""What the pages show works as it stands there: typed into a shell, in order, in an empty folder.

The README and the tutorials are typed in every run, and so is one of the how-to pages, another one each time: the seed
of the run says which, and `DEMAQ_TEST_PAGES=all` types all of them. test_documentation.py has what all pages answer, in
one process and so in less time.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.support.docs.pages import ELSEWHERE, PROJECT, Block, Command, Page, commands
from tests.support.docs.terminal import Terminal
from tests.support.drawing import SEED_VARIABLE

TUTORIALS = [Page(path) for path in sorted((PROJECT / "docs" / "tutorial").glob("*.md"))]
HOW_TO = [Page(path) for path in sorted((PROJECT / "docs" / "how-to").glob("*.md"))]
HOW_TO_PAGES = 1
"""So many of them are typed in each run."""
UNTYPED = {
    "README.md": 1,
    "docs/how-to/back-up-and-restore.md": 1,
    "docs/how-to/call-a-reliable-service.md": 1,
    "docs/how-to/change-a-dependency.md": 1,
    "docs/how-to/connect-two-nodes.md": 1,
    "docs/how-to/deploy.md": 3,
    "docs/how-to/expose-a-soap-service.md": 1,
    "docs/how-to/load-and-export.md": 3,
    "docs/how-to/receive-and-send-mail.md": 1,
    "docs/how-to/release.md": 2,
    "docs/how-to/run-on-a-cluster.md": 6,
    "docs/how-to/secure-a-node.md": 2,
    "docs/how-to/secure-a-soap-service.md": 1,
    "docs/how-to/test-an-application.md": 1,
    "docs/how-to/watch-a-node.md": 3,
    "docs/how-to/watch-and-repair-with-the-console.md": 1,
}
"""Blocks of commands that are typed nowhere: they are for other machines, or to be adapted."""


def is_typed(block: Block) -> bool:
    return block.language == "console" and ELSEWHERE not in block.words


def is_left_out(block: Block) -> bool:
    return block.language == "sh" or (block.language == "console" and not is_typed(block))


def how_to_pages() -> list[Page]:
    known = [page for page in HOW_TO if any([is_typed(block) for block in page.blocks()])]
    if os.environ.get("DEMAQ_TEST_PAGES") == "all":
        return known
    drawn = random.Random(os.environ[SEED_VARIABLE]).sample(known, HOW_TO_PAGES)
    return sorted(drawn, key=lambda page: page.name)


def type_page(page: Page, terminal: Terminal) -> int:
    """Save the files and type the commands of a page; return how many commands there were."""
    count = 0
    for block in page.blocks():
        if block.file is not None:
            terminal.save(block.file, block.text)
        elif is_typed(block):
            for command in commands(block):
                count += 1
                assert terminal.answer(command) == command.answer, f"{page.name}:{block.start + 1}: {command.text}"
    return count


@pytest.mark.slow
def test_the_readme_works_as_it_stands_there(tmp_path: Path):
    with Terminal(tmp_path) as terminal:
        (terminal.folder / "demaq").symlink_to(PROJECT / "demaq")  # it is read in the folder of the clone
        assert type_page(Page(PROJECT / "README.md"), terminal) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=[page.name for page in TUTORIALS])
def test_a_tutorial_works_as_it_stands_there(page: Page, tmp_path: Path):
    with Terminal(tmp_path) as terminal:
        assert type_page(page, terminal) >= 4


@pytest.mark.slow
def test_how_to_pages_work_as_they_stand_there(tmp_path: Path):
    for number, page in enumerate(how_to_pages()):
        somewhere = tmp_path / str(number)
        somewhere.mkdir()
        with Terminal(somewhere) as terminal:
            (terminal.folder / "examples").symlink_to(PROJECT / "examples")
            assert type_page(page, terminal) >= 1


def test_what_is_typed_nowhere_is_known():
    pages = [Page(PROJECT / "README.md"), *TUTORIALS, *HOW_TO]
    found = {page.name: sum([is_left_out(block) for block in page.blocks()]) for page in pages}

    assert {name: count for name, count in found.items() if count} == UNTYPED


def test_a_terminal_shows_what_a_reader_would_see(tmp_path: Path):
    with Terminal(tmp_path) as terminal:
        terminal.save("a b.txt", "port 8471\n")
        assert terminal.answer(Command("cat 'a b.txt'", ("port 8471",))) == ("port 8471",)
        assert terminal.answer(Command("printf no-end-of-line", ("no-end-of-line",))) == ("no-end-of-line",)
        assert terminal.answer(Command("printf 'a\\n\\nb\\n\\n'", ("a", "", "b"))) == ("a", "", "b")
        assert terminal.answer(Command("false", ())) == ()
        assert terminal.answer(Command("echo $?", ("1",))) == ("1",)
        assert terminal.answer(Command("echo one; echo two >&2", ("one",))) == ("one", "two")
        assert terminal.answer(Command("{ sleep 0.3; echo up; sleep 60; } &", ("up",))) == ("up",)
        assert terminal.answer(Command("sleep 1; echo done", ("done",))) == ("done",)
        assert terminal.answer(Command("echo 2026-11-17 05:00:00", ("2001-01-01 00:00:00",))) == (
            "2001-01-01 00:00:00",
        )
        with pytest.raises(AssertionError, match="has not said"):
            terminal.answer(Command("kill %1 2>/dev/null", ("stopped",)))
