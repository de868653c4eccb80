"""`demaq status`: what a running node is doing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.stores import format_count, json_option, node_on, show_json, store_option
from demaq.store.location import StoreLocation

RESULTS = {"sent": "sent", "again": "tried again", "failed": "given up"}
"""What became of attempts, in words."""


@click.command(cls=ExampleFirst, example="$ demaq status --store orders")
@store_option
@json_option
def status(place: StoreLocation, as_json: bool) -> None:
    """Show what a running node is doing.

    How many messages it has processed since it started, where rules are evaluated and why, what its gateways have
    received and sent, and what keeps it from going on, if anything does.
    """
    found = node_on(place).status()
    if as_json:
        show_json(found)
        return
    click.echo(f"running    since {found['started']}, process {found['pid']}")
    click.echo(f"processed  {format_count(found['processed'], 'message')}, {found['waiting']:,} waiting")
    for where, name in (("inline", "in worker processes"), ("spark", "on Spark")):
        rounds, messages = found["rounds"][where], found["messages"][where]
        click.echo(f"rounds     {rounds:,} {name} with {format_count(messages, 'message')}")
    click.echo(f"Spark      {found['pipeline']}: {found['why']}")
    for each in found["executors"]:
        cores, tasks = format_count(each["cores"], "core"), format_count(each["tasks"], "task")
        click.echo(f"executor   {each['id']} on {each['host']}: {cores}, {tasks}")
    apart = found["apart"]
    if apart["queues"]:
        click.echo(f"apart      {format_count(apart['messages'], 'message')}; slow: {', '.join(apart['queues'])}")
    for pause in found["paused"]:
        why = f": {pause['why']}" if pause["why"] else ""
        waits = f", {format_count(pause['waiting'], 'message')} waiting" if pause["waiting"] else ""
        click.echo(f"paused     {pause['kind']} {pause['name']} by {pause['who']}{why}{waits}")
    for queue, count in sorted(found["unmatched"].items()):
        click.echo(f"unmatched  {queue}: {format_count(count, 'message')} that no rule has reacted to")
    for line in _native_lines(found["native"]):
        click.echo(line)
    for report in found["namespaces"]:
        click.echo(f"namespace  {report}")
    for line in _gateway_lines(found["gateways"]) if found["gateways"] is not None else []:
        click.echo(line)
    click.echo(f"fault      {found['fault'] or 'none'}")


def _native_lines(native: Mapping[str, Any]) -> Iterator[str]:
    """Yield how native rules fare, where there are any."""
    if native["answers"] or native["fallbacks"]:
        yield f"native     {format_count(native['answers'], 'message')}, {native['fallbacks']:,} left to Saxon"
    if native["checked"] or native["checks_failed"]:
        ended = "; there are no more, because one did not end" if native["checks_failed"] else ""
        yield f"checked    {format_count(native['checked'], 'answer')}, {native['differences']:,} different{ended}"
    for rule, reason in native["withdrawn"].items():
        yield f"left       {rule} to Saxon: {reason}"


def _gateway_lines(gateways: Mapping[str, Any]) -> Iterator[str]:
    mail = f"mail at {gateways['smtp']}" if gateways["smtp"] is not None else None
    where = ", ".join([place for place in (gateways["http"], mail) if place is not None])
    if where:
        yield f"gateways   at {where}"
    accepted, refused = gateways["accepted"], gateways["refused"]
    for queue in sorted({*gateways["requests"], *accepted, *refused}):
        yield f"received   {queue}: {_format_received(gateways, queue)}"
    for queue in sorted({*gateways["to_send"], *gateways["attempts"]}):
        waiting = gateways["to_send"].get(queue, {"messages": 0})["messages"]
        attempts = gateways["attempts"].get(queue, {})
        tried = ", ".join([f"{attempts.get(result, 0):,} {said}" for result, said in RESULTS.items()])
        yield f"sending    {queue}: {waiting:,} waiting, {tried}"
    for breaker in gateways["open_breakers"]:
        yield f"breaker    {breaker['queue']}: {breaker['peer']} is left alone for now"
    for queue, reason in gateways["left_out"].items():
        yield f"left out   {queue}: {reason}"


def _format_received(gateways: Mapping[str, Any], queue: str) -> str:
    refused = sum(gateways["refused"].get(queue, {}).values())
    counts = f"{format_count(gateways['accepted'].get(queue, 0), 'message')}, {refused:,} refused"
    requests = gateways["requests"].get(queue, {})
    by_status = ", ".join([f"{count:,} x {status}" for status, count in sorted(requests.items())])
    return f"{counts} ({by_status})" if by_status else counts
