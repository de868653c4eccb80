"""Options that several commands share: how rules are evaluated, and where Spark is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from demaq.evaluation.native.native_settings import CHECK_EVERY, EVALUATORS
from demaq.spark.master import MASTER_DEFAULT
from demaq.spark.security import SECRET, SECRET_FILE
from demaq.spark.session import RunningSpark, start_spark

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


SparkOption = tuple[str, str]
"""The name of one of Spark's own settings, and its value."""


class Setting(click.ParamType[SparkOption]):
    """`spark.executor.memory=2g`."""

    name = "setting"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> SparkOption:
        if isinstance(value, tuple):
            return value
        key, equals, text = str(value).partition("=")
        if not key or not equals:
            self.fail(f"{value} is not a setting such as spark.driver.memory=2g", param, ctx)
        if key == SECRET:
            self.fail(
                f"all users can read a command line; write the secret to a file: {SECRET_FILE}=FILE",
                param,
                ctx,
            )
        return key, text


def pipeline_option(default: str) -> Callable[[Any], Any]:
    return click.option(
        "--pipeline",
        type=click.Choice(["auto", "spark", "inline"]),
        default=default,
        show_default=True,
        metavar="NAME",
        help="Where rules are evaluated: spark, inline (in worker processes), or auto: on Spark if much is to do.",
    )


master_option = click.option(
    "--master", default=MASTER_DEFAULT, show_default=True, metavar="URL", help="The Spark master."
)
conf_option = click.option(
    "--conf", type=Setting(), multiple=True, metavar="NAME=VALUE", help="One of Spark's own settings; may be repeated."
)


def start_command_spark(master: str, conf: Iterable[SparkOption], folder: Path) -> RunningSpark:
    """Return a session for one command, whose log is in the store's folder."""
    return start_spark(master, options=dict(conf), folder=folder, tell=lambda line: click.echo(line, err=True))
