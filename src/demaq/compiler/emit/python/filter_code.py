"""Emit filters for rules that are left to Saxon: what is known of a message before Saxon parses it.

    if (//order and matches(//order/@id, $pattern)) then …

has the filter `//order`. Conditions are taken from the first one on, as long as they are native: Saxon evaluates them
in this order, too, so what follows a condition that does not hold raises no error (XQuery 3.1, 2.3.4, allows others).
Of the first condition that is not native, if it is a path or compares one with a literal, the names are tested that the
path needs before its first predicate: without these, nothing in it is evaluated that can fail.
"""

from __future__ import annotations

from demaq.compiler.context import CompilerContext
from demaq.compiler.emit.python.code import NotTranslatable, PythonCode, Type, to_condition
from demaq.compiler.emit.python.focus import MESSAGE, FocusAndVariables
from demaq.compiler.emit.python.operators import GENERAL, SINGLE
from demaq.compiler.emit.python.rule_code import HEAD, RuleActions, refuse_setters
from demaq.compiler.emit.python.translation import Translation
from demaq.compiler.features import infer_requirements
from demaq.compiler.plan import Feature, RulePlan
from demaq.compiler.trees import is_call_of, split_conjuncts
from demaq.language import ast
from demaq.language.program.program import Program
from demaq.language.resolving.names import Names


def emit_filter(plan: RulePlan, program: Program, context: CompilerContext) -> str | None:
    """Return a function that returns whether a rule may fire on a message; None if that is not decided natively."""
    try:
        refuse_setters(context)
    except NotTranslatable:
        return None
    actions = RuleActions(plan.rule, program, context.names)
    translation = Translation(context.names, {}, actions.own, libraries=context.module.libraries)
    actions.translation = translation
    scope = FocusAndVariables(PythonCode(MESSAGE, Type.DOCUMENT, is_own=True))
    found: list[str] = []
    for condition in plan.first if plan.needs_state else plan.conditions:
        for part in split_conjuncts(condition):
            try:
                found.append(to_condition(translation.code(part, scope)))
            except (NotTranslatable, RecursionError):
                found += _emit_features(part, context.names)
                return _emit(found)
    return _emit(found)


def _emit(conditions: list[str]) -> str | None:
    return f"{HEAD}    return {' and '.join([f'({each})' for each in conditions])}\n" if conditions else None


def _emit_features(condition: ast.Expr, names: Names) -> list[str]:
    """Return tests of the features that a message needs for a condition, each a Python expression."""
    part = _part_before_predicates(_find_path(condition, names))
    if part is None:
        return []
    return [
        " or ".join([_emit_feature(feature) for feature in sorted(requirement, key=str)])
        for requirement in infer_requirements(part, names)
    ]


def _find_path(condition: ast.Expr, names: Names) -> ast.Expr | None:
    """Return a path that must select something for a condition to hold, and without which nothing in it can fail."""
    match condition:
        case ast.Path() | ast.AxisStep():
            return condition
        case ast.FunctionCall(args=(argument,)):
            known = any([is_call_of(condition, names, function, arity=1) for function in ("exists", "boolean")])
            return _find_path(argument, names) if known else None
        case ast.OperatorChain(operators=(operator,)) if operator in GENERAL or operator in SINGLE:
            path, other = condition.operands
            is_literal = isinstance(other, (ast.StringLiteral, ast.NumericLiteral))
            return path if is_literal and isinstance(path, (ast.Path, ast.AxisStep)) else None
    return None


def _part_before_predicates(path: ast.Expr | None) -> ast.Expr | None:
    """Return the first steps of a path, up to one with predicates, and without these."""
    if isinstance(path, ast.AxisStep):
        return ast.AxisStep(path.at, path.axis, path.test, ())
    if not isinstance(path, ast.Path):
        return None
    steps: list[ast.Expr] = []
    for step in path.steps:
        if not isinstance(step, ast.AxisStep):
            break
        steps.append(ast.AxisStep(step.at, step.axis, step.test, ()))
        if step.predicates:
            break
    return ast.Path(path.at, path.separators[: len(steps)], tuple(steps)) if steps else None


def _emit_feature(feature: Feature) -> str:
    tag = f"{{{feature.uri}}}{feature.local}" if feature.uri else feature.local
    if feature.kind == "root":
        return f"{MESSAGE}.tag == {tag!r}"
    if feature.kind == "element":
        return f"has(self_and_below({MESSAGE}, {tag!r}))"
    return f"any([e.get({tag!r}) is not None for e in {MESSAGE}.iter()])"
