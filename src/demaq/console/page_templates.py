"""Write pages of templates. Everything that comes from a message or a program is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from demaq.console.access import User
from demaq.console.visits import TEMPLATES, Visit, link_to

if TYPE_CHECKING:
    from demaq.console.node_monitor import NodeState

SECTIONS = (
    ("Flow", "/console", "f"),
    ("Messages", "/console/messages", "m"),
    ("Slices", "/console/slices", "s"),
    ("Errors", "/console/errors", "e"),
    ("Deliveries", "/console/deliveries", "d"),
    ("Timers", "/console/timers", "t"),
    ("Plans", "/console/plans", "p"),
    ("Rounds", "/console/rounds", "r"),
    ("Audit", "/console/audit", "a"),
)
"""Name, address and key of each section; `g` and then the key goes there."""
PAGES_OF_SECTIONS = {
    "/console/requeue": "/console/errors",
    "/console/notable-slices": "/console/slices",
    "/console/search": "/console/messages",
}
"""Pages that belong to a section whose address does not begin theirs."""

RANGES_SHOWN = 10


def render(template: str, values: Mapping[str, Any], user: User | None, path: str, visit: Visit | None = None) -> str:
    """Return a page."""
    node: NodeState | None = visit.monitor.read() if visit is not None else None
    known = {
        "user": user,
        "path": path,
        "sections": SECTIONS,
        "current": find_section(path),
        "visit": visit,
        "node": node,
        "now": datetime.now(UTC),
    }
    return _environment.get_template(template).render({**known, **values})


def find_section(path: str) -> str:
    """Return the address of the section that a page belongs to; empty if it belongs to none. The first is one page."""
    found = [address for _, address, _ in SECTIONS[1:] if _is_below(PAGES_OF_SECTIONS.get(path, path), address)]
    return found[0] if found else path if path == SECTIONS[0][1] else ""


def format_time(time: datetime | None) -> str:
    return "" if time is None else f"{time:%Y-%m-%d %H:%M:%S}"


def format_age(then: datetime | None, now: datetime) -> str:
    """Return how long ago something was, or how long until it comes."""
    if then is None:
        return ""
    passed = (now - then) / timedelta(seconds=1)
    text = format_duration(abs(passed))
    return f"{text} ago" if passed >= 0 else f"in {text}"


def format_duration(seconds: float) -> str:
    """Return a duration in its largest unit."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for limit, divisor, unit in ((100, 1, "s"), (6000, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / divisor:.3g} {unit}"
    return f"{seconds / 86_400:,.0f} days"


def format_rate(rate: float | None) -> str:
    if rate is None:
        return "\N{EN DASH}"
    return "0" if rate == 0 else f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def format_ranges(ranges: Sequence[Sequence[int]]) -> str:
    """Return numbers of messages such as `1-3, 5`, the last RANGES_SHOWN of them."""
    shown = [f"{low}-{high}" if low != high else str(low) for low, high in ranges[-RANGES_SHOWN:]]
    return ", ".join([*["…"][: len(ranges) > RANGES_SHOWN], *shown]) or "none"


def shorten(text: str, length: int = 120) -> str:
    flat = " ".join(text[: 4 * length].split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"


def _is_below(path: str, address: str) -> bool:
    return path == address or path.startswith(f"{address}/")


def _make_environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals["link"] = link_to
    made.filters["time"] = format_time
    made.filters["age"] = format_age
    made.filters["duration"] = format_duration
    made.filters["rate"] = format_rate
    made.filters["shorten"] = shorten
    made.filters["base_name"] = lambda path: path.rstrip("/").rpartition("/")[2]
    made.filters["ranges"] = format_ranges
    made.filters["count"] = lambda number: f"{number:,}"
    return made


_environment = _make_environment()
