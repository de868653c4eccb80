"""What travels to executors: the package as an archive, all of which works from there, and what an application names."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import demaq
from demaq.documents import Document
from demaq.errors import MessageError, ProgramError
from demaq.evaluation.arrival_request import ArrivalResult
from demaq.evaluation.outcomes import AskedRule, Location, Outcome, RuleError
from demaq.evaluation.round_request import RoundResult
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.memory_state import MemoryState
from demaq.language.loader import load_program, load_program_texts
from demaq.spark.packaging import create_package_archive, read_companion_files, restore_answer, unpack_files

# Every module is imported, with nothing else of ours on the path, and files that are not Python's are read.
IMPORT_ALL = """
import sys, zipfile
archive = sys.argv[1]
sys.path[:] = [archive, *[path for path in sys.path if not path.endswith("/src")]]
import importlib, demaq
assert demaq.__file__.startswith(archive), demaq.__file__
for name in zipfile.ZipFile(archive).namelist():
    if name.endswith(".py") and not name.endswith(("__init__.py", "__main__.py")):
        importlib.import_module(name.removesuffix(".py").replace("/", "."))
from demaq.language.loader import load_program_texts
from demaq.evaluation.saxon.compiled import compile_program
compile_program(load_program_texts({"p.dmq": "create queue a create rule r for a if (//x) then do enqueue <y/> into a"}))
"""


@pytest.mark.slow
def test_everything_can_be_imported_and_read_from_the_archive(tmp_path: Path) -> None:
    archive = create_package_archive(tmp_path)

    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, str(archive)], capture_output=True, text=True, cwd=tmp_path
    )

    assert done.returncode == 0, done.stderr


def test_the_archive_holds_every_file_of_the_package_and_nothing_else(tmp_path: Path) -> None:
    archive = create_package_archive(tmp_path)

    source = Path(demaq.__file__).parent
    files = {
        f"demaq/{p.relative_to(source)}" for p in source.rglob("*") if p.is_file() and "__pycache__" not in p.parts
    }
    assert {name for name in zipfile.ZipFile(archive).namelist() if not name.endswith("/")} == files
    assert [path.name for path in tmp_path.iterdir()] == [archive.name]


APPLICATION = """
import module namespace p = "urn:prices" at "lib/prices.xq";
create queue orders schema "../schemas/order.xsd"
create queue answers
create rule price for orders if (/order) then do enqueue <price>{p:of(/order)}</price> into answers
create rule fails for orders if (/order) then do enqueue <a>{1 div 0}</a> into answers
"""
LIBRARY = """module namespace p = "urn:prices"; declare function p:of($order) { $order/@euros * 2 };"""
SCHEMA = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{}</xs:schema>"""


def test_what_an_application_names_is_found_on_a_machine_that_has_none_of_it(tmp_path: Path) -> None:
    here = tmp_path / "here"
    for name, text in {
        "app/shop.dmq": APPLICATION,
        "app/lib/prices.xq": LIBRARY,
        "schemas/order.xsd": SCHEMA.format(
            '<xs:include schemaLocation="parts/types.xsd"/><xs:element name="order" type="order"/>'
        ),
        "schemas/parts/types.xsd": SCHEMA.format(
            '<xs:complexType name="order"><xs:attribute name="euros" type="xs:int"/></xs:complexType>'
        ),
    }.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text)
    files = load_program([here / "app" / "shop.dmq"]).files()
    companions = read_companion_files(files)
    assert len(companions) == 3
    shutil.rmtree(here)
    with pytest.raises(ProgramError):
        load_program_texts(files)

    moved, root = unpack_files(files, companions, tmp_path / "there")
    unpack_files(files, companions, tmp_path / "there")  # as another worker of the executor does
    evaluator = SaxonEvaluator(compile_program(load_program_texts(moved)))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    state = MemoryState(evaluator, {}, now)
    outcomes = evaluator.evaluate([state.add("orders", Document("<order euros='21'/>"))], state, now)
    restore_answer(outcomes, root)
    assert "<price>42</price>" in repr(outcomes[0].actions)
    assert [error.at.file for error in outcomes[0].errors if error.at] == list(files)
    with pytest.raises(MessageError, match="euros"):
        state.add("orders", Document("<order euros='many'/>"))


def test_the_files_of_an_interface_come_along(tmp_path: Path) -> None:
    wsdl = '<definitions xmlns="http://schemas.xmlsoap.org/wsdl/">{}</definitions>'
    types = '<types><xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:include schemaLocation="a.xsd"/></xs:schema></types>'
    for name, text in {
        "shop.dmq": "create queue out kind outgoingGateway interface shop.wsdl",
        "shop.wsdl": wsdl.format('<import location="parts/types.wsdl"/><portType name="Shop"/>'),
        "parts/types.wsdl": wsdl.format(types),
        "parts/a.xsd": SCHEMA.format(""),
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    companions = read_companion_files(load_program([tmp_path / "shop.dmq"]).files())
    assert sorted([Path(name).name for name in companions]) == ["a.xsd", "shop.wsdl", "types.wsdl"]


def test_an_application_of_modules_alone_stays_what_it_is(tmp_path: Path) -> None:
    files = {"/shop.dmq": "create queue a create rule r for a if (//x) then do enqueue <y/> into a"}
    assert read_companion_files(files) == {}
    assert unpack_files(files, {}, tmp_path) == (files, "")


def test_places_in_all_kinds_of_answers_are_those_of_the_author() -> None:
    at = Location(file="/tmp/demaq-1/app/shop.dmq", line=3, column=1)
    error = RuleError(rule="r", kind="dynamicError", code="c", description="d", at=at)
    elsewhere = replace(error, at=None)

    def outcome() -> Outcome:
        return Outcome(errors=[error, elsewhere])

    rules = [AskedRule(name="r", number=0, at=at)]
    round_result = RoundResult([outcome(), None], [outcome()])
    arrivals = ArrivalResult([], [None, outcome()], [outcome()])
    alone, several = outcome(), [outcome()]
    for answer in (rules, round_result, arrivals, alone, several, None, "text"):
        restore_answer(answer, "/tmp/demaq-1")
    found = [*round_result.outcomes, *round_result.descendants, *arrivals.outcomes, *arrivals.descendants]
    restored = [each for each in (*found, alone, *several) if each is not None]
    assert len(restored) == 6
    for each in restored:
        assert [error.at and error.at.file for error in each.errors] == ["/app/shop.dmq", None]
    assert rules[0].at.file == "/app/shop.dmq"
