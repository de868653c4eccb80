"""The files that a queue names can be read and are valid: schemas and interfaces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from demaq.errors import ProgramError
from demaq.language import ast
from demaq.language.diagnostics import Diagnostic, error
from demaq.language.program.bodies import DraftModule
from demaq.language.program.draft import Draft
from demaq.xml_parsers import parse_file


def queue_files(draft: Draft) -> Iterator[Diagnostic]:
    for module, queue in draft.statements(ast.QueueDecl):
        if queue.schema is not None:
            yield from _schema(module, queue.schema)
        if queue.interface is not None:
            yield from _interface(module, queue, queue.interface)


def resolve_file(module: DraftModule, file: ast.File) -> Path:
    """Return the path of a file, relative to the folder of the module that names it."""
    return module.folder / file.path


def _schema(module: DraftModule, file: ast.File) -> Iterator[Diagnostic]:
    try:
        etree.XMLSchema(parse_file(resolve_file(module, file)))
    except (OSError, etree.XMLSyntaxError, etree.XMLSchemaParseError) as failure:
        yield error(
            "DQ0601",
            f"schema {file.path} cannot be used: {explain_file_error(failure)}",
            file.at,
            _where(module, failure),
        )


def _interface(module: DraftModule, queue: ast.QueueDecl, file: ast.File) -> Iterator[Diagnostic]:
    from demaq.soap.wsdl import read_interface  # imported only for programs with an interface

    path = resolve_file(module, file)
    try:
        read_interface(path, queue.port)
    except ProgramError as failure:
        words = failure.message
        if failure.code == "DQ0602":
            words = f"interface {file.path} cannot be used: {words}"
        hint = failure.hint if path.is_file() else name_folder(module)
        yield error(failure.code, words, file.at, hint)


def explain_file_error(failure: Exception) -> str:
    """Return why a file cannot be read, in one line."""
    if isinstance(failure, OSError) and failure.strerror:
        return failure.strerror
    return str(failure).splitlines()[0] if str(failure) else "it is not well-formed"


def _where(module: DraftModule, failure: Exception) -> str | None:
    if isinstance(failure, OSError):
        return name_folder(module)
    return None


def name_folder(module: DraftModule) -> str:
    """Return a hint: where files are looked for."""
    return f"files are found from the module's folder, {module.folder}"
