"""`-` in place of a file: standard input."""

from __future__ import annotations

import sys

import click

STDIN = "-"
STDIN_NAME = "<stdin>"
"""What it is called where a place in it is named."""


def read_stdin() -> bytes:
    """All of it. Ends the command where there is none."""
    # A process that was started without one has None here, whatever the type says.
    if sys.stdin is None:
        raise click.ClickException("standard input is closed")
    return sys.stdin.buffer.read()
