"""Small programs with what the compiler makes of each: one thing to see in each text.

To add one, write a program into a new file below tests/golden; to record what has changed on purpose:

    ./test --accept-golden tests/unit/compiler

and review the difference. A folder is named after the module that its programs show.
"""

from __future__ import annotations

import difflib
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from types import FrameType

import pytest

import demaq
from demaq.compiler.analysis import analyse
from demaq.compiler.context import make_contexts
from demaq.compiler.rewrites import REWRITES, Indexes
from tests.support.compiler.golden_texts import GOLDEN, load, make_text, read_program

TEXTS = sorted(GOLDEN.glob("*/*/*.txt"))
COMPILER = Path(demaq.__file__).parent / "compiler"
FOLDERS = {"rewrites": "rewrites", "emit/xquery": "xquery", "emit/python": "python"}
MODULES = [f"{package}/{file.stem}" for package in FOLDERS for file in sorted((COMPILER / package).glob("[!_]*.py"))]
TEXTS_MIN = 3
"""So many texts show each module."""


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: str(file.relative_to(GOLDEN).with_suffix("")))
def test_the_compiler_makes_the_recorded_text(file: Path, accept_golden: bool) -> None:
    recorded = file.read_text(encoding="utf-8")
    made = make_text(read_program(recorded), file.parent)
    if accept_golden:
        file.write_text(made, encoding="utf-8")
        return
    difference = difflib.unified_diff(recorded.splitlines(), made.splitlines(), "recorded", "now", lineterm="")
    assert recorded == made, "\n".join(difference)


def test_names_of_texts_say_what_is_left_to_saxon() -> None:
    native = [text for text in TEXTS if text.parent.parent.name == "python"]
    left = [text for text in native if "is left to Saxon because of " in text.read_text(encoding="utf-8")]
    assert [text.name for text in native if text.stem.endswith("refused") != (text in left)] == []
    assert len(left) >= TEXTS_MIN


@pytest.mark.parametrize("module", MODULES)
def test_each_rewrite_and_emitter_module_is_shown_by_texts_that_run_it(module: str) -> None:
    package, _, name = module.rpartition("/")
    folder = GOLDEN / FOLDERS[package] / name
    texts = sorted(folder.glob("*.txt"))
    file = str(COMPILER / f"{module}.py")
    showing = (
        text for text in texts if runs_file(file, partial(make_text, read_program(text.read_text("utf-8")), folder))
    )
    shown = list(islice(showing, TEXTS_MIN))
    assert len(shown) == TEXTS_MIN, f"of {len(texts)} texts in {folder}, only {len(shown)} run the module"


def test_each_rewrite_changes_a_plan_in_the_texts_of_its_module() -> None:
    changes: Counter[str] = Counter()
    for rewrite in REWRITES:
        module = rewrite.__module__.rpartition(".")[2]
        for text in (GOLDEN / "rewrites" / module).glob("*.txt"):
            program = load(read_program(text.read_text(encoding="utf-8")), text.parent)
            known, indexes = make_contexts(program.modules), Indexes()
            for rule in program.rules:
                plan = analyse(rule, known[rule.module])
                for each in REWRITES:
                    before, plan = plan, each(plan, known[rule.module], indexes)
                    changes[module] += each is rewrite and before != plan
    assert {name: count for name, count in changes.items() if count < TEXTS_MIN} == {}


def runs_file(file: str, do: Callable[[], object]) -> bool:
    """Whether a function of this file is called; the first such call ends all."""

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename == file:
            raise FileRuns

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        do()
    except FileRuns:
        return True
    finally:
        sys.setprofile(before)
    return False


class FileRuns(BaseException):
    """Not an error, so that nothing handles it as one."""
