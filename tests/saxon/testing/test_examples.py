"""The example applications do what their scenarios say, and are written as we want applications to be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from demaq.evaluation.saxon.compiled import static_check
from demaq.language.loader import check_application
from demaq.language.parser import parse_module
from demaq.language.printing.printer import format_module
from demaq.testing.scenarios import read_scenarios, run_scenarios

FOLDER = Path(__file__).parents[3] / "examples"
EXAMPLES = sorted({path.parent for path in FOLDER.rglob("*.dmq")})

every_example = pytest.mark.parametrize("example", EXAMPLES, ids=[path.name for path in EXAMPLES])


def test_there_are_the_examples_that_the_documentation_speaks_of() -> None:
    expected = {"enrichment", "procurement", "registrar", "retention", "supplier"}
    assert expected <= {path.name for path in EXAMPLES}


@every_example
def test_nothing_is_found_wrong_with_an_example(example: Path) -> None:
    assert [item.render() for item in check_application(example, static_check).diagnostics] == []


@every_example
def test_an_example_is_laid_out_as_the_formatter_would(example: Path) -> None:
    for file in example.rglob("*.dmq"):
        text = file.read_text(encoding="utf-8")
        assert format_module(parse_module(text, str(file))[0]) == text, file


SCENARIOS = [(path, path / "scenarios.yaml") for path in EXAMPLES if (path / "scenarios.yaml").exists()]
# On two nodes the same application has the same story.
SCENARIOS.append((FOLDER / "two-nodes" / "chemicals", FOLDER / "procurement" / "scenarios.yaml"))


@pytest.mark.parametrize(("example", "file"), SCENARIOS, ids=[example.name for example, _ in SCENARIOS])
def test_the_scenarios_of_an_example_pass(example: Path, file: Path) -> None:
    program = check_application(example, static_check).program
    assert program is not None
    scenarios = read_scenarios(file, program).scenarios
    failures = [result.failure for result in run_scenarios(example, scenarios) if result.failure is not None]

    assert [str(failure) for failure in failures] == []


def test_the_rules_of_an_application_are_the_same_on_two_nodes() -> None:
    one = (FOLDER / "procurement" / "procurement.dmq").read_text(encoding="utf-8")
    two = (FOLDER / "two-nodes" / "chemicals" / "procurement.dmq").read_text(encoding="utf-8")
    after_the_queues = "create collection crm"

    assert one[one.index(after_the_queues) :] == two[two.index(after_the_queues) :]


def test_every_order_of_release_has_its_scenario() -> None:
    example = Path(__file__).parents[3] / "examples" / "retention"
    program = check_application(example).program
    assert program is not None
    names = [scenario.name for scenario in read_scenarios(example / "scenarios.yaml", program).scenarios]

    assert len([name for name in names if name.count(", then ") == 2]) == 6
