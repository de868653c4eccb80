"""Options of commands that evaluate rules."""

from __future__ import annotations

import click

from demaq.rounds.simple.settings import CHECK_EVERY, EVALUATORS

evaluator_option = click.option(
    "--evaluator",
    type=click.Choice(EVALUATORS),
    default="auto",
    show_default=True,
    metavar="NAME",
    help="What evaluates rules: auto (native code where it can, else Saxon) or saxon.",
)
check_every_option = click.option(
    "--check-every",
    type=click.IntRange(0),
    default=CHECK_EVERY,
    show_default=True,
    metavar="COUNT",
    help="Compare one in so many answers of native rules with Saxon's; 0 for none.",
)
