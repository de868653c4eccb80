"""What executors on other machines need: this package as an archive, and the files of an application."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lxml import etree

from demaq.evaluation.arrival_request import ArrivalResult
from demaq.evaluation.outcomes import AskedRule, Location, Outcome
from demaq.evaluation.round_request import RoundResult
from demaq.files import name_in_errors
from demaq.language.loader import load_program_texts
from demaq.language.program.program import Program
from demaq.xml_parsers import parse_file_content

ARCHIVE_NAME = "demaq-package.zip"
_EXCLUDED = "__pycache__"


def create_package_archive(folder: Path) -> Path:
    """Write an archive of this package, with all its files, into the folder. Return its path."""
    source = Path(__file__).parents[1]
    archive = folder / ARCHIVE_NAME
    unfinished = archive.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as target:
        for file in sorted(source.rglob("*")):  # with folders, which Python needs to find namespace packages
            if _EXCLUDED not in file.parts:
                target.write(file, Path(source.name) / file.relative_to(source))
    os.replace(unfinished, archive)
    return archive


_REFERENCES = "(//xs:include | //xs:import | //xs:redefine | //xs:override)/@schemaLocation | //wsdl:import/@location"
_NAMESPACES = {"xs": "http://www.w3.org/2001/XMLSchema", "wsdl": "http://schemas.xmlsoap.org/wsdl/"}


def read_companion_files(files: Mapping[str, str]) -> dict[str, bytes]:
    """Return the files that modules refer to, by their paths."""
    found: dict[str, bytes] = {}
    waiting = list(_list_files(load_program_texts(files)))
    while waiting:
        path = waiting.pop()
        if str(path) not in found:
            with suppress(OSError):  # a missing file was accepted when the program was checked
                found[str(path)] = path.read_bytes()
                waiting += _list_references(path, found[str(path)])
    return found


def unpack_files(files: Mapping[str, str], companions: Mapping[str, bytes], below: Path) -> tuple[dict[str, str], str]:
    """Write the companion files into a folder. Return the modules by their paths there, and the folder."""
    if not companions:
        return dict(files), ""
    root = below / f"demaq-{hashlib.sha256(repr(sorted(companions.items())).encode()).hexdigest()}"
    for name, data in companions.items():
        file = Path(f"{root}{name}")
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f".{file.name}.{os.getpid()}")  # other workers of the executor write it too
        with name_in_errors(file):
            unfinished.write_bytes(data)
        os.replace(unfinished, file)
    return {f"{root}{name}": text for name, text in files.items()}, str(root)


def restore_answer(answer: Any, root: str) -> None:
    """Replace the paths in an answer of a worker by those of the author's files."""
    if not root:
        return
    match answer:
        case RoundResult() | ArrivalResult():
            restore_answer([*answer.outcomes, *answer.descendants], root)
        case Outcome():
            answer.errors = [
                error if error.at is None else replace(error, at=_restore_location(error.at, root))
                for error in answer.errors
            ]
        case list():
            for position, item in enumerate(answer):
                if isinstance(item, AskedRule):
                    answer[position] = replace(item, at=_restore_location(item.at, root))
                else:
                    restore_answer(item, root)


def _restore_location(at: Location, root: str) -> Location:
    return replace(at, file=at.file.removeprefix(root))


def _list_files(program: Program) -> Iterator[Path]:
    for module in program.modules:
        yield from [Path(library.at.file) for library in module.libraries]
    for queue in program.queues.values():
        yield from _present([queue.schema])
        if queue.gateway is not None:
            yield from _present([queue.gateway.interface, *[policy for _, policy in queue.gateway.extensions]])


def _present(paths: Iterable[Path | None]) -> list[Path]:
    return [path for path in paths if path is not None]


def _list_references(path: Path, data: bytes) -> list[Path]:
    """Return the files that a schema or an interface refers to."""
    try:
        root = parse_file_content(data)
    except etree.XMLSyntaxError:
        return []  # a library
    found = root.xpath(_REFERENCES, namespaces=_NAMESPACES)
    assert isinstance(found, list), "a path selects nodes"
    places = [str(place) for place in found]
    return [Path(os.path.normpath(path.parent / unquote(place))) for place in places if "://" not in place]
