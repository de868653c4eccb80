"""What may run and looks like a slip is warned of, and near misses are not."""

from pathlib import Path

import pytest

from demaq.language.loader import check_application
from tests.support.language.checking import check, expected, found
from tests.support.language.warning_cases import WARNING_CASES, Q

PAPER = Path(__file__).parents[2] / "support" / "language" / "applications" / "paper-as-printed"
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(("code", "text"), [c[1:] for c in WARNING_CASES], ids=[c[0] for c in WARNING_CASES])
def test_what_looks_like_a_slip_is_warned_of(tmp_path, code, text):
    checked = check(tmp_path, text)

    assert [item.render() for item in checked.errors] == []
    assert found(checked.warnings) == (expected(code, text) if code else [])
    assert checked.program is not None


@pytest.mark.parametrize(
    ("comment", "silenced"),
    [
        ("(: demaq:ignore DQ1501 :)", True),
        ("(: demaq:ignore :)", True),
        ("(: people read it; demaq:ignore DQ1402, DQ1501 :)", True),
        ("(: demaq:ignore DQ1402 :)", False),
        ("(: ignore DQ1501 :)", False),
        ("\n(: demaq:ignore DQ1501 :)", False),
    ],
)
def test_a_comment_on_its_line_silences_a_warning(tmp_path, comment, silenced):
    checked = check(tmp_path, f"{Q}create queue idle {comment}")

    assert (checked.warnings == []) == silenced


def test_no_comment_silences_an_error(tmp_path):
    checked = check(tmp_path, "create queue a create queue a (: demaq:ignore :)")

    assert [item.code for item in checked.errors] == ["DQ0208"]


def test_warnings_about_the_whole_wait_until_all_statements_can_be_read(tmp_path):
    checked = check(tmp_path, "create queue idle create rule r for")

    assert [item.code for item in checked.diagnostics] == ["DQ0101"]


def test_the_slips_of_the_paper_are_found():
    checked = check_application(PAPER / "section-3.dmq")

    assert found(checked.errors) == [("DQ0201", "20:21"), ("DQ0201", "104:21")]
    assert [item.hint for item in checked.errors] == ["did you mean $exportRestrictionInfo?", "did you mean $request?"]
    assert found(checked.warnings) == [
        ("DQ1501", "5:14"),  # no listing handles what goes to legal
        ("DQ1203", "30:52"),  # qs:message()/customerID
        ("DQ1401", "54:37"),  # joinOrder sends a second offer
        ("DQ1401", "57:22"),  # and a second refusal
        ("DQ1201", "78:34"),  # mRID
        ("DQ1201", "79:54"),
        ("DQ1402", "87:16"),  # no listing resets retainOrders
    ]


def test_the_definitions_of_the_paper_are_right():
    checked = check_application(PAPER / "section-2.dmq")

    assert checked.errors == []
    assert {item.code for item in checked.warnings} == {"DQ1301", "DQ1402", "DQ1501"}
    assert checked.program is not None
    assert len(checked.program.queues) == 1 + 8


@pytest.mark.parametrize(
    "folder", sorted([path for path in EXAMPLES.iterdir() if path.is_dir()]), ids=lambda folder: folder.name
)
def test_the_examples_have_no_problems(folder):
    assert [item.render() for item in check_application(folder).diagnostics] == []
