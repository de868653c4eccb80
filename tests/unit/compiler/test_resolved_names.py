"""Resolved names are a value: planning, explaining and emitting leave them as they are."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from demaq.compiler.emit.xquery.blocks import BlockEmitter
from demaq.compiler.explain import explain, explain_json
from demaq.compiler.plan import Plan
from demaq.compiler.planner import make_plan
from demaq.language.loader import load_program
from demaq.language.resolving.names import Names

GOLDEN = Path(__file__).parents[2] / "golden"
LIBRARY = """module namespace l = "urn:l";
declare variable $l:limit := 3;
declare function l:open($key) { qs:queue("b")[//key = $key] => count() };
declare function l:wrap($x) { <l:w xmlns:p="urn:p" p:a="{$x}"><y/></l:w> };
"""
PROGRAM = """import module namespace l = "urn:l" at "lib.xqm";
declare function local:now() { current-dateTime() };
create queue a
create queue b
create property flag as xs:boolean queue a value true
create rule r for a
  if (l:open(/m/key) lt $l:limit)
  then (do enqueue <x at="{local:now()}">{ count("b" => qs:queue()), sort(//y, (), data#1) }</x> into b,
        copy $c := /m modify delete node $c//z return do enqueue l:wrap(string(local:now())) into b)
"""


def all_names(plan: Plan) -> list[Names]:
    modules = plan.program.modules
    own = [names for module in modules for names in (module.names, *module.library_names)]
    return own + [context.names for context in plan.modules]


def freeze(names: Names) -> dict[str, Any]:
    """Return a copy of every table. Nodes are compared by identity, so a table with one node more is another."""
    tables = {field.name: getattr(names, field.name) for field in fields(names)}
    return {name: table if isinstance(table, str) else type(table)(table) for name, table in tables.items()}


@pytest.fixture
def application(tmp_path: Path) -> Path:
    (tmp_path / "lib.xqm").write_text(LIBRARY)
    (tmp_path / "app.dmq").write_text(PROGRAM)
    return tmp_path / "app.dmq"


def assert_names_are_left_alone(file: Path) -> None:
    program = load_program(file)
    resolved = [freeze(names) for module in program.modules for names in (module.names, *module.library_names)]
    plan = make_plan(program)
    before = [freeze(names) for names in all_names(plan)]
    assert before[: len(resolved)] == resolved

    explain(plan)
    explain_json(plan)
    emitter = BlockEmitter(plan)
    blocks = emitter.blocks()
    for block in blocks:
        emitter.single_blocks(block)
    assert blocks
    assert not emitter.errors

    assert [freeze(names) for names in all_names(plan)] == before


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.dmq")), ids=lambda file: file.stem)
def test_compiling_and_explaining_leave_the_names_of_a_program_unchanged(file: Path):
    assert_names_are_left_alone(file)


def test_the_names_of_libraries_are_unchanged_too(application: Path):
    assert_names_are_left_alone(application)


def test_emitting_twice_gives_the_same_text(application: Path):
    plan = make_plan(load_program(application))

    first, second = [[block.text for block in BlockEmitter(plan).blocks()] for _ in range(2)]
    assert first == second
    assert "urn:l" in first[0]


def test_a_plan_carries_the_modules_of_its_program(application: Path):
    plan = make_plan(load_program(application))

    assert [context.module for context in plan.modules] == list(plan.program.modules)
