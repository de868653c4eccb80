"""Draw panels of lines and bars as SVG: axes, direct labels, and nothing that has to be looked up in a legend.

Hand-written because it is little, and so that a picture needs nothing that Demaq does not have anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

WIDTH, HEIGHT = 470, 270
"""Of a panel."""
LEFT, RIGHT, TOP, BOTTOM = 52, 112, 50, 40
"""Room around what is plotted."""
LABEL_HEIGHT = 14
VALUE_WIDTH = 38
"""Room for a value between a bar and the mark of its target."""
INK, MUTED, GRID, AIM = "#1f2328", "#656d76", "#e4e7eb", "#b42318"
FONT = "Helvetica Neue, Helvetica, Arial, DejaVu Sans, sans-serif"
DECADES_WITH_STEPS = 1.6
"""An axis over fewer decades also names 2 and 5."""


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    colour: str
    value: float
    label: str
    """What follows it."""
    aim: float | None = None
    group: str = ""
    """What it is about; shown once for bars that follow each other."""


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    colour: str
    value: float


def text(
    x: float, y: float, words: str, size: int = 12, colour: str = INK, anchor: str = "start", bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"{weight}>'
        f"{escape(words)}</text>"
    )


def rule(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1, dashed: bool = False) -> str:
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width}"{dashes}/>'
    )


def draw_title(title: str, about: str) -> list[str]:
    return [text(0, 14, title, 14, bold=True), text(0, 31, about, 11, MUTED)]


def page(panels: Sequence[str], columns: int, title: str, lines: Sequence[str]) -> str:
    """Return a whole picture: panels in rows and columns, under a title."""
    margin, gap = 28, 26
    head = 40 + 16 * len(lines)
    rows = -(-len(panels) // columns)
    width = 2 * margin + columns * WIDTH + (columns - 1) * gap
    height = head + rows * (HEIGHT + gap) + margin
    parts = [text(margin, 36, title, 19, bold=True)]
    parts += [text(margin, 56 + 16 * number, line, 12, MUTED) for number, line in enumerate(lines)]
    for number, panel in enumerate(panels):
        x = margin + number % columns * (WIDTH + gap)
        y = head + 20 + number // columns * (HEIGHT + gap)
        parts.append(f'<g transform="translate({x} {y})">{panel}</g>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family={quoteattr(FONT)}>\n'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


# --- lines -----------------------------------------------------------------------------------------------------------


def lines_panel(
    title: str, about: str, lines: Sequence[Line], across: str, aim: tuple[float, str] | None = None
) -> str:
    """Return lines over a logarithmic axis, on a logarithmic axis, with their names where they end."""
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points] + ([aim[0]] if aim else [])
    x_axis, y_axis = _Axis(xs, LEFT, WIDTH - RIGHT, 0.0), _Axis(ys, HEIGHT - BOTTOM, TOP, 0.12)
    parts = draw_title(title, about)
    for tick in y_axis.ticks():
        parts.append(rule(LEFT, y_axis.at(tick), WIDTH - RIGHT, y_axis.at(tick), GRID))
        parts.append(text(LEFT - 7, y_axis.at(tick) + 4, short(tick), 11, MUTED, "end"))
    for tick in sorted({*xs}) if len({*xs}) <= 5 else x_axis.ticks():
        parts.append(text(x_axis.at(tick), HEIGHT - BOTTOM + 17, short(tick), 11, MUTED, "middle"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 5, across, 11, MUTED, "middle"))
    if aim is not None:
        parts.append(rule(LEFT, y_axis.at(aim[0]), WIDTH - RIGHT, y_axis.at(aim[0]), AIM, 1.2, dashed=True))
    labels: list[tuple[float, str, str]] = [(y_axis.at(aim[0]), aim[1], AIM)] if aim else []
    for line in lines:
        points = [(x_axis.at(x), y_axis.at(y)) for x, y in line.points]
        path = " ".join([f"{x:.1f},{y:.1f}" for x, y in points])
        dashes = ' stroke-dasharray="5 3"' if line.dashed else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2.2"{dashes}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{line.colour}"/>' for x, y in points]
        labels.append((points[-1][1], f"{line.name} {short(line.points[-1][1])}", line.colour))
    parts += [text(WIDTH - RIGHT + 9, y + 4, name, 11, colour) for y, name, colour in slow_messages(labels)]
    return "\n".join(parts)


class _Axis:
    """Logarithmic, from `start` to `end` on the picture."""

    def __init__(self, values: Sequence[float], start: float, end: float, margin: float) -> None:
        least, most = math.log10(max(min(values), 1e-9)), math.log10(max(*values, 1e-9))
        room = max((most - least) * margin, (0.15 if margin else 0.0))
        self._least, self._most = least - room, max(most + room, least + 1e-6)
        if margin:
            self._least = min(self._least, most - 0.9)  # what is flat shall look flat
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        share = (math.log10(value) - self._least) / (self._most - self._least)
        return self._start + share * (self._end - self._start)

    def ticks(self) -> list[float]:
        steps = (1, 2, 5) if self._most - self._least < DECADES_WITH_STEPS else (1,)
        decades = range(math.floor(self._least), math.ceil(self._most) + 1)
        found = [step * 10.0**decade for decade in decades for step in steps]
        return [tick for tick in found if self._least - 1e-9 <= math.log10(tick) <= self._most + 1e-9]


def slow_messages(labels: Iterable[tuple[float, str, str]]) -> list[tuple[float, str, str]]:
    """Labels moved so far that none lies on another."""
    placed: list[tuple[float, str, str]] = []
    for y, name, colour in sorted(labels):
        free = placed[-1][0] + LABEL_HEIGHT if placed else y
        placed.append((max(y, free), name, colour))
    over = placed[-1][0] - (HEIGHT - BOTTOM) if placed else 0.0
    if over > 0:  # the lowest would leave the panel: all that stand close move up with it
        for number in range(len(placed) - 1, -1, -1):
            y, name, colour = placed[number]
            limit = HEIGHT - BOTTOM - LABEL_HEIGHT * (len(placed) - 1 - number)
            placed[number] = (min(y, limit), name, colour)
    return placed


def short(value: float) -> str:
    """1k, 250, 0.05."""
    for limit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= limit * 0.9995:
            return f"{float(f'{value / limit:.2g}') if value < 100 * limit else value / limit:g}{letter}"
    return f"{float(f'{value:.2g}'):g}" if value < 100 else f"{value:.0f}"


# --- bars ------------------------------------------------------------------------------------------------------------


def bars_panel(title: str, about: str, bars: Sequence[Bar]) -> str:
    """Bars from 0, each with its value, and a mark where it is to be."""
    names = 148
    most = max([max(bar.value, bar.aim or 0.0) for bar in bars]) or 1.0
    width = WIDTH - names - 74
    room = (HEIGHT - TOP - 10) / max(len(bars), 4)
    height = min(22.0, room * 0.7)
    parts = draw_title(title, about)
    parts.append(rule(names, TOP - 4, names, TOP + room * len(bars), GRID))
    for number, bar in enumerate(bars):
        y = TOP + number * room + (room - height) / 2
        middle = y + height / 2 + 4
        if bar.group and (number == 0 or bars[number - 1].group != bar.group):
            parts.append(text(0, middle, bar.group, 12, INK, bold=True))
        length = width * bar.value / most
        parts.append(text(names - 8, middle, bar.name, 11, MUTED, "end"))
        parts.append(_rectangle(names, y, length, height, bar.colour))
        beyond = length
        if bar.aim is not None:
            x = names + width * bar.aim / most
            parts.append(rule(x, y - 3, x, y + height + 3, AIM, 2))
            if number == 0 or bars[number - 1].group != bar.group:
                parts.append(
                    text(x + 6, middle if x - names - length > VALUE_WIDTH else y - 4, f"target {bar.aim:g}", 10, AIM)
                )
            beyond = max(beyond, x - names) if -8 < x - names - length <= VALUE_WIDTH else beyond
        parts.append(text(names + beyond + 7, middle, bar.label, 11, INK))
    return "\n".join(parts)


def stacks_panel(title: str, about: str, stacks: Sequence[tuple[str, Sequence[Part]]]) -> str:
    """Bars that are made of parts, whose names stand below in the same colours."""
    names = 40
    most = max([sum([part.value for part in parts]) for _, parts in stacks]) or 1.0
    width = WIDTH - names - 60
    room = (HEIGHT - TOP - 6) / max(len(stacks), 3)
    drawn = draw_title(title, about)
    for number, (name, parts) in enumerate(stacks):
        y, x = TOP + number * room, float(names)
        drawn.append(text(0, y + 18, name, 12, INK, bold=True))
        for part in parts:
            length = width * part.value / most
            drawn.append(_rectangle(x, y + 2, max(length - 1, 0.5), 22, part.colour))
            x += length
        drawn.append(text(x + 6, y + 18, f"{sum([part.value for part in parts]):,.0f}", 12, INK, bold=True))
        drawn += _draw_legend(parts, names, y + 39)
    return "\n".join(drawn)


def _draw_legend(parts: Sequence[Part], left: float, y: float) -> list[str]:
    """Return names and values side by side, on as many lines as they need."""
    found: list[str] = []
    x = left
    for part in parts:
        words = f"{part.name} {part.value:,.0f}"
        width = 5.4 * len(words) + 26
        if x + width > WIDTH:
            x, y = left, y + LABEL_HEIGHT
        found.append(_rectangle(x, y - 8, 8, 8, part.colour))
        found.append(text(x + 12, y, words, 10, MUTED))
        x += width
    return found


def _rectangle(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}" rx="1.5"/>'
