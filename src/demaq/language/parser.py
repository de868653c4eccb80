"""The public entry points of the parser. For any text they return a tree or raise ProgramError."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from demaq.errors import ProgramError
from demaq.language import ast
from demaq.language.parsing.prolog import Prolog
from demaq.language.parsing.statements import Statements
from demaq.language.recursion import deep_recursion
from demaq.source import NOWHERE, Source, SourceLocation

SUFFIX = ".dmq"
Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""Files of an application, or the folders that hold them."""


def parse_query(text: str, file: str = "<query>") -> ast.Query:
    """Parse one XQuery module, main or library."""
    source = Source(text, file)
    with deep_recursion():
        return Prolog(source).query()


def parse_module(text: str, file: str = "<module>") -> tuple[ast.Module, list[ProgramError]]:
    """Parse one module of an application with error recovery.

    Return the tree of what could be parsed, and the errors.
    """
    source = Source(text, file)
    with deep_recursion():
        try:
            parser = Statements(source, in_rule=True)
        except ProgramError as error:
            return ast.Module(SourceLocation(source, 0, 0), None, None, (), (), ()), [error]
        module = parser.module()
    return module, parser.errors


def parse_application(paths: Paths) -> ast.Application:
    """Parse an application's files, or the folders that hold them. Raises the first error; `others` has the rest."""
    application, errors = read_application(paths)
    if errors:
        first = errors[0]
        first.others = tuple(errors[1:])
        raise first
    return application


def read_application(paths: Paths) -> tuple[ast.Application, list[ProgramError]]:
    """Parse an application and report all syntax errors of all its files."""
    modules: list[ast.Module] = []
    errors: list[ProgramError] = []
    for path in find_application_files(paths):
        try:
            text = read_source(path)
        except ProgramError as error:  # the other files may have errors as well
            errors.append(error)
            continue
        module, found = parse_module(text, str(path))
        modules.append(module)
        errors.extend(found)
    return ast.Application(modules[0].at if modules else NOWHERE, tuple(modules)), errors


def find_application_files(paths: Paths) -> list[Path]:
    """Return the files: a file stands for itself, a folder for the .dmq files in it and below."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: dict[Path, Path] = {}
    for item in given:
        path = Path(item)
        if path.is_dir():
            inside = sorted(path.rglob(f"*{SUFFIX}"))
            if not inside:
                raise ProgramError(f"{path}: the folder holds no {SUFFIX} file", code="DQ0104")
            for file in inside:
                found.setdefault(Path(os.path.realpath(file)), file)
        else:
            found.setdefault(Path(os.path.realpath(path)), path)
    if not found:
        raise ProgramError("no file was given", code="DQ0104")
    return list(found.values())


def read_source(path: Path) -> str:
    """Return the text of a file in UTF-8, with or without a byte order mark."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ProgramError(f"{path}: cannot be read: {error.strerror or error}", code="DQ0104") from error
    return decode_source(data, str(path))


def decode_source(data: bytes, file: str) -> str:
    """Return the text of a module from its bytes."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        source = Source(data[: error.start].decode("utf-8-sig"), file)
        at = SourceLocation(source, len(source.text), len(source.text))
        raise ProgramError(
            f"byte 0x{data[error.start]:02X} is not UTF-8", at, "programs are written in UTF-8", "DQ0103"
        ) from error
