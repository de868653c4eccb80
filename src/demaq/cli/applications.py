"""Load an application for a command: a program, or its errors on stderr and exit code 1."""

from __future__ import annotations

import click

from demaq.language.diagnostics import Diagnostic
from demaq.language.load import StaticCheck, check_application
from demaq.language.program import Program


def loaded(paths: tuple[str, ...], static_check: StaticCheck | None = None) -> Program:
    """The program the files make up. Ends the command where it has errors."""
    checked = check_application(paths, static_check)
    if checked.program is None:
        show(checked.errors)
        raise click.exceptions.Exit(1)
    return checked.program


def show(diagnostics: list[Diagnostic]) -> None:
    """Diagnostics for people, on stderr."""
    if diagnostics:
        click.echo("\n\n".join([item.render() for item in diagnostics]), err=True)
