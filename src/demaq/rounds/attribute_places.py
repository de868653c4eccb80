"""Where a rule may have failed when it was in an attribute: Saxon counts lines anew inside `<a b="{…}"/>`.

So all that is known is that it was in some attribute, of the rule or of a function it may call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from demaq.language import ast
from demaq.language.program import ModuleContext, Rule
from demaq.language.source import Place


def place_in_attributes(rule: Rule, module: ModuleContext) -> Place | None:
    """The attribute, if there is only one; the action, if all are in one; else nothing that would be certain."""
    if any([True for prolog in _prologs(module) for _ in _computed_attributes(prolog)]):
        return None
    found = list(_computed_attributes([rule.body]))
    if len(found) == 1:
        return found[0].at
    actions = [node for node in ast.walk(rule.body) if isinstance(node, ast.Enqueue)]
    around = [action.at for action in actions if found and _holds(action.at, found)]
    return around[0] if around else None


def _prologs(module: ModuleContext) -> Iterator[Sequence[ast.Node]]:
    yield module.tree.prolog
    for library in module.libraries:
        yield library.prolog


def _computed_attributes(trees: Sequence[ast.Node]) -> Iterator[ast.DirectAttribute]:
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.DirectAttribute) and any([isinstance(part, ast.Enclosed) for part in node.parts]):
                yield node


def _holds(place: Place, nodes: Sequence[ast.Node]) -> bool:
    return all([place.start <= node.at.start and node.at.end <= place.end for node in nodes])
