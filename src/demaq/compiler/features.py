"""Infer what a message must have for a condition to hold: its root, elements, attributes, constants.

    //offerRequest                     needs an element offerRequest
    /order[@type = "rush"]/customer    needs the root order, a type attribute with the value rush, a customer
    //a or //b                         needs an a or a b
    not(//cancelled)                   needs nothing

The inference is conservative: a message that lacks a required feature cannot make the condition true, so the rule need
not be evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence

from demaq.compiler.plan import Feature, Requirement
from demaq.compiler.trees import is_call_of
from demaq.language import ast
from demaq.language.namespaces import FN, QS
from demaq.language.resolving.names import Names

_DOWN = ("child", "descendant", "descendant-or-self", "self")
_TESTS_OF_EXISTENCE = ("exists", "boolean", "data", "string", "head", "zero-or-one", "one-or-more", "exactly-one")
_ALTERNATIVES_MAX = 64


def infer_requirements(condition: ast.Expr, names: Names, plain_strings: bool = True) -> list[Requirement]:
    """Return requirements that every message fulfils for which the condition, with the message as focus, is true.

    `plain_strings` says that strings are equal only if they are identical, as under the default collation.
    """
    return _FeatureFinder(names, plain_strings).find(condition, True)


class _FeatureFinder:
    def __init__(self, names: Names, plain_strings: bool) -> None:
        self.names = names
        self.plain_strings = plain_strings

    def find(self, expr: ast.Expr, at_document: bool) -> list[Requirement]:
        """Return what an expression needs to be true; `at_document` says that the focus is the message itself."""
        match expr:
            case ast.OperatorChain(operators=("and", *_)):
                found: list[Requirement] = []
                for operand in expr.operands:
                    found.extend(self.find(operand, at_document))
                return found
            case ast.OperatorChain(operators=("or", *_)):
                return self._either(expr, at_document)
            case ast.OperatorChain(operators=("=" | "eq",)):
                return self._equality(expr.operands[0], expr.operands[1], at_document)
            case ast.OperatorChain(operators=(">" | "gt" | "!=" | "ne" | ">=" | "ge" | "<" | "le" | "lt" | "<=",)):
                return self._comparison(expr, at_document)
            case ast.Quantified(kind="some"):
                return self._nodes(expr.bindings[0].expr, at_document)
            case ast.FunctionCall():
                return self._call(expr, at_document)
        return self._nodes(expr, at_document)

    def _either(self, expr: ast.OperatorChain, at_document: bool) -> list[Requirement]:
        united: set[Feature] = set()
        for operand in expr.operands:
            requirements = self.find(operand, at_document)
            if not requirements:
                return []
            united |= choose_requirement(requirements)
        return [frozenset(united)] if len(united) <= _ALTERNATIVES_MAX else []

    def _call(self, expr: ast.FunctionCall, at_document: bool) -> list[Requirement]:
        known = self.names.functions.get(expr)
        if known is None or known[0] != FN or known[2] != 1:
            return []
        argument = expr.args[0]
        if known[1] in _TESTS_OF_EXISTENCE:
            return self.find(argument, at_document) if known[1] == "boolean" else self._nodes(argument, at_document)
        if known[1] == "not" and is_call_of(argument, self.names, "empty", arity=1):
            assert isinstance(argument, ast.FunctionCall)
            return self._nodes(argument.args[0], at_document)
        return []

    def _comparison(self, expr: ast.OperatorChain, at_document: bool) -> list[Requirement]:
        """`a > 5` needs an a, and `count(a) > 0` too."""
        left, right = expr.operands
        if is_call_of(left, self.names, "count", arity=1):
            assert isinstance(left, ast.FunctionCall)
            positive = expr.operators[0] in (">", "gt", "ge", ">=") and isinstance(right, ast.NumericLiteral)
            least = right.text if isinstance(right, ast.NumericLiteral) else ""
            if positive and least.isdigit() and (int(least) > 0 or expr.operators[0] in (">", "gt")):
                return self._nodes(left.args[0], at_document)
            return []
        return self._nodes(left, at_document) + self._nodes(right, at_document)

    def _equality(self, left: ast.Expr, right: ast.Expr, at_document: bool) -> list[Requirement]:
        found: list[Requirement] = []
        for path, other in ((left, right), (right, left)):
            nodes = self._message_nodes(path, at_document)
            if nodes is None:
                continue
            found.extend(nodes)
            constants = _constants(other)
            last = self._last_named_step(path)
            if self.plain_strings and constants and last is not None and len(constants) <= _ALTERNATIVES_MAX:
                kind, uri, local = last
                found.append(frozenset([Feature(kind, uri, local, constant) for constant in constants]))
        return found

    # nodes that must exist

    def _nodes(self, expr: ast.Expr, at_document: bool) -> list[Requirement]:
        """Return what an expression needs to select any node of the message."""
        return self._message_nodes(expr, at_document) or []

    def _message_nodes(self, expr: ast.Expr, at_document: bool) -> list[Requirement] | None:
        """Return the same, or None if the expression does not certainly select nodes of the message."""
        match expr:
            case ast.AxisStep():
                return self._step(expr, at_document)
            case ast.ContextItem():
                return []
            case ast.Path():
                return self._path(expr, at_document)
            case ast.FunctionCall() if is_call_of(expr, self.names, "message", QS):
                return []
            case ast.FunctionCall() if is_call_of(expr, self.names, "data", arity=1):
                return self._message_nodes(expr.args[0], at_document)  # not for string(), which is never empty
            case ast.Postfix():
                base = self._message_nodes(expr.base, at_document)
                if base is None or not all([isinstance(suffix, ast.Predicate) for suffix in expr.suffixes]):
                    return None
                return base + self._predicates(expr.suffixes, self._is_document(expr.base, at_document))
        return None

    def _is_document(self, expr: ast.Expr, at_document: bool) -> bool:
        return is_call_of(expr, self.names, "message", QS) or (isinstance(expr, ast.ContextItem) and at_document)

    def _path(self, path: ast.Path, at_document: bool) -> list[Requirement] | None:
        found: list[Requirement] = []
        here_is_document = at_document
        for separator, step in zip(path.separators, path.steps, strict=True):
            first = step is path.steps[0]
            if separator == "//":
                here_is_document = False
            elif separator == "/" and first:
                here_is_document = True
            if isinstance(step, ast.AxisStep):
                found.extend(self._step(step, here_is_document))
                here_is_document = False
                continue
            if not first:
                return found  # whatever the step does with the nodes so far, they must exist
            base = self._message_nodes(step, at_document)
            if base is None:
                return None
            found.extend(base)
            here_is_document = self._is_document(step.base if isinstance(step, ast.Postfix) else step, at_document)
        return found

    def _step(self, step: ast.AxisStep, at_document: bool) -> list[Requirement]:
        found: list[Requirement] = []
        name = self._name_of(step)
        if name is not None:
            kind = name[0]
            if at_document and step.axis == "child":
                kind = "root"
            found.append(frozenset([Feature(kind, name[1], name[2])]))
        elif step.axis not in (*_DOWN, "attribute"):
            return []
        return found + self._predicates(step.predicates, False)

    def _predicates(self, suffixes: Sequence[ast.Node], at_document: bool) -> list[Requirement]:
        found: list[Requirement] = []
        for suffix in suffixes:
            if isinstance(suffix, ast.Predicate):
                found.extend(self.find(suffix.condition, at_document))
        return found

    def _name_of(self, step: ast.AxisStep) -> tuple[str, str, str] | None:
        known = self.names.elements.get(step.test)
        if known is not None and step.axis in _DOWN and known[0] is not None and known[1] != "*":
            return "element", known[0], known[1]
        known = self.names.attributes.get(step.test)
        if known is not None and step.axis == "attribute" and known[0] is not None and known[1] != "*":
            return "attribute", known[0], known[1]
        return None

    def _last_named_step(self, expr: ast.Expr) -> tuple[str, str, str] | None:
        """Return the element or attribute that gives the value of an expression, if any.

        Not for `x/text()`, which may be a part of the value of x.
        """
        if isinstance(expr, ast.FunctionCall) and self.names.functions.get(expr) == (FN, "data", 1):
            return self._last_named_step(expr.args[0])
        if isinstance(expr, ast.Path):
            if not all([isinstance(step, ast.AxisStep) for step in expr.steps[1:]]):
                return None
            expr = expr.steps[-1]
        return self._name_of(expr) if isinstance(expr, ast.AxisStep) else None


def _constants(expr: ast.Expr) -> list[str]:
    """Return the strings an expression consists of, or none if it is anything else."""
    if isinstance(expr, ast.StringLiteral):
        return [expr.value]
    if isinstance(expr, ast.Sequence):
        values = [item.value for item in expr.items if isinstance(item, ast.StringLiteral)]
        return values if len(values) == len(expr.items) else []
    return []


def drop_implied(requirements: Sequence[Requirement]) -> list[Requirement]:
    """Return the requirements that are not implied by others: a type with the value rush implies a type."""
    kept: list[Requirement] = []
    for candidate in dict.fromkeys(requirements):
        others = [other for other in requirements if other != candidate]
        if not any([_implies(other, candidate) for other in others]):
            kept.append(candidate)
    return kept


def _implies(one: Requirement, other: Requirement) -> bool:
    return all([any([_is_at_least(a, b) for b in other]) for a in one])


def _is_at_least(feature: Feature, other: Feature) -> bool:
    if (feature.uri, feature.local) != (other.uri, other.local) or other.value not in (None, feature.value):
        return False
    return feature.kind == other.kind or (feature.kind, other.kind) == ("root", "element")


def choose_requirement(requirements: Sequence[Requirement]) -> Requirement:
    """Return the most selective requirement: few alternatives, and a value rather than a name."""
    return min(requirements, key=_vagueness)


def _vagueness(requirement: Requirement) -> tuple[int, int, list[str]]:
    kinds = {"root": 1, "attribute": 2, "element": 3}
    worst = max([0 if feature.value is not None else kinds[feature.kind] for feature in requirement], default=9)
    return worst, len(requirement), sorted([str(feature) for feature in requirement])
