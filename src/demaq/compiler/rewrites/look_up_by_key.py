"""Read only the messages of a queue that an index finds, instead of scanning the queue.

    qs:queue("invoices")[//customerID = $c]
becomes
    index 1: lookup in //customerID of invoices of the values of $c, computed from the message before the rule runs

Safe because the rule's own predicate is still applied to what the index finds (see `find_keys`). If the predicate is
nothing but `path = text` and the rule asks only how many messages there are, or whether there are any, native rules
count index entries, and no message is read:

    count(qs:queue("invoices")[//customerID = $c])
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from demaq.compiler.context import CompilerContext
from demaq.compiler.keys import KeyFinder
from demaq.compiler.plan import Index, IndexLookup, QueueByKey, Read, RulePlan, WholeQueue
from demaq.compiler.trees import find_parents
from demaq.language import ast
from demaq.language.resolving.names import Names


@dataclass(slots=True)
class Indexes:
    """All indexes of the program; equal paths on one queue share one."""

    known: dict[tuple[str, str], Index] = field(default_factory=dict)

    def get(self, queue: str, path: ast.Expr, context: CompilerContext) -> Index:
        text = path_text(path, context.names)
        index = self.known.get((queue, text))
        if index is None:
            index = Index(number=len(self.known) + 1, queue=queue, path=text, expr=path, module=context.number)
            self.known[(queue, text)] = index
        return index


def look_up_by_key(plan: RulePlan, context: CompilerContext, indexes: Indexes) -> RulePlan:
    if not context.plain_strings:
        return plan  # under another collation, equal values may have different index entries
    if not any([isinstance(read, WholeQueue) for read in plan.sites.values()]):
        return plan
    finder = KeyFinder(plan.rule.body, context.names, find_parents(plan.rule.body), context.reads_state)
    sites: dict[ast.Node, Read] = {}
    replaced: set[Read] = set()
    kept: set[Read] = set()
    keyed: list[Read] = []
    for node, read in plan.sites.items():
        narrowed = _narrow(node, read, finder, context, indexes, len(keyed))
        sites[node] = narrowed or read
        (replaced if narrowed else kept).add(read)
        if narrowed is not None:
            keyed.append(narrowed)
    reads = [read for read in plan.reads if read not in replaced or read in kept]
    return replace(plan, sites=sites, reads=(*reads, *keyed))


def _narrow(
    node: ast.Node, read: Read, finder: KeyFinder, context: CompilerContext, indexes: Indexes, number: int
) -> QueueByKey | None:
    if not isinstance(read, WholeQueue) or read.queue is None or not isinstance(node, ast.FunctionCall):
        return None
    keys = finder.find_keys(node)
    if keys is None:
        return None
    lookups = [IndexLookup(index=indexes.get(read.queue, key.path, context), key=key.value) for key in keys]
    selected = finder.above.get(node)
    is_counted = isinstance(selected, ast.Postfix) and len(keys) == 1 and keys[0].is_exact
    if is_counted:
        assert isinstance(selected, ast.Postfix)
        is_counted = finder.is_only_counted(selected)
    return QueueByKey(queue=read.queue, lookups=tuple(lookups), number=number, is_counted=is_counted)


def path_text(path: ast.Expr, names: Names) -> str:
    """Return a path with its names expanded, so that equal paths have equal texts."""
    assert isinstance(path, ast.Path)
    pieces: list[str] = []
    for separator, step in zip(path.separators, path.steps, strict=True):
        assert isinstance(step, ast.AxisStep)
        pieces.append(separator + _step_text(step, names))
    return "".join(pieces)


def _step_text(step: ast.AxisStep, names: Names) -> str:
    axis = {"child": "", "attribute": "@"}.get(step.axis, f"{step.axis}::")
    if isinstance(step.test, ast.KindTest):
        name = names.elements.get(step.test) or names.attributes.get(step.test) or ("", "")
        inner = _step_text(ast.AxisStep(step.at, "child", step.test.inner), names) if step.test.inner else name[1]
        return f"{axis}{step.test.kind}({inner})"
    uri, local = names.elements.get(step.test) or names.attributes.get(step.test) or (None, "*")
    prefix = "*:" if uri is None and local != "*" else f"Q{{{uri}}}" if uri else ""
    return f"{axis}{prefix}{local}"
