"""Every queue, property, slicing, collection and rule has a unique name, and none has a reserved one."""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language import ast
from demaq.language.diagnostics import Diagnostic, error
from demaq.language.program.draft import Draft
from demaq.system_properties import transport_properties


def duplicate_names(draft: Draft) -> Iterator[Diagnostic]:
    for repeated in draft.repeated:
        hint = None
        if repeated.kind in ("queue", "slicing"):
            hint = "queues and slicings share their names, because both follow `for`"
        yield error(
            "DQ0208",
            f'{repeated.kind} "{repeated.name}" is defined already at {repeated.first.at}',
            repeated.name.at,
            hint,
        )


def reserved_names(draft: Draft) -> Iterator[Diagnostic]:
    for module in draft.modules:
        for statement in module.tree.statements:
            name = module.part(statement.name)
            if name is not None and name.startswith("demaq:"):
                yield error(
                    "DQ0210",
                    f'"{name}" is a name of the system\'s own',
                    statement.name.at,
                    f"call it {statement.name.local}, or give it a prefix of your own",
                )
            elif name is not None and isinstance(statement, ast.PropertyDecl):
                yield from _transport_names(draft, name, statement)


def _transport_names(draft: Draft, name: str, statement: ast.PropertyDecl) -> Iterator[Diagnostic]:
    for queue in draft.queues_of(name) or ():
        if name in transport_properties(draft.kind_of(queue)):
            yield error(
                "DQ0210",
                f'"{name}" already means something on queue "{queue}"',
                statement.name.at,
                f"set it with `with {name} value …`, or give your property another name",
            )
