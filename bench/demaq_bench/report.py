"""Figures as tables to read: systems below each other, sizes side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from demaq_bench import (
    backlog,
    breakdown,
    conflicts,
    gateway_load,
    latency,
    lookups,
    message_sizes,
    retained,
    rules_per_queue,
    soap_load,
    start,
    throughput,
)
from demaq_bench.contestant import FUSED, FUSED_POOL
from demaq_bench.figures import Figure
from demaq_bench.processes import ROLES

Column = str | int | float


@dataclass(frozen=True, slots=True)
class _Table:
    title: str
    group: str
    name: str
    across: str
    """What is side by side."""
    heading: Callable[[Column], str]
    decimals: int = 0
    ratio: str = ""
    """A figure of the same place that follows the value."""
    below: tuple[str, ...] = ("system",)
    """What is below each other."""


def _format_connections(count: Column) -> str:
    return f"{count:,} connection" + "s" * (count != 1)


def _format_per_commit(count: Column) -> str:
    return f"{count:,} per commit"


TABLES = (
    _Table(
        "messages/s, and compared with hand-written code",
        throughput.GROUP,
        throughput.SPEED,
        "per_commit",
        _format_per_commit,
        ratio=throughput.RATIO,
        below=("workload", "system"),
    ),
    *[
        _Table(title, throughput.GROUP, name, "per_commit", _format_per_commit, decimals, below=("workload", "system"))
        for title, name, decimals in (
            ("compared with hand-written code that fuses", throughput.RATIOS[FUSED], 2),
            ("the same with 2 evaluator processes", throughput.RATIOS[FUSED_POOL], 2),
            ("with namespaces and more, compared with the same node without", throughput.PLAIN_RATIO, 2),
            ("on Spark, compared with a node inline", throughput.INLINE_RATIO, 2),
            ("µs of CPU for a message, the process that stores it", throughput.OWN_CPU, 0),
            ("µs of CPU for a message, all processes that it has started", throughput.OTHER_CPU, 0),
            ("bytes written for a message", throughput.WRITTEN, 0),
        )
    ],
    _Table(
        "W3: ms for a look-up, and compared with hand-written code",
        lookups.GROUP,
        lookups.COST,
        "invoices",
        lambda n: f"{n:,} invoices",
        3,
        throughput.RATIO,
        ("per_commit", "system"),
    ),
    _Table("conflicts, ms for a message", conflicts.GROUP, conflicts.COST, "messages", lambda n: f"{n:,} messages", 2),
    _Table("a backlog worked off, steps/s", backlog.BACKLOG, backlog.SPEED, "waiting", lambda n: f"{n:,} waiting"),
    *[
        _Table(
            f"most memory of a process ({role}) meanwhile, MB",
            backlog.BACKLOG,
            f"memory, {role}",
            "waiting",
            lambda n: f"{n:,} waiting",
        )
        for role in ROLES
    ],
    _Table(
        "among retained messages, µs for each step",
        retained.GROUP,
        retained.COST,
        "retained",
        lambda n: f"{n:,} retained",
    ),
    _Table(
        "rules on one queue, µs for each step",
        rules_per_queue.GROUP,
        rules_per_queue.COST,
        "rules",
        lambda n: f"{n:,} rule" + "s" * (n != 1),
    ),
    _Table(
        "W1 by the size of messages, µs for each, and compared with hand-written code",
        message_sizes.GROUP,
        message_sizes.COST,
        "bytes",
        lambda n: f"{float(n) / 1000:.1f} KB",
        ratio=throughput.RATIO,
    ),
    _Table("one core and two, steps/s", backlog.CORES, backlog.SPEED, "workload", str),
    _Table(
        "requests/s accepted over HTTP, and compared with a hand-written handler",
        gateway_load.ACCEPTING,
        gateway_load.SPEED,
        "connections",
        _format_connections,
        ratio=gateway_load.RATIO,
        below=("bytes", "system"),
    ),
    *[
        _Table(
            f"{percentile} of a request, ms",
            gateway_load.ACCEPTING,
            percentile,
            "connections",
            _format_connections,
            1,
            below=("bytes", "system"),
        )
        for percentile in (gateway_load.P50, gateway_load.P99)
    ],
    *[
        _Table(title, soap_load.GROUP, name, "connections", _format_connections, decimals, ratio)
        for title, name, decimals, ratio in (
            ("requests/s accepted by SOAP, and compared with plain XML", gateway_load.SPEED, 0, gateway_load.RATIO),
            ("µs of the node's CPU for a request, plain XML = 1", soap_load.NODE_CPU, 0, soap_load.CPU_RATIO),
            ("µs of the client's CPU for a request", soap_load.CLIENT_CPU, 0, ""),
            (f"{gateway_load.P50} of a request, ms", gateway_load.P50, 1, ""),
            (f"{gateway_load.P99} of a request, ms", gateway_load.P99, 1, ""),
        )
    ],
    _Table("s until ready, which is not counted", "start", "ready", "workload", str, 1),
    _Table("s of a command until then", start.GROUP, "seconds", "application", str, 2),
    _Table("s of CPU of all its processes until then", start.GROUP, "CPU", "application", str, 2),
)
"""In the order in which they are shown."""


def tables(figures: Sequence[Figure]) -> Iterator[str]:
    """Yield lines of text."""
    for table in TABLES:
        rows = _rows(table, figures)
        if rows:
            yield ""
            yield from _align([table.title, *rows[0]], rows[1:])
    yield from _latency(figures)
    yield from _conversations(figures)
    yield from _steps(figures)
    yield from _targets(figures)


def _rows(table: _Table, figures: Sequence[Figure]) -> list[list[str]]:
    """Headings, then for each row its name and cells."""
    mine = [figure for figure in figures if figure.group == table.group and table.across in figure.at]
    cells: dict[str, dict[Column, str]] = {}
    columns: dict[Column, None] = {}
    ratios = {tuple(figure.at.items()): figure.value for figure in mine if figure.name == table.ratio}
    for figure in mine:
        if figure.name == table.name:
            column = figure.at[table.across]
            ratio = ratios.get(tuple(figure.at.items()))
            text = f"{figure.value:,.{table.decimals}f}"
            columns[column] = None
            name = ", ".join([_format_value(key, figure.at[key]) for key in table.below])
            cells.setdefault(name, {})[column] = text if ratio is None else f"{text} ({ratio:.2f})"
    if not cells:
        return []
    rows = [[name, *[found.get(column, "") for column in columns]] for name, found in cells.items()]
    return [[table.heading(column) for column in columns], *rows]


def _format_value(key: str, value: Column) -> str:
    match key:
        case "per_commit":
            return f"{value:,} per commit"
        case "bytes":
            return f"{float(value) / 1000:g} KB"
        case "connections":
            return f"{value:,} connections"
    return str(value)


def _align(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    title, *columns = headings
    first = max([len(title), *[len(row[0]) + 2 for row in rows]])
    widths = [max([len(column), *[len(row[n + 1]) for row in rows]]) for n, column in enumerate(columns)]
    yield "  ".join([title.ljust(first), *[text.rjust(width) for text, width in zip(columns, widths, strict=True)]])
    for name, *cells in rows:
        line = [f"  {name}".ljust(first), *[cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]]
        yield "  ".join(line).rstrip()


def _latency(figures: Sequence[Figure]) -> Iterator[str]:
    mine = [figure for figure in figures if figure.group == latency.GROUP]
    if mine:
        yield ""
        yield f"one message through {latency.STEPS} steps in an idle node"
    for system in dict.fromkeys([figure.at["system"] for figure in mine]):
        latencies = [f"{each.name} {each.value:.1f} ms" for each in mine if each.at["system"] == system]
        yield f"  {system}: {', '.join(latencies)}"


def _conversations(figures: Sequence[Figure]) -> Iterator[str]:
    mine = [figure for figure in figures if figure.group == gateway_load.CONVERSATION]
    if mine:
        yield ""
        yield "a conversation of three steps over HTTP, one after the other"
    for system in dict.fromkeys([figure.at["system"] for figure in mine]):
        latencies = [f"{each.name} {each.value:.1f} ms" for each in mine if each.at["system"] == system]
        yield f"  {system}: {', '.join(latencies)}"


def _steps(figures: Sequence[Figure]) -> Iterator[str]:
    mine = [figure for figure in figures if figure.group == breakdown.GROUP]
    if mine:
        yield ""
        yield "where the time of a step goes, µs"
    for figure in mine:
        parts = ", ".join([f"{name} {value:,.0f}" for name, value in figure.parts])
        yield f"  {figure.at['workload']} {figure.value:,.0f} = {parts}"


def _targets(figures: Sequence[Figure]) -> Iterator[str]:
    """Yield a table in Markdown of all figures that have a target."""
    mine = [figure for figure in figures if figure.is_reached is not None]
    if mine:
        yield ""
        yield "| | measured | target | |"
        yield "| --- | --- | --- | --- |"
    for figure in mine:
        where = [_place(key, value) for key, value in figure.at.items() if key in _PLACES]
        verdict = "reached" if figure.is_reached else "not reached"
        unit = f" {figure.unit}" if figure.unit else ""
        about = ", ".join([figure.group, *where, figure.name])
        yield f"| {about} | {figure.value:,.2f}{unit} | {figure.target} | {verdict} |"


_PLACES = ("workload", "system", "application", "per_commit", "invoices", "bytes", "connections", "waiting")


def _place(key: str, value: Column) -> str:
    return f"{value:,} {key}" if key in ("invoices", "waiting") else _format_value(key, value)
