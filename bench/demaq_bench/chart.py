"""The figures of `demaq bench` as one picture: a panel for whatever was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from demaq.errors import OperatorError
from demaq_bench import (
    backlog,
    breakdown,
    gateway_load,
    latency,
    lookups,
    message_sizes,
    retained,
    rules_per_queue,
    soap_load,
    throughput,
)
from demaq_bench.contestant import BASELINES
from demaq_bench.drawing import Bar, Line, Part, bars_panel, lines_panel, page, stacks_panel
from demaq_bench.figures import Figure
from demaq_bench.processes import ROLES

COLUMNS = 2
PNG_ZOOM = 2
MEMORY_AIM = 2_000
"""MB for each process that evaluates or drives."""
BLUE, ORANGE, GREY, GREEN, PURPLE = "#2563c9", "#d2691e", "#8a929c", "#2e8b57", "#7d4fb3"
PART_COLOURS = {
    "evaluate": "#2563c9",
    "receive": "#d2691e",
    "commit": "#2e8b57",
    "store arrivals": "#7fbf9a",
    "read": "#7d4fb3",
    "validate and build": "#e0a83f",
    "garbage": "#8a929c",
}


class CannotDraw(OperatorError):
    """A picture of that kind cannot be made here."""


def expect_writable(file: Path) -> None:
    """Before anything is measured. Raises CannotDraw."""
    if file.suffix not in (".svg", ".png"):
        raise CannotDraw(f"{file} is neither .svg nor .png")
    if not file.absolute().parent.is_dir():
        raise CannotDraw(f"there is no folder {file.parent}")
    if file.suffix == ".png":
        try:
            import resvg_py  # noqa: F401
        except ImportError:
            raise CannotDraw(
                "pictures as .png need the package resvg-py: pip install 'demaq[bench]'; or draw .svg"
            ) from None


def write_chart(figures: Sequence[Figure], facts: Mapping[str, str | int], file: Path) -> None:
    drawn = chart(figures, facts)
    if file.suffix == ".svg":
        file.write_text(drawn, encoding="utf-8")
        return
    import resvg_py

    file.write_bytes(bytes(resvg_py.svg_to_bytes(svg_string=drawn, zoom=PNG_ZOOM)))


def chart(figures: Sequence[Figure], facts: Mapping[str, str | int]) -> str:
    """SVG."""
    panels = [panel for make in PANELS if (panel := make(figures)) is not None]
    versions = f"Python {facts['python']}, Saxon {facts['saxon']}, Spark {facts['spark']}, SQLite {facts['sqlite']}"
    lines = [f"{facts['cores']} cores, {versions}. Medians. Red marks are targets."]
    found = [figure for figure in figures if figure.group == latency.GROUP]
    if found:
        inline = [figure for figure in found if figure.at["system"] == "node, inline"]
        times = ", ".join([f"{figure.name} {figure.value:.1f} ms" for figure in inline])
        lines.append(f"One message through three steps in an idle node: {times} (target: p50 {found[0].target} ms).")
    return page(panels, COLUMNS, "Demaq compared with hand-written code", lines)


# --- panels ----------------------------------------------------------------------------------------------------------


def _ratios(figures: Sequence[Figure]) -> str | None:
    """Speed relative to hand-written code."""
    bars = [
        _ratio_bar(figure)
        for figure in _of(figures, throughput.GROUP, throughput.RATIO)
        if figure.at["per_commit"] == throughput.PER_COMMIT_AIM
    ]
    look_ups = [
        each
        for each in _of(figures, lookups.GROUP, throughput.RATIO)
        if each.at["per_commit"] == throughput.PER_COMMIT_AIM
    ]
    most = max([figure.at["invoices"] for figure in look_ups], default=0)
    bars += [_ratio_bar(figure) for figure in look_ups if figure.at["invoices"] == most]
    about = f"100 messages per commit; W3 among {most:,} invoices" if most else "100 messages per commit"
    return bars_panel("Speed, hand-written code = 1", about, bars) if bars else None


def _ratio_bar(figure: Figure) -> Bar:
    system = str(figure.at["system"])
    aim = float(figure.target.removeprefix("at least ")) if figure.target else None
    return Bar(system, _colour(system), figure.value, f"{figure.value:.2f}", aim, str(figure.at["workload"]))


def _speeds(figures: Sequence[Figure]) -> str | None:
    bars: list[Bar] = []
    for figure in _of(figures, throughput.GROUP, throughput.SPEED):
        if figure.at["per_commit"] == throughput.PER_COMMIT_AIM:
            system = str(figure.at["system"])
            bars.append(
                Bar(system, _colour(system), figure.value, f"{figure.value:,.0f}", group=str(figure.at["workload"]))
            )
    return bars_panel("Messages in a second", "100 messages per commit", bars) if bars else None


def _look_ups(figures: Sequence[Figure]) -> str | None:
    mine = [
        each for each in _of(figures, lookups.GROUP, lookups.COST) if each.at["per_commit"] == throughput.PER_COMMIT_AIM
    ]
    return _lines(
        "W3: a look-up among many invoices", "ms, 100 messages per commit", mine, "invoices", "invoices in the queue"
    )


def _backlog(figures: Sequence[Figure]) -> str | None:
    mine = _of(figures, backlog.BACKLOG, backlog.SPEED)
    return _lines("W1: a backlog when the node starts", "steps/s", mine, "waiting", "messages waiting")


def _memory(figures: Sequence[Figure]) -> str | None:
    """On Spark, where it was measured there: more processes take part."""
    colours = dict(zip(ROLES, (BLUE, PURPLE, GREY, ORANGE), strict=True))
    systems = list(dict.fromkeys([str(each.at["system"]) for each in _of(figures, backlog.BACKLOG, backlog.SPEED)]))
    lines: list[Line] = []
    for role, colour in colours.items():
        measured = _of(figures, backlog.BACKLOG, f"memory, {role}")
        mine = [each for each in measured if each.at["system"] == systems[-1] and each.value]
        if mine:
            lines.append(Line(role, colour, [(float(each.at["waiting"]), each.value) for each in mine]))
    if not lines:
        return None
    about = f"most MB of a process; {systems[-1]}"
    return lines_panel(
        "Memory while a backlog is worked off", about, lines, "messages waiting", (MEMORY_AIM, "limit 2 GB")
    )


def _retained(figures: Sequence[Figure]) -> str | None:
    mine = _of(figures, retained.GROUP, retained.COST)
    return _lines(
        "A message among many that are retained",
        "µs for each step, groups of 40",
        mine,
        "retained",
        "messages retained",
    )


def _rules(figures: Sequence[Figure]) -> str | None:
    mine = _of(figures, rules_per_queue.GROUP, rules_per_queue.COST)
    return _lines("Rules on one queue, one of which fires", "µs for each step", mine, "rules", "rules")


def _sizes(figures: Sequence[Figure]) -> str | None:
    mine = _of(figures, message_sizes.GROUP, message_sizes.COST)
    return _lines("W1 by the size of messages", "µs for each, 100 per commit", mine, "bytes", "bytes in a message")


def _cores(figures: Sequence[Figure]) -> str | None:
    bars = [
        Bar(
            str(figure.at["system"]).removeprefix("node, "),
            _colour(str(figure.at["system"])),
            figure.value,
            f"{figure.value:,.0f}",
            group=str(figure.at["workload"]),
        )
        for figure in _of(figures, backlog.CORES, backlog.SPEED)
    ]
    return bars_panel("One core and two", "steps/s while a backlog of W2 is worked off", bars) if bars else None


def _steps(figures: Sequence[Figure]) -> str | None:
    stacks = [
        (str(figure.at["workload"]), [Part(name, PART_COLOURS.get(name, GREY), value) for name, value in figure.parts])
        for figure in _of(figures, breakdown.GROUP, "time")
    ]
    return stacks_panel("Where the time of a step goes", "µs, one part after the other", stacks) if stacks else None


def _gateway_ratios(figures: Sequence[Figure]) -> str | None:
    bars = [
        Bar(
            f"{figure.at['connections']} connections",
            BLUE,
            figure.value,
            f"{figure.value:.2f}",
            gateway_load.RATIO_TARGET,
            _kilobytes(figure),
        )
        for figure in _of(figures, gateway_load.ACCEPTING, gateway_load.RATIO)
        if figure.at["system"] == gateway_load.NODE
    ]
    about = "requests accepted in a second, without rules"
    return bars_panel("HTTP, a hand-written handler = 1", about, bars) if bars else None


def _gateway_speeds(figures: Sequence[Figure]) -> str | None:
    colours = {gateway_load.NODE: BLUE, gateway_load.NODE_WITH_RULES: ORANGE, gateway_load.HAND_WRITTEN: GREY}
    speeds = [
        figure
        for figure in _of(figures, gateway_load.ACCEPTING, gateway_load.SPEED)
        if str(figure.at["system"]) in colours
    ]
    most = max([int(figure.at["connections"]) for figure in speeds], default=0)
    bars: list[Bar] = []
    for figure in speeds:
        if figure.at["connections"] == most:
            system = str(figure.at["system"])
            bars.append(Bar(system, colours[system], figure.value, f"{figure.value:,.0f}", group=_kilobytes(figure)))
    return bars_panel("Requests accepted in a second", f"{most} connections", bars) if bars else None


def _soap_costs(figures: Sequence[Figure]) -> str | None:
    colours = dict(
        zip([protocol.name for protocol in soap_load.PROTOCOLS], (GREY, BLUE, ORANGE, GREEN, PURPLE), strict=True)
    )
    costs = _of(figures, soap_load.GROUP, soap_load.NODE_CPU)
    bars = [
        Bar(
            str(figure.at["system"]),
            colours[str(figure.at["system"])],
            figure.value,
            f"{figure.value:,.0f}",
            group=_connections(figure),
        )
        for figure in costs
    ]
    return bars_panel("CPU time of the node for a request", "µs, plain XML and SOAP, 1 KB", bars) if bars else None


def _connections(figure: Figure) -> str:
    count = figure.at["connections"]
    return f"{count} connection" + "s" * (count != 1)


def _kilobytes(figure: Figure) -> str:
    return f"{float(figure.at['bytes']) / 1000:g} KB"


PANELS: tuple[Callable[[Sequence[Figure]], str | None], ...] = (
    _ratios,
    _speeds,
    _look_ups,
    _steps,
    _backlog,
    _memory,
    _retained,
    _rules,
    _sizes,
    _cores,
    _gateway_ratios,
    _gateway_speeds,
    _soap_costs,
)


def _of(figures: Sequence[Figure], group: str, name: str) -> list[Figure]:
    return [figure for figure in figures if figure.group == group and figure.name == name]


def _lines(title: str, about: str, figures: Sequence[Figure], key: str, across: str) -> str | None:
    """Return a line for each system."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for figure in figures:
        lines.setdefault(str(figure.at["system"]), []).append((float(figure.at[key]), figure.value))
    if not lines:
        return None
    drawn = [Line(_line_name(system), _colour(system), points) for system, points in lines.items()]
    return lines_panel(title, about, drawn, across)


_LINE_NAMES = {
    "looks at its slice": "its slice",
    "looks up by a key": "by a key",
    "selected by an element": "by element",
    "selected by a value": "by value",
}


def _line_name(system: str) -> str:
    last = system.split(", ")[-1]
    return _LINE_NAMES.get(last, last)


def _colour(system: str) -> str:
    if system in BASELINES:
        return GREY
    if "local[1]" in system:
        return "#e9b48a"
    return ORANGE if any([word in system for word in ("auto", "spark", "key", "value")]) else BLUE
