"""`demaq test`: run an application's own tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from demaq.cli.applications import load_or_exit, show
from demaq.cli.command_classes import ExampleFirst
from demaq.cli.shared_options import evaluator_option
from demaq.evaluation.native.native_settings import EvaluatorName
from demaq.evaluation.saxon.compiled import static_check
from demaq.language.diagnostics import Diagnostic
from demaq.language.program.program import Program
from demaq.testing.scenarios import (
    ScenarioError,
    ScenarioFailure,
    ScenarioFile,
    ScenarioResult,
    read_scenarios,
    run_scenarios,
)

SUFFIXES = (".yaml", ".yml")


@click.command(
    name="test",
    cls=ExampleFirst,
    example="""
    $ demaq test orders.dmq scenarios.yaml
    scenarios.yaml: 7 scenarios passed
    """,
)
@click.argument("application", nargs=-1, required=True, metavar="APP... SCENARIOS.yaml...")
@click.option("--scenario", metavar="NAME", help="Only scenarios with this in their name.")
@click.option("--fail-fast", is_flag=True, help="Stop at the first scenario that fails.")
@evaluator_option
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON document.")
def test_application(
    application: tuple[str, ...], scenario: str | None, fail_fast: bool, evaluator: EvaluatorName, as_json: bool
) -> int:
    """Run the scenarios of an application.

    APP is a .dmq file or a folder of them; what ends in .yaml or .yml are scenarios. Exit 1 when a scenario fails, and
    when a file is not what it should be: then nothing is run.
    """
    paths = tuple([path for path in application if not path.endswith(SUFFIXES)])
    names = [path for path in application if path.endswith(SUFFIXES)]
    if not paths or not names:
        raise click.UsageError("give the application and, after it, files of scenarios (.yaml)")
    files, mistakes = _read(names, load_or_exit(paths, static_check))
    if mistakes and not as_json:
        show(mistakes)
    if mistakes:
        if as_json:
            _print_json(paths, [], mistakes)
        return 1
    selected = [ScenarioFile(file=file.file, scenarios=_select(file, scenario)) for file in files]
    if not any([file.scenarios for file in selected]):
        raise click.UsageError(f'no scenario has "{scenario}" in its name')
    return _run(paths, [file for file in selected if file.scenarios], fail_fast, evaluator, as_json)


def _read(names: list[str], program: Program) -> tuple[list[ScenarioFile], list[Diagnostic]]:
    files: list[ScenarioFile] = []
    mistakes: list[Diagnostic] = []
    for name in names:
        try:
            files.append(read_scenarios(Path(name), program))
        except ScenarioError as error:
            mistakes += [Diagnostic.of(item) for item in (error, *error.others)]
    return files, mistakes


def _select(file: ScenarioFile, name: str | None) -> tuple[Any, ...]:
    return tuple([scenario for scenario in file.scenarios if name is None or name in scenario.name])


def _run(
    paths: tuple[str, ...], files: list[ScenarioFile], fail_fast: bool, evaluator: EvaluatorName, as_json: bool
) -> int:
    done: list[tuple[ScenarioFile, list[ScenarioResult]]] = []
    for file in files:
        results: list[ScenarioResult] = []
        done.append((file, results))
        for result in _until_failure(run_scenarios(paths, file.scenarios, evaluator), fail_fast):
            results.append(result)
            if result.failure is not None and not as_json:
                _print_failure(result, result.failure)
        if not as_json:
            click.echo(f"{file.file}: {_summary(file, results)}")
        if fail_fast and _count_failed(results):
            break
    if as_json:
        _print_json(paths, done, [])
    return 1 if any([_count_failed(results) for _, results in done]) else 0


def _until_failure(results: Iterator[ScenarioResult], fail_fast: bool) -> Iterator[ScenarioResult]:
    for result in results:
        yield result
        if fail_fast and result.failure is not None:
            return


def _count_failed(results: list[ScenarioResult]) -> int:
    return len([result for result in results if result.failure is not None])


def _summary(file: ScenarioFile, results: list[ScenarioResult]) -> str:
    failed = _count_failed(results)
    if not failed:
        return f"{len(results)} scenario{'' if len(results) == 1 else 's'} passed"
    left = len(file.scenarios) - len(results)
    total = len(file.scenarios)
    words = f"{failed} of {total} scenario{'' if total == 1 else 's'} failed"
    return f"{words}, {left} not run" if left else words


# --- what it says ----------------------------------------------------------------------------------------------------


def _print_failure(result: ScenarioResult, failure: ScenarioFailure) -> None:
    click.echo(click.style(f"FAILED {result.scenario.name}", bold=True))
    click.echo(f"  {failure.at.file}:{failure.at.line}: {failure.step}")
    click.echo("\n".join([f"  {line}".rstrip() for line in failure.message.split("\n")]))
    for line in (failure.diff or "").splitlines():
        colour = {"-": "red", "+": "green"}.get(line[:1])
        click.echo(click.style(f"    {line}".rstrip(), fg=colour))
    for error in failure.errors:
        click.echo(f"  error message in {error}")
    for line in failure.why:
        click.echo(f"  {line}")
    click.echo()


def _print_json(
    paths: tuple[str, ...], done: list[tuple[ScenarioFile, list[ScenarioResult]]], mistakes: list[Diagnostic]
) -> None:
    results = [result for _, found in done for result in found]
    document = {
        "application": " ".join(paths),
        "passed": len(results) - _count_failed(results),
        "failed": _count_failed(results),
        "files": [{"file": file.file, "scenarios": [_result_json(result) for result in found]} for file, found in done],
        "mistakes": [mistake.as_json() for mistake in mistakes],
    }
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def _result_json(result: ScenarioResult) -> dict[str, Any]:
    failure = result.failure
    return {
        "name": result.scenario.name,
        "line": result.scenario.at.line,
        "passed": failure is None,
        "failure": None
        if failure is None
        else {
            "file": failure.at.file,
            "line": failure.at.line,
            "step": failure.step,
            "message": failure.message,
            "diff": failure.diff,
            "errors": list(failure.errors),
            "why": list(failure.why),
        },
    }
