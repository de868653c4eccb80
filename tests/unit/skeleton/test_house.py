"""How the sources hang together: which package may import which, no cycles, and no name twice."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[3] / "src"
TOP = "top"
"""The modules beside the packages: messages, documents, errors and other things that everything speaks of."""
MAY_IMPORT = {
    TOP: (),
    "schemas": (),
    "soap": (TOP,),
    "store": (TOP,),
    "language": (TOP, "soap"),
    "compiler": (TOP, "language"),
    "evaluation": (TOP, "store", "language", "compiler"),
    "engine": (TOP, "store", "language", "compiler", "evaluation"),
    "control": (TOP, "store", "engine"),
    "spark": (TOP, "store", "language", "evaluation"),
    "bulk": (TOP, "store", "language", "compiler", "evaluation", "engine", "control", "spark"),
    "gateways": (TOP, "schemas", "soap", "store", "language", "compiler", "evaluation", "engine"),
    "operations": (
        *(TOP, "soap", "store", "language", "compiler", "evaluation", "engine", "control"),
        *("spark", "bulk", "gateways"),
    ),
    "server": (
        *(TOP, "soap", "store", "language", "compiler", "evaluation", "engine", "control"),
        *("spark", "bulk", "gateways", "operations"),
    ),
    "console": (
        *(TOP, "store", "language", "compiler", "evaluation", "engine", "control"),
        *("bulk", "gateways", "operations", "server"),
    ),
    "testing": (TOP, "store", "language", "evaluation", "engine", "spark", "operations"),
    "cli": (
        *(TOP, "schemas", "store", "language", "compiler", "evaluation", "engine", "control"),
        *("spark", "bulk", "gateways", "operations", "server", "console", "testing"),
    ),
}
"""Each package with those it may import, lowest first."""
FACES = ("demaq", "demaq.spark")
"""What users import. They fetch names from anywhere when these are asked for, and nothing here imports names of them."""
MIRRORED = {"parsing", "printing"}
"""What is parsed is printed. Besides, the module of a command is named after the command."""
SAME_CLASSES = {"Node": ("language/ast.py", "server/node.py")}
"""A node of a tree, as in every compiler, and a node that runs an application, as in every distributed system."""
SAME_MODULES = {"replay.py": ("bulk/replay.py", "engine/replay.py")}
"""One message, and many of them on Spark."""


@functools.cache
def modules() -> Mapping[str, Path]:
    found = {}
    for file in SOURCES.glob("demaq/**/*.py"):
        name = ".".join(file.relative_to(SOURCES).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = file
    return found


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements, however deep: `ast.walk` would visit ten times as many expressions."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, part, ()):
            yield node
            yield from statements(node)


@dataclass(frozen=True)
class Contents:
    """What is asked of a module. Its tree is not kept: the garbage collector would look at a million nodes."""

    imports: frozenset[str]
    classes: tuple[str, ...]


@functools.cache
def contents(name: str) -> Contents:
    tree = ast.parse(modules()[name].read_text())
    return Contents(
        frozenset(imports(tree)), tuple([node.name for node in tree.body if isinstance(node, ast.ClassDef)])
    )


def imports(tree: ast.Module) -> Iterator[str]:
    """Yield the modules of ours that a module imports, wherever it does."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from [alias.name for alias in node.names if alias.name.split(".")[0] == "demaq"]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "demaq":
            assert node.module is not None
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                yield below if below in modules() else node.module


@functools.cache
def graph() -> Mapping[str, frozenset[str]]:
    return {name: contents(name).imports - {name} for name in modules() if name not in FACES}


def package_of(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 2 or (SOURCES / "demaq" / parts[1]).is_dir() else TOP


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_what_is_below_it(package: str):
    assert all(list(MAY_IMPORT).index(below) < list(MAY_IMPORT).index(package) for below in MAY_IMPORT[package])
    found = defaultdict(list)
    for name, imported in graph().items():
        for other in imported:
            if package_of(name) == package != package_of(other):
                found[package_of(other)].append(f"{name} imports {other}")

    assert {below: found[below] for below in found if below not in MAY_IMPORT[package]} == {}


def test_every_package_has_its_place():
    assert {package_of(name) for name in graph()} == set(MAY_IMPORT)


def test_nothing_imports_names_of_a_face():
    assert [name for name, imported in graph().items() if imported & set(FACES)] == []


def test_no_modules_import_each_other():
    TopologicalSorter(graph()).prepare()  # raises a CycleError that names them


def test_a_class_has_a_name_of_its_own():
    found = defaultdict(list)
    for name, file in modules().items():
        for defined in contents(name).classes:
            found[defined].append(file.relative_to(SOURCES / "demaq").as_posix())

    assert {name: tuple(sorted(files)) for name, files in found.items() if len(files) > 1} == SAME_CLASSES


def test_a_module_has_a_name_of_its_own():
    found = defaultdict(list)
    for file in modules().values():
        if file.name != "__init__.py" and file.parent.name != "cli":
            found[file.name].append(file.relative_to(SOURCES / "demaq").as_posix())
    twice = {name: tuple(sorted(files)) for name, files in found.items() if len(files) > 1}
    mirrored = [name for name, files in twice.items() if {Path(file).parent.name for file in files} == MIRRORED]

    assert {name: files for name, files in twice.items() if name not in mirrored} == SAME_MODULES
