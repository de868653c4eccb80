"""Warn of properties read where they never have a value, and of booleans written as element names."""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language import ast
from demaq.language.analysis.flow import Flow
from demaq.language.diagnostics import Diagnostic, warning
from demaq.language.namespaces import QS, XS
from demaq.language.program.draft import Draft
from demaq.language.resolving.names import Names


def absent_properties(draft: Draft) -> Iterator[Diagnostic]:
    flow = Flow(draft)
    for rule in draft.rules:
        sources = flow.sources(rule)
        for call in rule.body.calls_of(QS, "property"):
            if call.literal is None or call.args is None or len(call.args) != 1:
                continue
            name = rule.module.names.parts.get(call.literal)
            queues = draft.queues_of(name) if name is not None else None
            if queues is not None and sources and not [queue for queue in sources if queue in queues]:
                yield warning(
                    "DQ1303",
                    f'property "{name}" is not defined on queue "{sources[0]}" and is always absent here',
                    call.literal.at,
                    f'define it there: queue {sources[0]}, where "{name}" is created',
                )


def boolean_constants(draft: Draft) -> Iterator[Diagnostic]:
    for module, statement in draft.statements(ast.PropertyDecl):
        for part in statement.parts:
            word = boolean_constant(statement, part, module.names)
            if word is not None and part.value is not None:
                yield warning(
                    "DQ1301",
                    f"`{word}` is taken for the constant {word}(), not for an element of that name",
                    part.value.at,
                    f"write value {word}()",
                )


def boolean_constant(statement: ast.PropertyDecl, part: ast.PropertyQueues, names: Names) -> str | None:
    """Return `true` or `false` if the value of a boolean property is one of these words, as in the paper."""
    value = part.value
    if names.types.get(statement.type) != (XS, "boolean") or not isinstance(value, ast.AxisStep):
        return None
    test = value.test
    if value.axis != "child" or value.predicates or not isinstance(test, ast.NameTest):
        return None
    plain = test.prefix is None and test.uri is None and value.at.text in ("true", "false")
    return test.local if plain else None
