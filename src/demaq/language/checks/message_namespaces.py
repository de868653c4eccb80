"""Warn of element names in another namespace than the schema or the interface of the queue declares."""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language import ast
from demaq.language.analysis.message_names import find_message_names
from demaq.language.analysis.missed_names import Vocabulary, find_missed_names
from demaq.language.analysis.schema_names import read_interface_names, read_schema_names
from demaq.language.checks.named_files import resolve_file
from demaq.language.diagnostics import Diagnostic, warning
from demaq.language.program.draft import Draft
from demaq.language.resolving.names import Names


def names_in_other_namespaces(draft: Draft) -> Iterator[Diagnostic]:
    known = _vocabularies(draft)
    if not known:
        return
    for rule in draft.rules:
        queues = draft.slicing_queues(rule.target or "") if rule.on_slicing else (rule.target or "",)
        yield from _missed(rule.decl.body, rule.module.names, queues or (), known)
    for declared in draft.properties.values():
        if declared.decl is None or declared.module is None:
            continue
        for part in declared.decl.parts:
            for queue in part.queues if part.value is not None else ():
                name = declared.module.part(queue)
                assert part.value is not None, "looked at above"
                yield from _missed(part.value, declared.module.names, (name or "",), known)


def _missed(
    expr: ast.Expr, names: Names, queues: tuple[str, ...], known: dict[str, Vocabulary]
) -> Iterator[Diagnostic]:
    """Compare with what the queues may hold; a queue without a schema may hold anything."""
    if not queues or any([queue not in known for queue in queues]):
        return
    vocabulary = known[queues[0]]
    for queue in queues[1:]:
        vocabulary |= known[queue]
    where = f'queue "{queues[0]}"' if len(queues) == 1 else "queues " + ", ".join([f'"{queue}"' for queue in queues])
    for missed in find_missed_names(find_message_names(expr, names), vocabulary, names.prefixes):
        yield warning("DQ1204", f"{missed.words} the messages of {where}", missed.asked.at, missed.hint)


def _vocabularies(draft: Draft) -> dict[str, Vocabulary]:
    """Return the elements that messages of each queue may have, for queues with a schema or interface."""
    found: dict[str, Vocabulary] = {}
    for name, declared in draft.queues.items():
        queue, module = declared.decl, declared.module
        if queue is None or module is None:
            continue
        vocabulary: Vocabulary | None = None
        if queue.schema is not None:
            vocabulary = read_schema_names(resolve_file(module, queue.schema))
        elif queue.interface is not None and queue.kind == "incomingGateway":
            vocabulary = read_interface_names(resolve_file(module, queue.interface), queue.port)
        if vocabulary is not None:
            found[name] = vocabulary
    return found
