"""`demaq trace`: the whole conversation of a message, as a tree."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.parameters import COUNT
from demaq.cli.stores import (
    StoreOption,
    format_count,
    json_option,
    open_for_reading,
    parse_number,
    program_of,
    show_json,
    store_option,
    terminal_width,
)
from demaq.masking import mask_address
from demaq.operations.trace import Trace, TracedStore, TraceNode, trace_conversation
from demaq.store.location import StoreLocation
from demaq.store.protocol import Attempt

BODY_WIDTH_MIN = 16
STATES = {
    "waits": "waits",
    "to send": "waits to be sent",
    "timer": "timer",
    "not taken": "not taken yet",
    "processed": "processed",
    "unmatched": "processed, no rule reacted",
    "unstored": "came and went unstored, or was removed",
}


@click.command(
    cls=ExampleFirst,
    example="""
    $ demaq trace 8 --store orders
    1 orders, from outside at 2026-05-01 12:30:00.000, processed
      <order><orderID>17</orderID></order>
    └─ confirm → 3 customer +2 ms, processed
         <confirmation><orderID>17</orderID></confirmation>
         attempt 1 +9 ms: sent to http://customer.example/inbox, 202, 3 ms
    """,
)
@click.argument("message_id", metavar="ID")
@store_option
@click.option(
    "--also",
    "others",
    type=StoreOption(),
    multiple=True,
    metavar="STORE",
    help="The store of another node to which messages went, or from which they came; may be repeated.",
)
@click.option("--depth", default=50, show_default=True, type=COUNT, help="Show no more levels.")
@click.option("--max", "most", default=200, show_default=True, type=COUNT, help="Show at most so many messages.")
@json_option
def trace(
    message_id: str, place: StoreLocation, others: tuple[StoreLocation, ...], depth: int, most: int, as_json: bool
) -> None:
    """Show the conversation of a message: what caused it, and all that followed, as a tree."""
    seq = parse_number(message_id, "ID")
    with ExitStack() as stack:
        stores = [
            TracedStore(str(each), store, program_of(store))
            for each in dict.fromkeys((place, *others))
            for store in [stack.enter_context(open_for_reading(each))]
        ]
        found = trace_conversation(stores, seq, depth_max=depth, nodes_max=most)
    if as_json:
        show_json(_trace_json(found))
        return
    for line in _draw_tree(found, has_others=len(stores) > 1):
        click.echo(line)
    if found.left_out:
        click.echo(f"{format_count(found.left_out, 'message')} left out: --max and --depth show more", err=True)
    if not found.is_examined_whole:
        click.echo("there may be later messages whose causes are gone; they were not searched for", err=True)


def _trace_json(found: Trace) -> dict[str, object]:
    return {
        "messages": [_node_json(node) for node in found.nodes],
        "leftOut": found.left_out,
        "examinedWhole": found.is_examined_whole,
    }


def _node_json(node: TraceNode) -> dict[str, object]:
    return {
        "store": node.store,
        "id": str(node.seq),
        "name": node.name,
        "parent": node.parent,
        "depth": node.depth,
        "link": node.link,
        "rule": node.rule,
        "queue": node.queue,
        "state": node.state,
        "created": None if node.created is None else node.created.isoformat(),
        "text": node.text,
        "timer": None if node.timer is None else {"due": node.timer.due.isoformat(), "target": node.timer.target},
        "attempts": [
            {
                "number": each.number,
                "at": each.at.isoformat(),
                "seconds": each.seconds,
                "destination": mask_address(each.destination),
                "result": each.result,
                "status": each.status,
                "kind": each.kind,
                "reason": each.reason,
            }
            for each in node.attempts
        ],
        "replayOf": node.replay_of,
        "cameFrom": node.came_from,
        "asked": node.is_asked,
        "skipped": node.skipped,
        "leftOut": node.left_out,
    }


# --- the tree --------------------------------------------------------------------------------------------------------


def _draw_tree(found: Trace, *, has_others: bool) -> list[str]:
    """Return the lines of the tree. Each message has the strokes of those above it that are not the last ones."""
    nodes = found.nodes
    last_below: dict[int | None, int] = {node.parent: position for position, node in enumerate(nodes)}
    begin = next((node.created for node in nodes if node.created is not None), None)
    strokes: list[str] = []
    """By depth: what continues below a message of this depth, for those that follow it."""
    width = terminal_width()
    lines: list[str] = []
    for position, node in enumerate(nodes):
        is_last = last_below[node.parent] == position and not (node.parent is not None and nodes[node.parent].left_out)
        del strokes[max(node.depth - 1, 0) :]
        before = "".join(strokes)
        branch = "" if node.depth == 0 else "└─ " if is_last else "├─ "
        if node.depth > 0:
            strokes.append("   " if is_last else "│  ")
        under = "".join(strokes)
        has_children = position in last_below or node.left_out > 0
        detail = under + ("│    " if has_children else "     ") if node.depth or has_children else "  "
        head = _describe(node, begin, has_others=has_others)
        lines.append(before + branch + (click.style(head, bold=True) if node.is_asked else head))
        room = max(width - len(detail), BODY_WIDTH_MIN)
        body = [node.text if len(node.text) <= room else node.text[: room - 1] + "…"] if node.text else []
        lines += [detail + click.style(text, dim=True) for text in [*body, *_details(node, begin)]]
        lines += _left_out_lines(nodes, position, last_below)
    return lines


def _left_out_lines(nodes: tuple[TraceNode, ...], position: int, last_below: dict[int | None, int]) -> list[str]:
    """Return a line for each message whose branch ends here and that has caused more than is shown."""
    lines: list[str] = []
    following = nodes[position + 1].depth if position + 1 < len(nodes) else 0
    at: int | None = position
    while at is not None and nodes[at].depth >= following:
        node = nodes[at]
        if node.left_out and not (at == position and at in last_below):
            lines.append(_strokes_of(nodes, at, last_below) + f"└─ … {format_count(node.left_out, 'more message')}")
        at = node.parent
    return lines


def _strokes_of(nodes: tuple[TraceNode, ...], position: int, last_below: dict[int | None, int]) -> str:
    """Return the strokes before what is below a message."""
    strokes: list[str] = []
    at: int | None = position
    while at is not None and nodes[at].depth > 0:
        parent = nodes[at].parent
        is_last = last_below[parent] == at and not (parent is not None and nodes[parent].left_out)
        strokes.append("   " if is_last else "│  ")
        at = parent
    return "".join(reversed(strokes))


def _describe(node: TraceNode, begin: datetime | None, *, has_others: bool) -> str:
    queue = node.queue or "?"
    where = f" of {node.store}" if has_others and node.link in ("node", "outside") else ""
    message = f"{node.seq} {queue}{where}"
    match node.link:
        case "outside":
            head = f"{message}, from outside"
            head += "" if node.created is None else f" at {node.created:%Y-%m-%d %H:%M:%S.%f}"[:-3]
        case "rule":
            head = f"{node.rule} → {message}"
        case "error":
            head = f"error{f' of {node.rule}' if node.rule else ''} → {message}"
        case "unknown":
            between = f" {format_count(node.skipped, 'message')} between" if node.skipped else ""
            head = f"…{between} → {message}"
        case _:
            head = f"{node.link} → {message}"
    if node.link != "outside" and node.created is not None and begin is not None:
        head += f" {_format_after(begin, node.created)}"
    parts = [head, STATES[node.state]]
    parts += [f"runs {node.replay_of} again"] if node.replay_of else []
    return ", ".join(parts) + ("  ◀" if node.is_asked else "")


def _details(node: TraceNode, begin: datetime | None) -> list[str]:
    lines: list[str] = []
    if node.timer is not None:
        came = "comes" if node.state == "timer" else "came"
        lines.append(f"{came} back in {node.timer.target} at {node.timer.due:%Y-%m-%d %H:%M:%S}")
    if node.came_from is not None:
        lines.append(f"was message {node.came_from} of another node; --also STORE shows what led to it there")
    return lines + [_describe_attempt(attempt, begin) for attempt in node.attempts]


def _describe_attempt(attempt: Attempt, begin: datetime | None) -> str:
    words = {"sent": "sent to", "again": "failed, to be repeated, at", "failed": "given up at"}[attempt.result]
    after = "" if begin is None else f" {_format_after(begin, attempt.at)}"
    said = [f"{words} {mask_address(attempt.destination)}", attempt.status or "", f"{attempt.seconds * 1000:.0f} ms"]
    said += [attempt.kind or "", attempt.reason or ""]
    return f"attempt {attempt.number}{after}: " + ", ".join([each for each in said if each])


def _format_after(begin: datetime, at: datetime) -> str:
    seconds = (at - begin).total_seconds()
    if abs(seconds) < 10:
        return f"{seconds * 1000:+.0f} ms"
    if abs(seconds) < 600:
        return f"{seconds:+.1f} s"
    if abs(seconds) < 48 * 3600:
        return f"{seconds / 60:+.0f} min"
    return f"{seconds / 86400:+.1f} days"
