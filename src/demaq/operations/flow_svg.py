"""Draw the flow of an application as SVG.

Every node is a group with `data-id`, so that a page can find it, and is a link if it is given an address. Live figures
are given as annotations; a node that has one has room for all figures, so nothing moves when they change.
Text is set in a font whose letters have one width. So it is known how wide a text is, and none overlaps another.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from demaq.operations.flow_graph import MAIN_KINDS, EdgeKind, FlowEdge, FlowGraph, FlowNode
from demaq.operations.flow_style import FLOW_STYLE
from demaq.operations.layered_layout import GraphLayout, LayoutBox, LayoutEdge, Point, lay_out

NAME_WIDTH, NOTE_WIDTH = 7.9, 6.4
"""Of a letter, at 13 and 10.5 pixels."""
NAME_LETTERS, NOTE_LETTERS = 32, 40
"""Longer names and notes are cut; the whole text is the title of the node."""
ANNOTATION_LETTERS = 29
LINE, NOTE_LINE = 17, 14
PADDING = 12
MARGIN = 18
LEGEND = {
    "enqueues": "message",
    "joins": "in a slice",
    "timer": "timer",
    "reply": "response",
    "error": "error",
    "resets": "reset",
    "reads": "read",
}
"""Kinds of edges with what the legend says."""
OFFSETS: Mapping[EdgeKind, float] = {"error": 7, "resets": -7, "reads": -4, "reply": 4}
"""Where edges are attached, below the middle of a node, so that two kinds between the same nodes do not coincide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowAnnotation:
    """What a running node says about a queue, slicing or rule. None where it says nothing."""

    waiting: int | None = None
    per_second: float | None = None
    errors: int | None = None
    is_paused: bool = False

    def describe(self) -> str:
        """Return it in at most ANNOTATION_LETTERS letters."""
        said = ["paused"] if self.is_paused else []
        said += [f"{_short(self.waiting)} wait"] if self.waiting is not None else []
        said += [f"{_short(self.per_second)}/s"] if self.per_second is not None and not self.is_paused else []
        said += [f"{_short(self.errors)} err"] if self.errors else []
        return " · ".join(said)


def draw_flow(
    graph: FlowGraph,
    *,
    title: str,
    annotations: Mapping[str, FlowAnnotation] | None = None,
    link: Callable[[FlowNode], str | None] | None = None,
    is_standalone: bool = True,
) -> str:
    """Return the graph as SVG.

    `annotations` are by the id of a node. A picture that is not standalone is for a page that has FLOW_STYLE in its
    own style sheet.
    """
    annotations = annotations or {}
    nodes = {node.id: _DrawnNode(node, annotations.get(node.id), link(node) if link else None) for node in graph.nodes}
    arrows = [LayoutEdge(e.source, e.target, e.kind in MAIN_KINDS, OFFSETS.get(e.kind, 0)) for e in graph.edges]
    layout = lay_out({name: node.box for name, node in nodes.items()}, arrows)
    legend = [kind for kind in LEGEND if any([edge.kind == kind for edge in graph.edges])]
    legend_width = sum([_legend_width(kind) for kind in legend])
    width = max(layout.width, legend_width, _measure(title) * NAME_WIDTH) + 2 * MARGIN
    height = layout.height + 2 * MARGIN + (LINE * 2 if legend else 0)
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" class="demaq-flow" role="img" {size}>']
    lines.append(f"<title>{escape(title)}</title>")
    if is_standalone:
        lines.append(f"<style>{FLOW_STYLE}</style>")
        lines.append('<rect class="page" width="100%" height="100%"/>')
    lines.append(
        "<defs>" + "".join([_marker(kind) for kind in dict.fromkeys([e.kind for e in graph.edges])]) + "</defs>"
    )
    lines.append(f'<g transform="translate({MARGIN} {MARGIN})">')
    lines += [_draw_edge(edge, route, nodes, layout) for edge, route in zip(graph.edges, layout.routes, strict=True)]
    lines += [line for name, node in nodes.items() for line in node.draw(layout.places[name])]
    lines += _draw_legend(legend, layout.height + LINE * 1.5)
    return "\n".join([*lines, "</g>", "</svg>", ""])


# --- nodes -----------------------------------------------------------------------------------------------------------


class _DrawnNode:
    """A node with its texts and the room they take."""

    def __init__(self, node: FlowNode, annotation: FlowAnnotation | None, address: str | None) -> None:
        self.node = node
        self.annotation = annotation
        self.address = address
        self.name = _cut(node.name, NAME_LETTERS)
        self.notes = [_cut(note, NOTE_LETTERS) for note in node.notes]
        widths = [_measure(self.name) * NAME_WIDTH, *[_measure(note) * NOTE_WIDTH for note in self.notes]]
        height = LINE + NOTE_LINE * len(self.notes)
        if annotation is not None:
            widths.append(ANNOTATION_LETTERS * NOTE_WIDTH)
            height += NOTE_LINE
        point = 2 * PADDING if node.kind in ("incomingGateway", "outgoingGateway", "slicing") else 0
        self.box = LayoutBox(
            max(widths) + 2 * PADDING + point, height + (PADDING if node.kind != "rule" else PADDING - 4)
        )

    def draw(self, middle: Point) -> Iterator[str]:
        x, y = middle
        node = self.node
        classes = ["node", node.kind] + ["errors"] * node.is_error_queue
        if self.annotation is not None:
            classes += ["paused"] * self.annotation.is_paused + ["failing"] * bool(self.annotation.errors)
        yield f'<g class="{" ".join(classes)}" data-id={quoteattr(node.id)}>'
        if self.address is not None:
            yield f"<a href={quoteattr(self.address)}>"
        yield f"<title>{escape('; '.join([f'{_kind_in_words(node)} {node.name}', *node.notes]))}</title>"
        yield _shape(node, x, y, self.box)
        top = y - self.box.height / 2 + (PADDING if node.kind != "rule" else PADDING - 4) / 2
        yield _text("name", x, top + LINE * 0.75, self.name)
        for number, note in enumerate(self.notes):
            yield _text("note", x, top + LINE + NOTE_LINE * (number + 0.7), note)
        if self.annotation is not None:
            row = top + LINE + NOTE_LINE * (len(self.notes) + 0.7)
            yield _text("figures", x, row, self.annotation.describe())
        if self.address is not None:
            yield "</a>"
        yield "</g>"


