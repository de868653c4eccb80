"""The files that a queue names can be read and are valid: schemas, interfaces and policies."""

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
    for module in draft.modules:
        for statement in module.tree.statements:
            if not isinstance(statement, ast.QueueDecl):
                continue
            if statement.schema is not None:
                yield from _schema(module, statement.schema)
            if statement.interface is not None:
                yield from _interface(module, statement, statement.interface)
            for using in statement.using:
                if using.policy is not None:
                    yield from _policy(module, using.policy)


def resolve_file(module: DraftModule, file: ast.File) -> Path:
    """Return the path of a file, relative to the folder of the module that names it."""
    return module.folder / file.path


def _schema(module: DraftModule, file: ast.File) -> Iterator[Diagnostic]:
    try:
        etree.XMLSchema(parse_file(resolve_file(module, file)))
    except (OSError, etree.XMLSyntaxError, etree.XMLSchemaParseError) as failure:
        yield error(
            "DQ0601", f"schema {file.path} cannot be used: {_reason(failure)}", file.at, _where(module, failure)
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
        hint = failure.hint if path.is_file() else _found_from(module)
        yield error(failure.code, words, file.at, hint)


def _policy(module: DraftModule, file: ast.File) -> Iterator[Diagnostic]:
    try:
        parse_file(resolve_file(module, file))
    except (OSError, etree.XMLSyntaxError) as failure:
        yield error(
            "DQ0603", f"policy {file.path} cannot be used: {_reason(failure)}", file.at, _where(module, failure)
        )


def _reason(failure: Exception) -> str:
    if isinstance(failure, OSError) and failure.strerror:
        return failure.strerror
    return str(failure).splitlines()[0] if str(failure) else "it is not well-formed"


def _where(module: DraftModule, failure: Exception) -> str | None:
    if isinstance(failure, OSError):
        return _found_from(module)
    return None


def _found_from(module: DraftModule) -> str:
    return f"files are found from the module's folder, {module.folder}"
