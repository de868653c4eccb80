"""`demaq explain`: how an application will be executed."""

from __future__ import annotations

import json

import click

from demaq.cli.answer_report import answers_of
from demaq.cli.applications import load_or_exit
from demaq.cli.command_classes import ExampleFirst
from demaq.compiler.explain import explain as explain_plan
from demaq.compiler.explain import explain_json
from demaq.compiler.planner import make_plan
from demaq.language.gateway_policies import describe_gateway_policies
from demaq.suggestions import describe_unknown


@click.command(
    cls=ExampleFirst,
    example="""
    $ demaq explain orders.dmq --rule ship
    rule ship for slicing order
      asked          for every message in a slice of order
      reads          its slice of order, by key
      enqueues into  shipping
      errors go to   demaq:errors
      evaluated      natively
    """,
)
@click.argument("application", nargs=-1, required=True, metavar="APP...")
@click.option("--rule", metavar="RULE", help="Explain one rule only.")
@click.option("--queue", metavar="QUEUE", help="Explain one queue only.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def explain(application: tuple[str, ...], rule: str | None, queue: str | None, as_json: bool) -> None:
    """Show how an application will be executed.

    Which rules are asked about a message, what they read and by which path, what they write, which queues answer the
    senders of a gateway, and what its policies demand. APP is a .dmq file or a folder of them; `-` reads standard
    input.
    """
    plan = make_plan(load_or_exit(application))
    if rule is not None and rule not in plan.rules:
        raise click.UsageError(describe_unknown("rule", rule, plan.rules))
    if queue is not None and queue not in plan.queues:
        raise click.UsageError(describe_unknown("queue", queue, plan.queues))
    answers = answers_of(plan)
    policies = describe_gateway_policies(plan.program)
    if as_json:
        click.echo(json.dumps(explain_json(plan, rule, queue, answers, policies), indent=2))
    else:
        click.echo(explain_plan(plan, rule, queue, answers, policies))
