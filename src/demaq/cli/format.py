"""`demaq format`: an application in its one canonical layout."""

from __future__ import annotations

from pathlib import Path

import click

from demaq.cli.applications import read_module_from_stdin, show
from demaq.cli.command_classes import ExampleFirst
from demaq.cli.parameters import STDIN, STDIN_NAME
from demaq.errors import ProgramError
from demaq.files import name_in_errors
from demaq.language.diagnostics import Diagnostic
from demaq.language.parser import find_application_files, parse_module, read_source
from demaq.language.printing.printer import format_canonically


@click.command(cls=ExampleFirst, example="$ demaq format --write orders.dmq")
@click.argument("application", nargs=-1, required=True, metavar="APP...")
@click.option("--write", "-w", is_flag=True, help="Write the files instead of printing them.")
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit 1 if a file is laid out otherwise.")
def format(application: tuple[str, ...], write: bool, only_check: bool) -> int:
    """Print an application in one canonical layout, keeping its comments.

    APP is a .dmq file or a folder of them; `-` reads standard input.
    """
    try:
        if application == (STDIN,):
            sources = [(Path(STDIN_NAME), read_module_from_stdin())]
        else:
            sources = [(path, read_source(path)) for path in find_application_files(application)]
    except ProgramError as error:
        show([Diagnostic.of(error)])
        return 1
    formatted: list[tuple[Path, str, str]] = []
    errors: list[ProgramError] = []
    for path, text in sources:
        module, found = parse_module(text, str(path))
        errors.extend(found)
        if not found:
            formatted.append((path, text, format_canonically(module)))
    if errors:
        show([Diagnostic.of(error) for error in errors])
        return 1
    return _report(formatted) if only_check else _deliver(formatted, write)


def _report(formatted: list[tuple[Path, str, str]]) -> int:
    changed = [path for path, before, after in formatted if before != after]
    for path in changed:
        click.echo(f"{path}: would be laid out otherwise", err=True)
    return 1 if changed else 0


def _deliver(formatted: list[tuple[Path, str, str]], write: bool) -> int:
    for path, before, after in formatted:
        if not write or str(path) == STDIN_NAME:
            click.echo(after, nl=False)
        elif before != after:
            with name_in_errors(path):
                path.write_text(after, encoding="utf-8")
            click.echo(f"{path}: written", err=True)
    return 0
