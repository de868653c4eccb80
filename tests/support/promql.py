"""Read PromQL as far as to know which metrics and labels an expression names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

KEYWORDS = {
    *("and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset"),
    *("inf", "nan"),
}
FUNCTIONS = {
    *("sum", "max", "min", "avg", "count", "rate", "increase", "irate", "histogram_quantile", "topk", "label_values"),
    *("clamp_min", "absent"),
}
_TOKEN = re.compile(
    r"""\s+|(?P<text>"(?:[^"\\]|\\.)*")|(?P<range>\[[^\]]*\])|(?P<number>\d+(?:\.\d+)?[smhdw]?)"""
    r"""|(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)|(?P<symbol>=~|!~|!=|==|<=|>=|[-+*/%^(){},=<>])"""
)


@dataclass
class Expression:
    metrics: dict[str, set[str]] = field(default_factory=dict)
    """Metrics, each with the labels that are compared."""
    grouped: set[str] = field(default_factory=set)
    """Labels in `by` and `on`."""


def parse(text: str) -> Expression:
    """Return what an expression names. Raises ValueError if it is none."""
    tokens = _tokens(text)
    found = Expression()
    place = 0
    depth = 0
    while place < len(tokens):
        kind, token = tokens[place]
        following = tokens[place + 1][1] if place + 1 < len(tokens) else ""
        if kind == "name" and token in ("by", "on", "without", "ignoring"):
            names, place = _names(tokens, place + 1)
            found.grouped |= names
            continue
        if kind == "name" and token not in KEYWORDS and following in ("(", "by", "without"):
            if token not in FUNCTIONS:
                raise ValueError(f"{token} is no function that is known here")
        elif kind == "name" and token not in KEYWORDS:
            labels = found.metrics.setdefault(token, set())
            if following == "{":
                compared, place = _matchers(tokens, place + 1)
                labels |= compared
                continue
        depth += {"(": 1, ")": -1}.get(token, 0) if kind == "symbol" else 0
        if depth < 0:
            raise ValueError(f"too many parentheses are closed: {text}")
        place += 1
    if depth or not found.metrics:
        raise ValueError(f"no expression: {text}")
    return found


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ValueError(f"what is {text[place:]}?")
        if match.lastgroup is not None:
            found.append((match.lastgroup, match[0]))
        place = match.end()
    return found


def _names(tokens: list[tuple[str, str]], place: int) -> tuple[set[str], int]:
    if tokens[place][1] != "(":
        raise ValueError("labels are in parentheses")
    end = tokens.index(("symbol", ")"), place)
    return {token for kind, token in tokens[place:end] if kind == "name"}, end + 1


def _matchers(tokens: list[tuple[str, str]], place: int) -> tuple[set[str], int]:
    end = tokens.index(("symbol", "}"), place)
    inner = tokens[place + 1 : end]
    labels: set[str] = set()
    for start in range(0, len(inner), 4):
        matcher = inner[start : start + 3]
        if [kind for kind, _ in matcher] != ["name", "symbol", "text"] or matcher[1][1] not in ("=", "!=", "=~", "!~"):
            raise ValueError(f"no matcher: {matcher}")
        labels.add(matcher[0][1])
    return labels, end + 1
