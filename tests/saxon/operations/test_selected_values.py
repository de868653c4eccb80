"""Values of conditions mean what they mean in the application, however they are written."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from demaq.errors import OperatorError
from demaq.evaluation.state.slice_keys import SliceKeys
from demaq.language.loader import load_program_texts
from demaq.operations.search import MessageSelection, search
from demaq.operations.selected_values import convert_values
from demaq.store.opening import open_store_readonly
from demaq.testing import Lab

APPLICATION = """
create queue orders
create property euros as xs:decimal queue orders value /order/@euros
create property vip as xs:boolean queue orders value /order/@vip
create property at as xs:dateTime queue orders value /order/@at
create property day as xs:date queue orders value /order/@day
create property name as xs:string queue orders value /order/@name
create slicing byEuros on euros
create slicing byDay on day
create rule copy for orders if (/order/@copy) then do enqueue <order euros="2"/> into orders
"""
ORDER = '<order euros="1.50" vip="1" at="2026-05-01T12:00:00+02:00" day="2026-05-01" name="1.50" copy="yes"/>'
PROGRAM = load_program_texts({"orders.dmq": APPLICATION})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("values")
    (folder / "orders.dmq").write_text(APPLICATION)
    with Lab(folder / "orders.dmq", folder / "store") as lab:
        lab.enqueue("orders", ORDER)
        lab.run_until_idle()
    return folder / "store"


def find(store: Path, selection: MessageSelection) -> list[int]:
    converted = convert_values(selection, PROGRAM, SliceKeys(PROGRAM))
    with closing(open_store_readonly(store)) as opened:
        return [each.head.seq for each in search(opened, converted).found]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("euros", "1.50"),
        ("euros", "01.5"),
        ("vip", "1"),
        ("vip", "true"),
        ("at", "2026-05-01T10:00:00Z"),
        ("at", "2026-05-01T12:00:00+02:00"),
        ("day", "2026-05-01"),
        ("name", "1.50"),
    ],
)
def test_a_value_of_a_property_may_be_written_in_any_way_its_type_allows(store: Path, name: str, value: str):
    assert find(store, MessageSelection(properties=((name, value),))) == [1]


def test_a_text_is_another_one_if_it_is_written_otherwise(store: Path):
    assert find(store, MessageSelection(properties=(("name", "1.5"),))) == []


@pytest.mark.parametrize(
    ("slicing", "key"),
    [("byEuros", "1.500"), ("byDay", "2026-05-01"), ("byDay", "2026-05-01T00:00:00Z")],
)
def test_a_key_may_be_written_in_any_way_its_type_allows_and_as_it_is_stored(store: Path, slicing: str, key: str):
    assert find(store, MessageSelection(slice=(slicing, key))) == [1]


@pytest.mark.parametrize("selection", [{"properties": (("euros", "many"),)}, {"slice": ("byEuros", "many")}])
def test_what_is_no_value_of_its_type_is_said(store: Path, selection: dict[str, Any]):
    with pytest.raises(OperatorError, match=r"many is no .* are xs:decimal"):
        find(store, MessageSelection(**selection))


@pytest.mark.parametrize(
    ("name", "value"), [("demaq:rule", "copy"), ("demaq:trigger", "1"), ("demaq:id", "3"), ("demaq:size", "18")]
)
def test_properties_that_the_system_sets_on_every_message_are_found(store: Path, name: str, value: str):
    assert find(store, MessageSelection(properties=((name, value),))) == [3]
