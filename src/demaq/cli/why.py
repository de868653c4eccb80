"""`demaq why`: why rules fired on a message, or did not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.stores import (
    json_option,
    open_for_reading,
    parse_number,
    program_of,
    show_json,
    store_option,
    terminal_width,
)
from demaq.operations.json_values import as_json as to_json
from demaq.operations.why.verdict_text import write_details, write_headline, write_message
from demaq.operations.why.verdicts import MessageVerdict, RuleResult, RuleVerdict
from demaq.store.location import StoreLocation

_COLOURS: dict[RuleResult, str] = {"fired": "green", "else": "green", "failed": "red", "not-fired": "yellow"}


@click.command(
    cls=ExampleFirst,
    example="""
    $ demaq why 17 --store orders
    message 17 of queue orders, processed by step 18
      <order><total>90</total></order>

    rule ship did not fire
      /order/total > 100 is false: "90" > 100
    """,
)
@click.argument("message", metavar="MESSAGE")
@click.option("--rule", metavar="RULE", help="Only this rule.")
@store_option
@json_option
def why(message: str, rule: str | None, place: StoreLocation, as_json: bool) -> int:
    """Show what became of a message: which of its rules fired, and why the others did not.

    MESSAGE is its number. Its rules are evaluated again, on the messages that were there when it was processed; of one
    that waits, on those that are there now. Exit 1 if the message is not stored.
    """
    from demaq.evaluation.saxon.compiled import compile_program
    from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
    from demaq.operations.why.why_message import why_message

    number = parse_number(message, "MESSAGE")
    with open_for_reading(place) as store:
        program = program_of(store)
        if program is None:
            raise click.ClickException(f"no application has run on {place}")
        evaluator = SaxonEvaluator(compile_program(program), native=False)
        found = why_message(store, evaluator, number, datetime.now(UTC), rule)
    if as_json:
        show_json(to_json(found))
    else:
        _print(found)
    return 1 if found.state == "gone" else 0


def _print(found: MessageVerdict) -> None:
    width = terminal_width()
    click.echo("\n".join(write_message(found, width)))
    for rule in found.rules:
        click.echo()
        click.echo(_headline(found, rule))
        for line in write_details(rule, found.state, width):
            click.echo(line)


def _headline(found: MessageVerdict, rule: RuleVerdict) -> str:
    where = click.style(f"  {_shorten(rule.at.file)}:{rule.at.line}", dim=True)
    return click.style(write_headline(rule, found.state), fg=_COLOURS.get(rule.result), bold=True) + where


def _shorten(file: str) -> str:
    """Return the path of a file from the current folder, if it is there."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
