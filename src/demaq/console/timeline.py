"""A slice on a time line, as SVG: a lane for each queue, a mark for each message, a band for each lifetime.

The scale is that of the messages. Now and pending timers, which may be days ahead, stand right of it in their order.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from markupsafe import Markup

from demaq.console.page_templates import format_age
from demaq.operations.slice_history import Lifetime, SliceHistory

WIDTH, LANE, TOP, LEFT, RIGHT = 1040, 30, 38, 170, 30
AHEAD = 190
"""The room for what is ahead."""
TIMERS_SHOWN = 3
TICKS = 4
NAME_LETTERS = 22
NAME_WIDTH = 70


class _Scale:
    def __init__(self, start: datetime, end: datetime) -> None:
        self.start = start
        self.seconds = max((end - start) / timedelta(seconds=1), 0.001)
        self.right = WIDTH - RIGHT - AHEAD

    def place(self, time: datetime) -> float:
        return LEFT + (time - self.start) / timedelta(seconds=1) / self.seconds * (self.right - LEFT)

    def format(self, time: datetime) -> str:
        if self.seconds < 5:
            return f"{time:%H:%M:%S}.{time.microsecond // 1000:03}"
        pattern = "%H:%M:%S" if self.seconds < 86_400 else "%m-%d %H:%M" if self.seconds < 30 * 86_400 else "%Y-%m-%d"
        return f"{time:{pattern}}"


def draw_timeline(history: SliceHistory, now: datetime) -> Markup | None:
    """Return the picture; None if there is nothing to show."""
    members = [member for lifetime in history.lifetimes for member in lifetime.members]
    if not members:
        return None
    queues = list(dict.fromkeys([member.queue for member in members]))
    times = [member.created for member in members]
    times += [lifetime.ended_at for lifetime in history.lifetimes if lifetime.ended_at is not None]
    scale = _Scale(min(times), max(times))
    lanes = [*queues, *(["timers"] if history.timers else [])]
    height = TOP + LANE * len(lanes) + 34
    begin = Markup('<svg class="timeline" viewBox="0 0 {} {}" role="img" aria-label="Time line of the slice">')
    drawn = [begin.format(WIDTH, height), *_draw_lifetimes(history, scale, LANE * len(lanes) + 12)]
    for row, name in enumerate(lanes):
        y = TOP + LANE * row + LANE / 2
        drawn.append(Markup('<line class="lane" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(LEFT, WIDTH - RIGHT, y, y))
        drawn.append(Markup('<text class="lane-name" x="{}" y="{}">{}</text>').format(LEFT - 18, y + 4, _cut(name)))
    for member in members:
        mark = Markup(
            '<a href="/console/messages/{0}" aria-label="message {0}">'
            '<circle class="member {1}" cx="{2}" cy="{3}" r="6">'
            "<title>message {0} in {4}, {5}</title></circle></a>"
        )
        kind = "processed" if member.is_processed else "waiting"
        x, y = scale.place(member.created), TOP + LANE * queues.index(member.queue) + LANE / 2
        drawn.append(mark.format(member.seq, kind, f"{x:.1f}", y, member.queue, f"{member.created:%Y-%m-%d %H:%M:%S}"))
    for number in range(TICKS + 1):
        time = scale.start + timedelta(seconds=scale.seconds * number / TICKS)
        tick = Markup('<text class="tick" x="{}" y="{}">{}</text>')
        drawn.append(tick.format(f"{scale.place(time):.1f}", height - 10, scale.format(time)))
    drawn += _draw_ahead(history, scale, now, height, TOP + LANE * (len(lanes) - 1) + LANE / 2)
    return Markup("").join([*drawn, Markup("</svg>")])


def _draw_lifetimes(history: SliceHistory, scale: _Scale, height: int) -> list[Markup]:
    drawn: list[Markup] = []
    name_end = 0.0
    for number, lifetime in enumerate(history.lifetimes):
        if not lifetime.members:
            continue
        x, right = _span(lifetime, scale)
        kind = "current" if lifetime.ended is None else "ended"
        band = Markup('<rect class="lifetime {}" x="{}" y="{}" width="{}" height="{}" rx="6"/>')
        drawn.append(band.format(kind, f"{x:.1f}", TOP - 8, f"{right - x:.1f}", height))
        if x >= name_end:
            text = "current" if lifetime.ended is None else f"lifetime {number + 1}"
            drawn.append(
                Markup('<text class="lifetime-name" x="{}" y="{}">{}</text>').format(f"{x:.1f}", TOP - 14, text)
            )
            name_end = x + NAME_WIDTH
    return drawn


def _span(lifetime: Lifetime, scale: _Scale) -> tuple[float, float]:
    first, last = lifetime.members[0].created, lifetime.members[-1].created
    until = (
        WIDTH - RIGHT - AHEAD / 2 if lifetime.ended is None else scale.place(max(last, lifetime.ended_at or last)) + 9
    )
    return scale.place(first) - 9, until


def _draw_ahead(history: SliceHistory, scale: _Scale, now: datetime, height: int, lane: float) -> list[Markup]:
    """Return now, and timers after it, each with how long it is until then."""
    middle = scale.right + 62
    line = Markup(
        '<line class="now" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/><text class="tick" x="{0}" y="{3}">now</text>'
    )
    drawn = [line.format(middle, TOP - 8, height - 26, height - 10)]
    step = (WIDTH - RIGHT - middle) / (TIMERS_SHOWN + 0.5)
    for number, timer in enumerate(history.timers[:TIMERS_SHOWN]):
        x = middle + step * (number + 1)
        points = f"{x:.1f},{lane - 7} {x + 7:.1f},{lane} {x:.1f},{lane + 7} {x - 7:.1f},{lane}"
        mark = Markup(
            '<a href="/console/messages/{0}" aria-label="timer {0}"><polygon class="timer" points="{1}">'
            "<title>message {0} comes back in {2} {3}</title></polygon></a>"
        )
        drawn.append(mark.format(timer.seq, points, timer.target, format_age(timer.due, now)))
        if number == 0 or len(history.timers) == 2:
            text = format_age(timer.due, now).removeprefix("in ")
            drawn.append(Markup('<text class="due" x="{}" y="{}">{}</text>').format(f"{x:.1f}", height - 10, text))
    return drawn


def _cut(name: str) -> str:
    return name if len(name) <= NAME_LETTERS else f"{name[: NAME_LETTERS - 1]}…"