def _shape(node: FlowNode, x: float, y: float, box: LayoutBox) -> str:
    left, right, top, bottom = x - box.width / 2, x + box.width / 2, y - box.height / 2, y + box.height / 2
    point = PADDING
    match node.kind:
        case "incomingGateway":  # the feather of an arrow: messages come in
            corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left + point, y)]
        case "outgoingGateway":  # the point of an arrow
            corners = [(left, top), (right - point, top), (right, y), (right - point, bottom), (left, bottom)]
        case "slicing":
            corners = [(left, y), (left + point, top), (right - point, top), (right, y)]
            corners += [(right - point, bottom), (left + point, bottom)]
        case _:
            radius = {"rule": box.height / 2, "echo": 14}.get(node.kind, 4)
            size = f'width="{box.width:.1f}" height="{box.height:.1f}" rx="{min(radius, 14):.1f}"'
            return f'<rect class="shape" x="{left:.1f}" y="{top:.1f}" {size}/>'
    return f'<polygon class="shape" points="{" ".join([f"{a:.1f},{b:.1f}" for a, b in corners])}"/>'


def _text(style: str, x: float, y: float, text: str) -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _kind_in_words(node: FlowNode) -> str:
    return node.kind if node.kind in ("rule", "slicing") else "queue"


# --- edges -----------------------------------------------------------------------------------------------------------


def _marker(kind: str) -> str:
    """Return the head of an arrow. Each kind has its own, in its colour."""
    return (
        f'<marker id="flow-head-{kind}" class="head {kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto-start-reverse"><path d="M0 0.5 8 4 0 7.5Z"/></marker>'
    )


def _draw_edge(edge: FlowEdge, route: tuple[Point, ...], nodes: Mapping[str, _DrawnNode], layout: GraphLayout) -> str:
    ends = f"data-source={quoteattr(edge.source)} data-target={quoteattr(edge.target)}"
    path = _path(route) if route else _loop(layout.places[edge.source], nodes[edge.source].box)
    return f'<path class="edge {edge.kind}" {ends} marker-end="url(#flow-head-{edge.kind})" d="{path}"/>'


def _path(route: tuple[Point, ...]) -> str:
    x, y = route[0]
    drawn = [f"M{x:.1f} {y:.1f}"]
    for next_x, next_y in route[1:]:
        if abs(next_x - x) < 0.05:
            continue  # a line without length at the end would have no direction, and so would the head of the arrow
        if abs(next_y - y) < 0.05:
            drawn.append(f"H{next_x:.1f}")
        else:
            middle = (x + next_x) / 2
            drawn.append(f"C{middle:.1f} {y:.1f} {middle:.1f} {next_y:.1f} {next_x:.1f} {next_y:.1f}")
        x, y = next_x, next_y
    return "".join(drawn)


def _loop(middle: Point, box: LayoutBox) -> str:
    """Return the path of an edge from a node to itself, in the gap right of it."""
    right, y = middle[0] + box.width / 2, middle[1]
    return f"M{right:.1f} {y - 6:.1f}c26 -8 26 20 0 12"


def _legend_width(kind: str) -> float:
    return 44 + (_measure(LEGEND[kind]) + 2) * NOTE_WIDTH


def _draw_legend(kinds: list[str], y: float) -> Iterator[str]:
    x = 0.0
    for kind in kinds:
        yield f'<path class="edge {kind}" marker-end="url(#flow-head-{kind})" d="M{x:.1f} {y:.1f}h34"/>'
        yield f'<text class="legend" x="{x + 42:.1f}" y="{y + 3.5:.1f}">{LEGEND[kind]}</text>'
        x += _legend_width(kind)


# --- texts -----------------------------------------------------------------------------------------------------------


def _measure(text: str) -> int:
    """Return the width of a text in letters. Those of East Asia, and pictures, are two wide."""
    if text.isascii():
        return len(text)
    return sum([0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text])


def _cut(text: str, letters: int) -> str:
    """Return a text that is not wider than so many letters, without its middle where it was."""
    if _measure(text) <= letters:
        return text
    head, tail = text, text
    while _measure(head) > letters // 2:
        head = head[:-1]
    while _measure(tail) > letters - letters // 2 - 1:
        tail = tail[1:]
    return f"{head}…{tail}"


def _short(figure: float) -> str:
    """Return a number in at most five letters: `7`, `0.3`, `12`, `1.2k`, `34k`, `5.6M`."""
    if figure < 10 and figure != int(figure):
        return f"{figure:.1f}"
    for limit, divisor, unit in ((1e3, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (1e12, 1e9, "G")):
        if figure < limit * 0.9995:
            scaled = figure / divisor
            return f"{scaled:.1f}{unit}" if unit and scaled < 9.95 else f"{scaled:.0f}{unit}"
    return f"{figure:.0e}"
