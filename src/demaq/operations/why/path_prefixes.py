"""The prefixes of a path, each of which can be evaluated: how far does it lead?

/order[@kind = "rush"]/total      /order, /order[@kind = "rush"], /order[@kind = "rush"]/total
"""

from __future__ import annotations

from dataclasses import dataclass

from demaq.compiler.emit.xquery.vocabulary import fn
from demaq.language import ast
from demaq.source import NOWHERE, SourceLocation

_DOWNWARD = ("child", "descendant", "descendant-or-self", "self", "attribute")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Prefix:
    """The beginning of a path, and what it has more than the one before: a step, a predicate, or something else."""

    expr: ast.Expr
    text: str
    separators: tuple[str, ...] = ()
    steps: tuple[ast.Expr, ...] = ()
    """Of a path; empty if the expression is none."""
    step: ast.AxisStep | None = None
    predicate: ast.Predicate | None = None

    @property
    def is_from_root(self) -> bool:
        return self.separators == ("/",)


def list_prefixes(expr: ast.Expr) -> list[Prefix]:
    """Return the prefixes of a path, the shortest first. The last one is the expression itself."""
    match expr:
        case ast.Path():
            return _path_prefixes(expr)
        case ast.AxisStep():
            return _step_prefixes(expr, (), (), "", expr.at)
        case ast.Postfix():
            return _postfix_prefixes(expr)
        case ast.OperatorChain():
            found: list[Prefix] = []
            for count in range(1, len(expr.operands)):
                made = expr.operands[0]
                if count > 1:
                    made = ast.OperatorChain(NOWHERE, expr.operators[: count - 1], expr.operands[:count])
                found.append(Prefix(expr=made, text=_text(expr.at, expr.operands[count - 1].at.end)))
            return [*found, Prefix(expr=expr, text=_text(expr.at, expr.at.end))]
    return [Prefix(expr=expr, text=_text(expr.at, expr.at.end))]


def _path_prefixes(path: ast.Path) -> list[Prefix]:
    found: list[Prefix] = []
    separators: tuple[str, ...] = ()
    steps: tuple[ast.Expr, ...] = ()
    for separator, step in zip(path.separators, path.steps, strict=True):
        if isinstance(step, ast.AxisStep):
            found += _step_prefixes(step, separators, steps, separator, path.at)
        elif not steps and not separator:
            found += list_prefixes(step) if isinstance(step, ast.Postfix) else [_simple(step)]
        else:
            made = ast.Path(NOWHERE, (*separators, separator), (*steps, step))
            found.append(Prefix(expr=made, text=_text(path.at, step.at.end)))
        separators, steps = (*separators, separator), (*steps, step)
    return found


def _step_prefixes(
    step: ast.AxisStep,
    separators: tuple[str, ...],
    steps: tuple[ast.Expr, ...],
    separator: str,
    at: SourceLocation,
) -> list[Prefix]:
    """Return the prefixes that end with a step: without its predicates, with the first of them, and so on."""
    found: list[Prefix] = []
    for count in range(len(step.predicates) + 1):
        bare = (
            step
            if count == len(step.predicates)
            else ast.AxisStep(NOWHERE, step.axis, step.test, step.predicates[:count])
        )
        all_separators, all_steps = (*separators, separator), (*steps, bare)
        made: ast.Expr = ast.Path(NOWHERE, all_separators, all_steps) if steps or separator else bare
        end = step.predicates[count - 1].at.end if count else _end_of_test(step)
        found.append(
            Prefix(
                expr=made,
                text=_text(at, end),
                separators=all_separators,
                steps=all_steps,
                step=ast.AxisStep(_cut(step.at, end), step.axis, step.test) if count == 0 else None,
                predicate=step.predicates[count - 1] if count else None,
            )
        )
    return found


def _postfix_prefixes(expr: ast.Postfix) -> list[Prefix]:
    found = [_simple(expr.base)]
    for count in range(1, len(expr.suffixes) + 1):
        suffix = expr.suffixes[count - 1]
        made = expr if count == len(expr.suffixes) else ast.Postfix(NOWHERE, expr.base, expr.suffixes[:count])
        predicate = suffix if isinstance(suffix, ast.Predicate) else None
        found.append(Prefix(expr=made, text=_text(expr.at, suffix.at.end), predicate=predicate))
    return found


def _simple(expr: ast.Expr) -> Prefix:
    return Prefix(expr=expr, text=_text(expr.at, expr.at.end))


def names_beside(prefix: Prefix, before: Prefix | None) -> list[ast.Expr] | None:
    """Return expressions for names: where a step leads, of the other kind there, and further down.

    The other kind are attributes for an element, and elements for an attribute. A step upwards or to a sibling has
    none of these two.
    """
    step = prefix.step
    if step is None or not prefix.steps:
        return None
    separators, steps = prefix.separators[:-1], prefix.steps[:-1]
    last = prefix.separators[-1]
    attribute = step.axis == "attribute"

    def names(separator: str, axis: str) -> ast.Expr:
        any_name = ast.AxisStep(NOWHERE, axis, ast.NameTest(NOWHERE, "*", "*"))
        path: ast.Expr = (
            ast.Path(NOWHERE, (*separators, separator), (*steps, any_name)) if steps or separator else any_name
        )
        name = f"({fn('concat')}('Q{{', {fn('namespace-uri')}(.), '}}', {fn('local-name')}(.)))"
        return ast.Template(NOWHERE, (f"{fn('distinct-values')}((", path, f") ! {name})"))

    if step.axis not in _DOWNWARD:
        nothing = ast.Template(NOWHERE, ("()",))
        return [names(last, step.axis), nothing, nothing]
    down = "//" if separators or last else ""
    deeper = names(down or "", "attribute" if attribute else "descendant")
    return [names(last, step.axis), names(last, "child" if attribute else "attribute"), deeper]


def _end_of_test(step: ast.AxisStep) -> int:
    return step.predicates[0].at.start if step.predicates else step.at.end


def _cut(at: SourceLocation, end: int) -> SourceLocation:
    return SourceLocation(at.source, at.start, end)


def _text(at: SourceLocation, end: int) -> str:
    return " ".join(at.source.text[at.start : end].split())
