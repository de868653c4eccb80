"""Names that parsers keep for ever are counted, at next to no cost; too many have a process or thread replaced."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lxml import etree

from demaq import xml_name_count, xml_parsers
from demaq.evaluation.saxon.processor import Saxon
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.xml_name_count import NAMES_KEPT_MAX, WHOLE_CHARACTERS, NameCount
from demaq.xml_parsers import parse_characters
from tests.processes.evaluation.test_process import drain, running

ITEM = '<item number="1" sku="A-1"><name>Tea number 1</name><price>12.50</price></item>'
MESSAGE = f'<order id="17" customer="4711" currency="EUR"><date>2026-01-01</date>{ITEM * 10}</order>'
USUAL = {"order", "id", "customer", "currency", "date", "item", "number", "sku", "name", "price"}


def settled(seed: int) -> NameCount:
    """Return a count that has seen so much of the usual that it looks at parts alone."""
    counted = NameCount(random.Random(seed).random)
    for _ in range(WHOLE_CHARACTERS // len(MESSAGE) + 2):
        counted.look_at(MESSAGE)
    for _ in range(WHOLE_CHARACTERS // len(MESSAGE) + 2):
        counted.look_at(MESSAGE)
    return counted


def fresh(count: int, label: str) -> str:
    return "<x>" + "".join([f"<{label}{number}/>" for number in range(count)]) + "</x>"


def test_usual_names_count_once_however_many_messages_there_are(chance: random.Random):
    counted = settled(chance.randrange(10**9))
    for _ in range(10_000):
        counted.look_at(MESSAGE)

    assert counted.count == len(USUAL)


@pytest.mark.parametrize("size", [1, 10, 100, 1_000, 4_000])
def test_new_names_are_noticed_in_documents_of_any_size(size: int, chance: random.Random):
    seed = chance.randrange(10**9)
    counted = settled(seed)
    sent = 0
    while not counted.is_full:
        sent += size
        counted.look_at(fresh(size, f"n{sent}x"))
        assert sent < 4 * NAMES_KEPT_MAX, f"seed {seed}"

    assert sent > NAMES_KEPT_MAX / 3 - size, f"seed {seed}"


def test_attributes_and_namespaces_count_too():
    for write in (
        lambda n: f"<x><a n{n}=''/></x>",
        lambda n: f"<x><a xmlns='u{n}'/></x>",
        lambda n: f"<x><a xmlns:p{n}='u'/></x>",
        lambda n: f"<x><?n{n}?></x>",
    ):
        counted = NameCount()
        for number in range(1_000):
            counted.look_at(write(number))
        assert 1_000 <= counted.count <= 3_500


def test_known_names_in_other_namespaces_are_new_names():
    counted = settled(1)
    counted.look_at(fresh(2_000, "a"))
    for number in range(40):
        counted.look_at(fresh(2_000, "a").replace("<x>", f"<x xmlns='u{number}'>"))

    assert counted.is_full


def test_a_text_counts_no_more_than_it_has_names():
    counted = NameCount()
    counted.look_at("<x>" + "".join([f"<a{n} xmlns='u{n}'/>" for n in range(200)]) + "</x>")

    assert 200 <= counted.count <= 401


def test_every_text_that_saxon_parses_is_looked_at():
    saxon = Saxon()
    saxon.parse("<a b=''/>")
    saxon.documents(["<c/>", "<d/>", f"<e>{'x' * 5_000}</e>"])

    assert 5 <= saxon.names.count <= 7


def test_a_process_with_many_names_is_replaced_without_any_visible_effect(tmp_path: Path):
    text = """declare function local:size($n) { if (empty($n)) then 0 else 1 + local:size($n/*[1]) };
        create queue a create queue b create rule r for a if (local:size(/*) > 1) then do enqueue <y/> into b"""
    with running(tmp_path, text, ProcessEvaluator, timeout_seconds=30) as engine:
        evaluator = engine.evaluator
        assert isinstance(evaluator, ProcessEvaluator)
        processes = []
        for number in range(16):
            engine.enqueue("a", fresh(2_000, f"n{number}x"))
            drain(engine)
            processes.append(evaluator.pid)

        assert len(engine.store.stored("b", 0, 100)) == 16
        assert processes[0] == processes[1]
        assert len({each for each in processes if each is not None}) == 2, "replaced, and once"


def test_few_long_names_and_namespaces_are_many_characters():
    for write in (lambda n: f"<{'n' * 500_000}{n}/>", lambda n: f"<a xmlns='{'u' * 500_000}{n}'/>"):
        counted = NameCount()
        for number in range(50):
            counted.look_at(write(number))
        assert counted.is_full


def test_a_thread_that_has_parsed_many_names_has_others_parse_for_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(xml_name_count, "NAMES_KEPT_MAX", 50)
    before = {thread.ident for thread in threading.enumerate()}
    found: list[str] = []
    parsers: set[int | None] = set()

    def parse() -> None:
        for number in range(40):
            root = parse_characters(fresh(10, f"n{number}x").encode())
            found.extend([str(child.tag) for child in root])
            parsers.update([t.ident for t in threading.enumerate() if t.name.startswith("demaq-parser")])
        with pytest.raises(etree.XMLSyntaxError):
            parse_characters(b"<a>&b;</a>")

    thread = threading.Thread(target=parse)
    thread.start()
    thread.join()
    assert found == [f"n{number}x{child}" for number in range(40) for child in range(10)]
    assert len(parsers) >= 2, "replaced"
    left = [t for t in threading.enumerate() if t.ident not in before and t.name.startswith("demaq-parser")]
    assert len(left) <= 2, "those that were replaced have ended, but for one that may be about to"


def test_names_in_documents_that_are_refused_count_too():
    texts = [f"<a>&{'e' * 40_000}{number};</a>" for number in range(600)]

    def parse() -> bool:
        for text in texts:
            with pytest.raises(etree.XMLSyntaxError):
                parse_characters(text.encode())
        return xml_parsers._mine.names.is_full

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(parse).result()
