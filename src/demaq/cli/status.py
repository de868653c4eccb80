"""`demaq status`: what a running node is doing."""

from __future__ import annotations

import click

from demaq.cli.example_first import ExampleFirst
from demaq.cli.stores import counted, json_option, show_json, store_option, told
from demaq.server.control import running_node
from demaq.store.place import Place


@click.command(cls=ExampleFirst, example="$ demaq status --store orders")
@store_option
@json_option
def status(place: Place, as_json: bool) -> None:
    """Show what a running node is doing.

    How many messages it has processed since it started, where its rounds were evaluated and why, and what keeps it from
    going on, if anything does.
    """
    node = running_node(place)
    if node is None:
        raise click.ClickException(f"no node runs on {place}{' on this machine' if place.is_on_server else ''}")
    with told():
        found = node.status()
    if as_json:
        show_json(found)
        return
    click.echo(f"running    since {found['started']}, process {found['pid']}")
    click.echo(f"processed  {counted(found['processed'], 'message')}, {found['waiting']:,} waiting")
    for where, name in (("inline", "beside the node"), ("spark", "on Spark")):
        rounds, messages = found["rounds"][where], found["messages"][where]
        click.echo(f"rounds     {rounds:,} {name} with {counted(messages, 'message')}")
    threshold = found["threshold"]
    shown = f"from {threshold:,} messages on" if threshold is not None else "not in use"
    click.echo(f"Spark      {found['pipeline']}: {shown} ({found['why']})")
    click.echo(f"fault      {found['fault'] or 'none'}")
