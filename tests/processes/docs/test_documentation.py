"""What the documentation shows works, and what it should hold it holds.

`--accept-golden` writes the answers of commands, and the page of errors and warnings, anew.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import click
import pytest

import demaq
from demaq.cli import main as cli
from demaq.cli.command_classes import LazyCommand
from demaq.compiler.emit.xquery.blocks import NESTING_MAX_COMPILED
from demaq.control.client import REQUEST_BYTES_MAX
from demaq.engine.engine import TIMERS_MAX
from demaq.evaluation.saxon.compiled import static_check
from demaq.evaluation.saxon.processor import BATCH_MESSAGES_MAX
from demaq.evaluation.saxon.saxon_evaluator import ROUND_MESSAGES_MAX
from demaq.evaluation.workers.process import ATTEMPTS_MAX, RULES_GIVEN_UP_MAX
from demaq.evaluation.workers.worker import GROWTH_MAX_MEGABYTES
from demaq.language.codes import CODES
from demaq.language.function_library import ARITIES, REFUSED
from demaq.language.loader import check_application
from demaq.language.namespaces import QS
from demaq.language.parser import parse_module, parse_query
from demaq.language.recursion import NESTING_MAX
from demaq.store.removal import REQUEST_MEMORY_SECONDS
from demaq.system_properties import (
    ECHO_PROPERTIES,
    GATEWAY_PROPERTIES,
    SYSTEM_PROPERTIES,
)
from demaq.xml_bounds import (
    ATTRIBUTES_MAX,
    DEPTH_MAX,
    NAME_CHARACTERS_MAX,
    NAMES_MAX,
    NAMESPACES_IN_SCOPE_MAX,
    NAMESPACES_MAX,
    NODES_MAX,
    TEXT_BYTES_MAX,
)
from demaq.xml_name_count import NAMES_KEPT_MAX
from demaq.xml_prolog import OUTSIDE_MAX
from tests.support.docs.diagnostics_page import diagnostics_page
from tests.support.docs.pages import (
    ELSEWHERE,
    PROJECT,
    Block,
    Page,
    Shell,
    all_pages,
    anchor,
    commands,
    recorded,
    run_python,
)

PAGES = all_pages()
REFERENCE = PROJECT / "docs" / "reference"
DIAGNOSTICS = Page(REFERENCE / "diagnostics.md")

every_page = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])


def test_the_page_of_errors_and_warnings_is_written_from_the_registry(accept_golden: bool) -> None:
    expected = diagnostics_page()
    if accept_golden:
        DIAGNOSTICS.path.write_text(expected, encoding="utf-8")
    blocks = DIAGNOSTICS.blocks()
    unanswered = recorded(DIAGNOSTICS, {b: [() for _ in commands(b)] for b in blocks if b.language == "console"})

    assert unanswered == expected, "run ./test tests/processes/docs --accept-golden"


# --- what is shown works ---------------------------------------------------------------------------------------------


SLOW_PAGES = (
    "invoices-to-a-table.md",
    "load-and-export.md",
    "change-a-running-application.md",
    "handle-errors.md",
    "replay-messages.md",
    "use-timers.md",
    "call-a-soap-service.md",
    "expose-a-soap-service.md",
    "keep-and-release-messages.md",
    "watch-a-node.md",
)
"""What they show starts Spark, or many nodes, or waits."""
TYPED_ANYWAY = ("README.md", "docs/tutorial/")
"""Typed into a shell by test_pages_literally.py, which is slow. Runs that leave slow tests out run them here."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, id=p.name, marks=[pytest.mark.slow] if p.name.endswith(SLOW_PAGES) else []) for p in PAGES],
)
def test_commands_answer_what_the_page_says(
    page: Page, tmp_path: Path, monkeypatch, accept_golden: bool, request: pytest.FixtureRequest
) -> None:
    if page.name.startswith(TYPED_ANYWAY) and request.config.option.markexpr != "not slow" and not accept_golden:
        pytest.skip("typed by test_pages_literally.py")
    if page.path.is_relative_to(PROJECT / "examples"):
        shutil.copytree(page.path.parent, tmp_path, dirs_exist_ok=True)
    (tmp_path / "examples").symlink_to(PROJECT / "examples")
    monkeypatch.chdir(tmp_path)
    answers: dict[Block, list[tuple[str, ...]]] = {}
    with Shell() as shell:
        for block in page.blocks():
            if block.file is not None:
                file = tmp_path / block.file
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(shell.ports.replace(block.text), encoding="utf-8")
            elif block.language == "console" and ELSEWHERE not in block.words:
                answers[block] = [shell.answer(command) for command in commands(block)]
            elif block.language == "python":
                run_python(block)
    if accept_golden:
        page.path.write_text(recorded(page, answers), encoding="utf-8")
    for block, found in answers.items():
        expected = [command.answer for command in commands(block)]
        assert accept_golden or found == expected, f"{page.name}:{block.start}"


