"""Functions on expressions that several parts of the compiler use: parents, conjuncts, calls, focus, variables."""

from __future__ import annotations

from demaq.language import ast
from demaq.language.function_library import FOCUS_FUNCTIONS
from demaq.language.namespaces import FN
from demaq.language.resolving.names import Names

_POSITIONS = ((FN, "position", 0), (FN, "last", 0))


def find_parents(root: ast.Node) -> dict[ast.Node, ast.Node]:
    """Return the parent of every node below the root."""
    found: dict[ast.Node, ast.Node] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        for child in ast.children(node):
            found[child] = node
            stack.append(child)
    return found


def split_conjuncts(condition: ast.Expr) -> list[ast.Expr]:
    """Return the operands of a conjunction, or the condition itself."""
    if isinstance(condition, ast.OperatorChain) and condition.operators[0] == "and":
        found: list[ast.Expr] = []
        for operand in condition.operands:
            found.extend(split_conjuncts(operand))
        return found
    return [condition]


def split_parts(condition: ast.Expr, names: Names, is_positive: bool = True) -> list[ast.Expr]:
    """Return conditions of which each must hold, or must not, for one to be what is asked for.

    These are A and B for `A and B`, `not(not(A) or not(B))`, and `if (A) then B else false()`.
    """
    if isinstance(condition, ast.Sequence) and len(condition.items) == 1:
        return split_parts(condition.items[0], names, is_positive)
    if isinstance(condition, ast.OperatorChain) and condition.operators[0] == ("and" if is_positive else "or"):
        return [part for operand in condition.operands for part in split_parts(operand, names, is_positive)]
    for function in ("not", "boolean"):
        if is_call_of(condition, names, function, arity=1):
            assert isinstance(condition, ast.FunctionCall), "it is a call"
            return split_parts(condition.args[0], names, is_positive is (function == "boolean"))
    if isinstance(condition, ast.If) and condition.otherwise is not None:
        refused = "false" if is_positive else "true"
        if is_call_of(condition.otherwise, names, refused, arity=0):
            return [*split_parts(condition.condition, names), *split_parts(condition.then, names, is_positive)]
        if is_call_of(condition.then, names, refused, arity=0):
            others = split_parts(condition.otherwise, names, is_positive)
            return [*split_parts(condition.condition, names, False), *others]
    return [condition]


def is_call_of(node: ast.Node, names: Names, local: str, uri: str = FN, arity: int | None = None) -> bool:
    """Return whether a node is a call of this function."""
    if not isinstance(node, ast.FunctionCall):
        return False
    known = names.functions.get(node)
    return known is not None and known[:2] == (uri, local) and (arity is None or known[2] == arity)


def uses_focus(expr: ast.Node, names: Names) -> bool:
    """Return whether an expression depends on the context item that surrounds it."""
    stack: list[ast.Node] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.ContextItem, ast.Root, ast.AxisStep, ast.UnaryLookup)):
            return True
        if isinstance(node, ast.Path):
            if node.separators[0]:
                return True
            stack.append(node.steps[0])
        elif isinstance(node, ast.OperatorChain) and node.operators[0] == "!":
            stack.append(node.operands[0])
        elif isinstance(node, (ast.Predicate, ast.InlineFunction)):
            continue  # these have a focus of their own, or none
        else:
            if isinstance(node, (ast.FunctionCall, ast.NamedFunctionRef)):
                known = names.functions.get(node)
                if known in FOCUS_FUNCTIONS:
                    return True
            stack.extend(ast.children(node))
    return False


def asks_for_position(expr: ast.Node, names: Names) -> bool:
    """Return whether position() or last() is called anywhere in an expression."""
    return any([names.functions.get(node) in _POSITIONS for node in ast.walk(expr)])


def has_no_else(node: ast.If) -> bool:
    """Return whether nothing happens if the condition fails: there is no else, or it is `()`."""
    return node.otherwise is None or (isinstance(node.otherwise, ast.Sequence) and not node.otherwise.items)


def find_variables(expr: ast.Node) -> list[ast.VarRef]:
    return [node for node in ast.walk(expr) if isinstance(node, ast.VarRef)]
