"""Inputs that are made to harm, and those that once went wrong, are taken or refused as documented."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.corpus_files import CORPUS, FINDINGS, load
from tests.fuzz.mutations import BYTES_MAX, mutate
from tests.fuzz.targets import Targets, all_targets

KEPT = [*load(CORPUS), *load(FINDINGS)]


@pytest.fixture(scope="module")
def targets() -> Iterator[Targets]:
    with all_targets() as found:
        yield found


@pytest.mark.parametrize(("kind", "file"), KEPT, ids=lambda value: value.name if isinstance(value, Path) else value)
def test_what_is_kept_is_taken_or_refused(targets: Targets, kind: str, file: Path):
    data = file.read_bytes()

    assert targets.take(kind, data)
    if kind == "http":
        assert targets.take("head", data)


def test_the_node_is_well_after_all_of_it(targets: Targets):
    assert targets.here.client.get("/healthz").status_code == 200
    assert targets.here.post("/orders", "<order/>").status_code == 202


def test_there_is_something_of_every_kind(targets: Targets):
    assert {kind for kind, _ in load(CORPUS)} | {"head"} == set(targets.by_kind)


def test_inputs_differ_and_are_the_same_for_one_seed(chance: random.Random):
    seed = chance.randrange(10**9)
    corpus = [file.read_bytes() for _, file in KEPT]
    made = [
        [mutate(generator, corpus, corpus) for _ in range(50)]
        for generator in (random.Random(seed), random.Random(seed))
    ]

    assert made[0] == made[1], f"seed {seed}"
    assert len(set(made[0])) > 40, f"seed {seed}"
    assert all(len(data) <= BYTES_MAX for data in made[0])


def test_what_goes_wrong_is_noticed(targets: Targets, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.fuzz.targets.parse_document", lambda body: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        targets.take("xml", b"<a/>")