@every_page
def test_complete_applications_have_no_problems(page: Page, tmp_path: Path) -> None:
    for block in page.blocks():
        if block.language == "dmq" and not block.words:
            file = tmp_path / f"line-{block.start}.dmq"
            file.write_text(block.text, encoding="utf-8")
            assert [item.render() for item in check_application(file, static_check).diagnostics] == []


@every_page
def test_statements_and_expressions_parse(page: Page) -> None:
    for block in page.blocks():
        where = f"{page.name}:{block.start}"
        if block.language == "dmq" and "fragment" in block.words:
            assert parse_module(block.text, where)[1] == []
        elif block.language == "xquery":
            parse_query(block.text, where)


@every_page
def test_code_says_what_it_is(page: Page) -> None:
    """A misspelt word after the language would take a block out of these tests."""
    for block in page.blocks():
        assert block.language in ("dmq", "xquery", "xml", "console", "json", "text", "ebnf", "python", "sh"), block
        known = [word for word in block.words if word in ("fragment", ELSEWHERE) or word.startswith("file=")]
        assert list(block.words) == known, f"{page.name}:{block.start}"


# --- links -----------------------------------------------------------------------------------------------------------


@every_page
def test_links_lead_somewhere(page: Page) -> None:
    for link in page.links():
        path, _, fragment = link.partition("#")
        if "://" in path:
            continue
        target = (page.path.parent / path).resolve() if path else page.path
        assert target.exists(), f"{page.name}: {link}"
        if fragment:
            assert fragment in [anchor(heading) for heading in Page(target).headings()], f"{page.name}: {link}"


def test_every_page_is_in_the_index() -> None:
    index = Page(PROJECT / "docs" / "README.md")
    linked = {(index.path.parent / link.partition("#")[0]).resolve() for link in index.links()}
    pages = {path.resolve() for path in (PROJECT / "docs").rglob("*.md")} - {index.path.resolve()}

    assert pages - linked == set()


def test_pages_name_no_place_outside_the_project() -> None:
    for page in PAGES:
        assert not re.search(r"/(?:work|tmp|home|root)/", page.text), page.name


# --- the reference is complete ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_is_in_the_reference_with_all_its_options(name: str) -> None:
    section = Page(REFERENCE / "command-line.md").section(f"demaq {name}")
    command = cli.demaq.commands[name]
    assert isinstance(command, LazyCommand)

    loaded = command.load()
    nested = [loaded, *loaded.commands.values()] if isinstance(loaded, click.Group) else [loaded]
    for parameter in [parameter for each in nested for parameter in each.params]:
        for option in parameter.opts:
            if option.startswith("-"):
                assert f"`{option}" in section, f"demaq {name} {option}"


def test_every_code_has_its_place_in_the_reference() -> None:
    source = Path(demaq.__file__).parent
    used = {code for path in source.rglob("*.py") for code in re.findall(r'"(DQ[01][1-8]\d\d)"', path.read_text())}

    assert used | set(CODES) <= set(DIAGNOSTICS.headings())


