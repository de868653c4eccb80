"""`demaq check`: read an application and say what is wrong with it, before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from demaq.cli.answer_report import answers_of, describe_answers
from demaq.cli.applications import check_paths
from demaq.cli.command_classes import ExampleFirst
from demaq.cli.performance_report import describe_performance, performance_json
from demaq.compiler.plan import Plan
from demaq.compiler.planner import make_plan
from demaq.evaluation.saxon.compiled import static_check
from demaq.language.loader import CheckedProgram
from demaq.language.program.program import SYSTEM_ERRORS

EXAMPLE = """
$ demaq check orders.dmq
orders.dmq: 4 queues, 2 slicings, 7 rules, no problems
"""


@click.command(cls=ExampleFirst, example=EXAMPLE)
@click.argument("application", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--performance", is_flag=True, help="List the rules that are left to Saxon, with reasons and hints.")
@click.option("--json", "as_json", is_flag=True, help="Print everything found as one JSON document.")
def check(application: tuple[Path, ...], performance: bool, as_json: bool) -> int:
    """Check the files of an application, or the folders that hold them.

    `-` reads one from standard input. Exit 0 when it can run, with or without warnings; 1 when it cannot. A warning is
    silenced by a comment on its line: (: demaq:ignore DQ1402 :)
    """
    checked = check_paths(application, static_check)
    name = " ".join([str(path) for path in application])
    plan = None if checked.program is None or checked.errors else make_plan(checked.program)
    if as_json:
        document = _document(name, checked, plan)
        if performance and plan is not None:
            document["performance"] = performance_json(plan)
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        for item in checked.diagnostics:
            click.echo(item.render() + "\n", err=True)
        click.echo(f"{name}: {_summary(checked)}")
        answers = {} if plan is None else answers_of(plan)
        for gateway, queues in answers.items():
            click.echo(describe_answers(gateway, queues))
        for line in describe_performance(plan) if performance and plan is not None else []:
            click.echo(line)
    return 1 if checked.errors else 0


def _summary(checked: CheckedProgram) -> str:
    problems = [
        _count(len(found), word) for found, word in ((checked.errors, "error"), (checked.warnings, "warning")) if found
    ]
    sizes = _sizes(checked)
    counts = [_count(sizes[part + "s"], part) for part in ("queue", "slicing", "rule")] if sizes else []
    return ", ".join([*counts, *(problems or ["no problems"])])


def _sizes(checked: CheckedProgram) -> dict[str, int]:
    """Return how many parts the program has, those of the system not counted; nothing if there is no program."""
    program = checked.program
    if program is None:
        return {}
    return {
        "queues": len([name for name in program.queues if name != SYSTEM_ERRORS]),
        "properties": len([item for item in program.properties.values() if item.decl is not None]),
        "slicings": len(program.slicings),
        "collections": len(program.collections),
        "rules": len(program.rules),
    }


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _document(name: str, checked: CheckedProgram, plan: Plan | None) -> dict[str, Any]:
    return {
        "application": name,
        **_sizes(checked),
        **({} if plan is None else {"answeredFrom": answers_of(plan)}),
        "errors": len(checked.errors),
        "warnings": len(checked.warnings),
        "diagnostics": [item.as_json() for item in checked.diagnostics],
    }
