"""The picture of a flow: everything is on it, nothing covers anything else, and no name becomes markup."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from lxml import etree

from demaq.compiler.planner import make_plan
from demaq.operations.flow_graph import FlowGraph, FlowNode, make_flow_graph
from demaq.operations.flow_svg import (
    ANNOTATION_LETTERS,
    NAME_WIDTH,
    NOTE_WIDTH,
    FlowAnnotation,
    _measure,
    draw_flow,
)
from demaq.operations.layered_layout import LayoutBox, LayoutEdge, lay_out
from tests.support.drawing import example_count
from tests.support.operations.drawn_applications import draw_application
from tests.support.programs import program

EXAMPLES = Path(__file__).parents[3] / "examples"
SVG = "{http://www.w3.org/2000/svg}"


def graph_of(folder: Path, text: str, *, with_reads: bool = False) -> FlowGraph:
    return make_flow_graph(make_plan(program(folder, text)), with_reads=with_reads)


def test_boxes_are_apart_and_edges_go_past_them(chance: random.Random):
    passed = turned = loops = 0
    for _ in range(example_count(40, "LAYOUTS")):
        names = [f"n{n}" for n in range(chance.randint(1, 40))]
        boxes = {name: LayoutBox(chance.uniform(30, 260), chance.uniform(20, 70)) for name in names}
        arrows = [
            LayoutEdge(chance.choice(names), chance.choice(names), chance.random() < 0.8, chance.choice((0, 7, -7)))
            for _ in range(chance.randint(0, 60))
        ]
        layout = lay_out(boxes, arrows)

        frames = {
            name: (x - box.width / 2, y - box.height / 2, x + box.width / 2, y + box.height / 2)
            for name, box in boxes.items()
            for x, y in [layout.places[name]]
        }
        for (one, a), (other, b) in itertools.combinations(frames.items(), 2):
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (one, other)
        for left, top, right, bottom in frames.values():
            assert min(left, top) >= 0
            assert right <= layout.width + 1e-6
            assert bottom <= layout.height + 1e-6
        for arrow, route in zip(arrows, layout.routes, strict=True):
            if arrow.source == arrow.target:
                assert route == ()
                loops += 1
                continue
            assert _is_on_side(route[0], frames[arrow.source])
            assert _is_on_side(route[-1], frames[arrow.target])
            turned += route[0][0] > route[-1][0]
            for (x, y), (to_x, to_y) in itertools.pairwise(route):
                if y != to_y:
                    continue  # a curve, in the gap between two columns
                passed += 1
                for name, (left, top, right, bottom) in frames.items():
                    meets = max(left, min(x, to_x)) < min(right, max(x, to_x)) - 1e-6 and top < y < bottom
                    assert not meets, (arrow, name)
    assert passed
    assert turned
    assert loops


def _is_on_side(point: tuple[float, float], frame: tuple[float, float, float, float]) -> bool:
    left, top, right, bottom = frame
    return min(abs(point[0] - left), abs(point[0] - right)) < 1e-6 and top <= point[1] <= bottom


@pytest.mark.parametrize("queues", [1, 5, 30, 100])
def test_texts_fit_into_their_nodes(queues: int, chance: random.Random, tmp_path: Path):
    graph = graph_of(tmp_path, draw_application(chance, queues), with_reads=True)
    annotations = {
        node.id: FlowAnnotation(
            waiting=chance.choice((None, 0, 7, 123_456, 99_999_999)),
            per_second=chance.choice((None, 0.04, 9.96, 12_345.6)),
            errors=chance.choice((None, 0, 3, 999_999)),
            is_paused=chance.random() < 0.3,
        )
        for node in graph.nodes
        if chance.random() < 0.7
    }

    drawn = etree.fromstring(draw_flow(graph, title="drawn", annotations=annotations).encode())

    groups = {group.get("data-id"): group for group in drawn.iter(f"{SVG}g") if group.get("data-id")}
    assert set(groups) == {node.id for node in graph.nodes}
    assert len([e for e in drawn.iter(f"{SVG}path") if e.get("data-source")]) == len(graph.edges)
    for group in groups.values():
        left, top, right, bottom = _frame(group)
        rows = []
        for text in group.iter(f"{SVG}text"):
            width = _measure(text.text or "") * (NAME_WIDTH if text.get("class") == "name" else NOTE_WIDTH)
            middle, row = float(text.get("x") or ""), float(text.get("y") or "")
            assert left <= middle - width / 2
            assert middle + width / 2 <= right
            assert top + 8 < row < bottom
            rows.append(row)
        assert all(after - before >= 12 for before, after in itertools.pairwise(rows))
    assert all([_measure(annotation.describe()) <= ANNOTATION_LETTERS for annotation in annotations.values()])


def _frame(group: etree._Element) -> tuple[float, float, float, float]:
    rect = group.find(f".//{SVG}rect")
    if rect is not None:
        x, y, width, height = [float(rect.get(name) or "") for name in ("x", "y", "width", "height")]
        return x, y, x + width, y + height
    polygon = group.find(f".//{SVG}polygon")
    assert polygon is not None
    corners = [tuple(map(float, corner.split(","))) for corner in (polygon.get("points") or "").split()]
    return (
        min(x for x, _ in corners),
        min(y for _, y in corners),
        max(x for x, _ in corners),
        max(y for _, y in corners),
    )


def test_the_graph_has_what_the_application_says(tmp_path: Path):
    graph = graph_of(
        tmp_path,
        """
        module shop errorqueue problems;
        create queue requests kind incomingGateway
        create queue orders errorqueue late
        create queue stock kind outgoingGateway endpoint "http://stock.invalid/" replyto orders
        create queue later kind echo
        create queue late
        create queue problems kind mailbox
        create property id as xs:string queue orders, late value string(//id)
        create slicing byId on id
        create rule take for requests if (/order) then do enqueue /order into orders
        create rule wait for orders errorqueue problems
          if (/order and not(qs:queue("late")//id = //id)) then
            (do enqueue <t/> into later with timeout value xs:dayTimeDuration("P1D") with target value "late",
             do enqueue <s/> into stock)
        create rule end for byId if (qs:slice()/done) then do reset
        create rule forget for late if (/forget) then do reset byId key string(//id)
        """,
        with_reads=True,
    )

    assert {(edge.source, edge.kind, edge.target) for edge in graph.edges} == {
        ("queue:requests", "asks", "rule:take"),
        ("rule:take", "enqueues", "queue:orders"),
        ("queue:orders", "asks", "rule:wait"),
        ("queue:orders", "joins", "slicing:byId"),
        ("queue:orders", "error", "queue:late"),
        ("queue:late", "joins", "slicing:byId"),
        ("queue:late", "reads", "rule:wait"),
        ("rule:wait", "enqueues", "queue:later"),
        ("rule:wait", "enqueues", "queue:stock"),
        ("rule:wait", "error", "queue:problems"),
        ("queue:later", "timer", "queue:late"),
        ("queue:stock", "reply", "queue:orders"),
        ("slicing:byId", "asks", "rule:end"),
        ("queue:late", "asks", "rule:forget"),
        ("rule:forget", "resets", "slicing:byId"),
    }
    notes = {node.id: node.notes for node in graph.nodes}
    assert notes["queue:problems"] == ("mailbox", "errors of shop")
    assert notes["rule:end"] == ("resets byId",)
    assert "queue:demaq:errors" not in notes  # no error of this application goes there
    assert {node.name for node in graph.nodes if node.is_error_queue} == {"problems", "late"}


def test_no_name_address_or_title_becomes_markup():
    nasty = "<script>alert(1)</script>&\"'>"
    node = FlowNode(id=f"queue:{nasty}", name=nasty, kind="basic", notes=(nasty,))
    graph = FlowGraph(nodes=(node,), edges=())

    drawn = etree.fromstring(draw_flow(graph, title=nasty, link=lambda node: f"/q?{nasty}").encode())

    assert {str(element.tag).removeprefix(SVG) for element in drawn.iter()} == {
        *("svg", "title", "style", "rect", "defs", "g", "a", "text"),
    }
    group = drawn.find(f".//{SVG}g[@data-id]")
    assert group is not None
    assert group.get("data-id") == f"queue:{nasty}"
    link = group.find(f"{SVG}a")
    assert link is not None
    assert link.get("href") == f"/q?{nasty}"
    assert drawn.findtext(f".//{SVG}text") == nasty


def test_a_picture_for_a_page_brings_no_style_of_its_own(tmp_path: Path):
    graph = graph_of(tmp_path, "create queue a\ncreate rule r for a if (/x) then do enqueue <y/> into a")
    annotated = {"queue:a": FlowAnnotation(waiting=12_345, errors=2, is_paused=True)}

    drawn = draw_flow(graph, title="t", annotations=annotated, is_standalone=False)

    assert "<style" not in drawn
    assert 'class="node basic paused failing" data-id="queue:a"' in drawn
    assert ">paused · 12k wait · 2 err<" in drawn


@pytest.mark.parametrize("name", ["enrichment", "procurement", "registrar", "retention"])
def test_the_same_application_has_the_same_picture(name: str, tmp_path: Path):
    text = (EXAMPLES / name / f"{name}.dmq").read_text(encoding="utf-8")
    files = {path.name.replace(".", "_"): path.read_text() for path in (EXAMPLES / name).glob("*.[xw]*")}
    plan = make_plan(program(tmp_path, text, **files))

    assert draw_flow(make_flow_graph(plan), title=name) == draw_flow(make_flow_graph(plan), title=name)
