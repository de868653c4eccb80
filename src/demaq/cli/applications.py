"""Load an application for a command: a program, or its errors on stderr and exit code 1."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from demaq.cli.parameters import STDIN, STDIN_NAME, read_stdin
from demaq.errors import ProgramError
from demaq.language.diagnostics import Diagnostic
from demaq.language.loader import CheckedProgram, StaticCheck, check_application, check_text
from demaq.language.parser import decode_source
from demaq.language.program.program import Program


def load_or_exit(paths: Sequence[str], static_check: StaticCheck | None = None) -> Program:
    """Return the program the files make up. Ends the command where it has errors."""
    checked = check_paths(paths, static_check)
    if checked.program is None:
        show(checked.errors)
        raise click.exceptions.Exit(1)
    return checked.program


def check_paths(paths: Sequence[str | os.PathLike[str]], static_check: StaticCheck | None = None) -> CheckedProgram:
    """Return what is found in the files of an application, or in the one module on standard input."""
    if STDIN not in [str(path) for path in paths]:
        return check_application(paths, static_check)
    if len(paths) > 1:
        raise click.UsageError("- stands for the whole application, so give nothing else")
    try:
        text = read_module_from_stdin()
    except ProgramError as error:
        return CheckedProgram(None, [Diagnostic.of(error)])
    return check_text(text, STDIN_NAME, static_check)


def read_module_from_stdin() -> str:
    """Return the text of a module on standard input. Raises a ProgramError if it is not UTF-8."""
    return decode_source(read_stdin(), STDIN_NAME)


def show(diagnostics: list[Diagnostic]) -> None:
    """Diagnostics for people, on stderr."""
    if diagnostics:
        click.echo("\n\n".join([item.render() for item in diagnostics]), err=True)
