"""`demaq audit`: what operators have done."""

from __future__ import annotations

import json

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.parameters import COUNT
from demaq.cli.stores import PAGE, json_option, open_for_reading, parse_number, print_empty, store_option, tell
from demaq.operations.audit import ACTIONS, list_audit
from demaq.operations.json_values import as_json as encode
from demaq.store.location import StoreLocation
from demaq.store.operator_records import AuditRecord


@click.command(cls=ExampleFirst, example="$ demaq audit --store orders")
@click.option("--action", "actions", multiple=True, type=click.Choice(ACTIONS), help="Only this; may be repeated.")
@click.option("--who", default=None, metavar="NAME", help="Only what this operator has done.")
@click.option("--limit", default=PAGE, show_default=True, type=COUNT, help="Show at most so many.")
@click.option("--after", default=None, metavar="LAST", help="Continue after the last one shown.")
@store_option
@json_option
def audit(
    actions: tuple[str, ...], who: str | None, limit: int, after: str | None, place: StoreLocation, as_json: bool
) -> None:
    """List what operators have done, newest first.

    Who, when, what, why, and what became of it.
    """
    before = parse_number(after, "--after") if after is not None else None
    with open_for_reading(place) as store:
        page = list_audit(store, before=before, limit=limit, actions=frozenset(actions), who=who)
    if as_json:
        click.echo(json.dumps(encode(page.records), indent=2, ensure_ascii=False))
    else:
        for entry in page.records:
            click.echo(format_audit(entry))
        if not page.records:
            print_empty("nothing is recorded" if before is None else f"nothing is recorded before {before}")
    if page.next_before is not None:
        tell(f"there is more: --after {page.next_before}")


def format_audit(entry: AuditRecord) -> str:
    why = f": {entry.why}" if entry.why else ""
    result = f" ({entry.result})" if entry.result else ""
    return f"{entry.number:>6}  {entry.at:%Y-%m-%d %H:%M:%S}  {entry.who}: {entry.action} {entry.subject}{result}{why}"
