"""An `if` may leave its else out if its branch has actions, also those of a function of another module."""

from __future__ import annotations

from pathlib import Path

import pytest

from demaq.errors import ProgramError
from demaq.language.loader import check_application
from demaq.language.parser import parse_query
from tests.support.programs import Bench, bodies, program

LIBRARY = """module namespace lib = "urn:lib";
declare updating function lib:act($v) { do enqueue <x>{$v}</x> into out };
declare function lib:val($v) { $v + 1 };
"""
PROLOG = """import module namespace lib = "urn:lib" at "lib.xqm";
create queue in create queue out kind mailbox
"""


@pytest.mark.parametrize(
    ("body", "made"),
    [
        ("if (/a) then lib:act(1)", ["<x>1</x>"]),
        ("if (/a) then if (/a/b) then lib:act(2)", []),
        ("if (/a) then if (not(/a/b)) then lib:act(2)", ["<x>2</x>"]),
        ("if (/a) then for $v in 1 to 3 return if ($v gt 1) then $v => lib:act()", ["<x>2</x>", "<x>3</x>"]),
        ("if (/a) then (if (/a/b) then lib:act(1), if (/a) then lib:act(lib:val(1)))", ["<x>2</x>"]),
    ],
)
def test_an_updating_function_of_a_library_needs_no_else(tmp_path: Path, body: str, made: list[str]) -> None:
    lab = Bench(program(tmp_path, f"{PROLOG}create rule r for in {body}", lib_xqm=LIBRARY))

    assert bodies(lab.run("in", "<a/>")) == made


@pytest.mark.parametrize(
    "body",
    [
        "if (/a) then lib:val(1)",
        "if (/a) then do enqueue <x>{if (/a/b) then lib:val(1)}</x> into out",
        "if (if (/a) then lib:val(1)) then lib:act(1)",
        "if (/a) then if (/a/b) then lib:act(1) else if (/a/c) then lib:val(1)",
    ],
)
def test_one_with_a_value_does(tmp_path: Path, body: str) -> None:
    (tmp_path / "lib.xqm").write_text(LIBRARY)
    (tmp_path / "app.dmq").write_text(f"{PROLOG}create rule r for in {body}")

    problems = check_application(tmp_path / "app.dmq").errors

    assert [problem.code for problem in problems if problem.message == "this `if` has no `else`"] == ["DQ0101"]


def test_xquery_itself_has_no_if_without_else() -> None:
    with pytest.raises(ProgramError):
        parse_query('declare namespace lib = "urn:lib"; if (1) then lib:act(1)')
