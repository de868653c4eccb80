"""What executors on other machines need of ours: this package as an archive, and the files of an application."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from lxml import etree

from demaq.evaluation.outcomes import Location, Outcome
from demaq.files import name_in_errors
from demaq.language.loader import load_program_texts
from demaq.language.program.program import Program
from demaq.xml_parsers import parse_file_content

ARCHIVE_NAME = "demaq-package.zip"
_LEFT_OUT = "__pycache__"


def package_archive(folder: Path) -> Path:
    """The package with all its files, not only Python's, as an archive in that folder."""
    source = Path(__file__).parents[1]
    archive = folder / ARCHIVE_NAME
    unfinished = archive.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as target:
        for file in sorted(source.rglob("*")):  # folders too: without their entries Python finds no namespace packages
            if _LEFT_OUT not in file.parts:
                target.write(file, Path(source.name) / file.relative_to(source))
    os.replace(unfinished, archive)
    return archive


_REFERENCES = "(//xs:include | //xs:import | //xs:redefine | //xs:override)/@schemaLocation | //wsdl:import/@location"
_NAMESPACES = {"xs": "http://www.w3.org/2001/XMLSchema", "wsdl": "http://schemas.xmlsoap.org/wsdl/"}


def companion_files(files: Mapping[str, str]) -> dict[str, bytes]:
    """The files that modules name, by the path at which they are looked for."""
    found: dict[str, bytes] = {}
    waiting = list(_named(load_program_texts(files)))
    while waiting:
        path = waiting.pop()
        if str(path) not in found:
            with suppress(OSError):  # a reference to what is not there was no mistake for whoever has checked it
                found[str(path)] = path.read_bytes()
                waiting += _referenced(path, found[str(path)])
    return found


def unpacked(files: Mapping[str, str], companions: Mapping[str, bytes], below: Path) -> tuple[dict[str, str], str]:
    """The modules under the names that they have where their companions are, and what was put in front of each."""
    if not companions:
        return dict(files), ""
    root = below / f"demaq-{hashlib.sha256(repr(sorted(companions.items())).encode()).hexdigest()}"
    for name, data in companions.items():
        file = Path(f"{root}{name}")
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f".{file.name}.{os.getpid()}")  # other workers of the executor do the same
        with name_in_errors(file):
            unfinished.write_bytes(data)
        os.replace(unfinished, file)
    return {f"{root}{name}": text for name, text in files.items()}, str(root)


def with_own_places(outcomes: Sequence[Outcome | None], root: str) -> None:
    """Let errors say where they are in the modules as their author knows them."""
    for outcome in outcomes if root else ():
        if outcome is not None and outcome.errors:
            outcome.errors = [replace(error, at=_own(error.at, root)) for error in outcome.errors]


def _own(at: Location | None, root: str) -> Location | None:
    return None if at is None else replace(at, file=at.file.removeprefix(root))


def _named(program: Program) -> Iterator[Path]:
    for module in program.modules:
        yield from [Path(library.at.file) for library in module.libraries]
    for queue in program.queues.values():
        yield from _present([queue.schema])
        if queue.gateway is not None:
            yield from _present([queue.gateway.interface, *[policy for _, policy in queue.gateway.extensions]])


def _present(paths: Iterable[Path | None]) -> list[Path]:
    return [path for path in paths if path is not None]


def _referenced(path: Path, data: bytes) -> list[Path]:
    """The files that a schema or an interface is made of."""
    try:
        root = parse_file_content(data)
    except etree.XMLSyntaxError:
        return []  # a library
    found = root.xpath(_REFERENCES, namespaces=_NAMESPACES)
    assert isinstance(found, list), "a path selects nodes"
    places = [str(place) for place in found]
    return [Path(os.path.normpath(path.parent / unquote(place))) for place in places if "://" not in place]