def test_every_function_of_our_own_is_in_the_reference() -> None:
    headings = " ".join(Page(REFERENCE / "functions.md").headings())

    for uri, local in ARITIES:
        if uri == QS:
            assert f"qs:{local}(" in headings


def test_every_refused_function_is_in_the_reference_with_its_reason() -> None:
    text = Page(REFERENCE / "functions.md").text

    for (_, local), reason in REFUSED.items():
        assert f"| `{local}` | {reason} |" in text


def test_every_property_of_the_system_is_in_the_reference_with_its_type() -> None:
    text = Page(REFERENCE / "properties.md").text

    for name, type_ in SYSTEM_PROPERTIES.items():
        assert f"| `{name}` | `xs:{type_}` |" in text
    for name in (*GATEWAY_PROPERTIES, *ECHO_PROPERTIES):
        assert f"| `{name}` |" in text


def test_every_setting_of_a_node_is_in_the_reference_with_its_default() -> None:
    text = Page(REFERENCE / "settings.md").text
    run = cli.demaq.commands["run"]
    assert isinstance(run, LazyCommand)

    for parameter in run.load().params:
        for option in parameter.opts:
            if option.startswith("-"):
                default = parameter.default
                shown = f"{default:,g}" if isinstance(default, int | float) else f"`{default}`"
                is_empty = getattr(parameter, "multiple", False) or not isinstance(default, str | int | float)
                shown = "none" if is_empty else shown
                named = rf"{option} [A-Z]+"
                if getattr(parameter, "is_flag", False):
                    named, shown = option, "no"
                assert re.search(rf"^\| `{named}` \| {re.escape(shown)} \|", text, re.MULTILINE), option


def test_every_limit_in_the_reference_is_the_real_one() -> None:
    text = Page(REFERENCE / "settings.md").text
    limits = {
        "nesting of the text": f"{NESTING_MAX:,} levels",
        "nesting of one rule body, property value or function": f"{NESTING_MAX_COMPILED:,} levels",
        "nesting of elements, in a message from outside": f"{DEPTH_MAX:,} levels",
        "namespaces at one place of a message from outside": f"{NAMESPACES_IN_SCOPE_MAX:,} |",
        "different namespaces and prefixes of a message from outside": f"{NAMESPACES_MAX:,} |",
        "elements, attributes, comments and instructions of a message from outside": f"{NODES_MAX:,} |",
        "attributes of one element": f"{ATTRIBUTES_MAX:,} |",
        "different names of elements and attributes": f"{NAMES_MAX:,} |",
        "length of such a name": f"{NAME_CHARACTERS_MAX:,} characters",
        "one text, or value of an attribute": f"{TEXT_BYTES_MAX // 1_000_000:,} MB",
        "comments and processing instructions on one side of the root": f"{OUTSIDE_MAX:,} |",
        "what `demaq send` hands to a node at once": f"{REQUEST_BYTES_MAX // 1024**2:,} MiB",
        "how long a request key (`demaq send --request`) is remembered": f"{REQUEST_MEMORY_SECONDS // 3600} hours after",
        "messages of a round": f"{ROUND_MESSAGES_MAX:,} |",
        "timers that fire at once": f"{TIMERS_MAX:,} |",
        "messages that Saxon is given at once": f"{BATCH_MESSAGES_MAX:,} |",
        "how often a rule is asked that ends its process": f"{ATTEMPTS_MAX:,} |",
        "rules of one message that exceed a limit": f"{RULES_GIVEN_UP_MAX:,} |",
        "growth of an evaluator process": f"{GROWTH_MAX_MEGABYTES:,} MB",
        "new names of elements and attributes in an evaluator process": f"{NAMES_KEPT_MAX:,} |",
    }

    for what, limit in limits.items():
        assert f"\n| {what} | {limit}" in text
