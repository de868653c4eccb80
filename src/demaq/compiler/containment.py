"""Decide which rules may be given a message inside its batch, and which need it as a document of its own.

Messages of a batch are parsed as one document, because parsing dominates the cost of a message. A rule that only uses
downward axes from the message sees no difference. A rule that navigates upwards or sideways out of the message, or that
passes the document node on, would see it, and gets a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from demaq.compiler.context import READING, CompilerContext
from demaq.language import ast
from demaq.language.function_library import FOCUS_FUNCTIONS
from demaq.language.namespaces import FN, QS

_DOWN = frozenset({"child", "descendant", "attribute"})
_ALONG = frozenset({"self", "following-sibling", "preceding-sibling"})
_SEES_THE_TREE = frozenset(
    {"root", "path", "id", "idref", "element-with-id", "base-uri", "document-uri", "lang", "apply"}
)


_TELLS_PARSED_FROM_MADE = frozenset(
    {"base-uri", "document-uri", "id", "idref", "element-with-id", "in-scope-prefixes", "namespace-uri-for-prefix"}
    | {"function-lookup", "load-xquery-module", "transform", "apply"}
)


def can_distinguish_parsed(contexts: Iterable[CompilerContext]) -> bool:
    """Return whether a program can distinguish a parsed document from one that a rule has constructed."""
    for context in contexts:
        used = [key for key in context.names.functions.values() if key[0] == FN]
        if not _TELLS_PARSED_FROM_MADE.isdisjoint([local for _, local, _ in used]):
            return True
        prologs = [context.module.tree.prolog, *[library.prolog for library in context.module.libraries]]
        setters = [item for prolog in prologs for item in prolog if isinstance(item, ast.Setter)]
        if any([item.kind in ("copy-namespaces", "base-uri") for item in setters]):
            return True
    return False


class FocusKind(Enum):
    MESSAGE = "the message itself"
    WITHIN = "a node that may be of the message, or any other item"
    STATE = "a node of another message or a collection"


def paths_from_message(body: ast.Expr, context: CompilerContext) -> frozenset[ast.Path] | None:
    """Return the paths that begin with `/` at the message if the expression never navigates out of the message.

    Return None if it might, or if a path from the root could start in another tree than the message.
    """
    finder = _ContainmentFinder(context)
    return frozenset(finder.from_message) if finder.is_contained(body, FocusKind.MESSAGE) else None


class _ContainmentFinder:
    def __init__(self, context: CompilerContext) -> None:
        self.context = context
        self.names = context.names
        self.from_message: list[ast.Path] = []
        self._functions_seen: set[tuple[str, str, int]] = set()
        self._variables_seen: set[ast.VarDecl] = set()

    def is_contained(self, node: ast.Node, focus: FocusKind) -> bool:
        match node:
            case ast.ContextItem() | ast.UnaryLookup():
                return focus is not FocusKind.MESSAGE
            case ast.Root():
                return focus is FocusKind.STATE
            case ast.AxisStep():
                return self._step(node, focus)
            case ast.Path():
                return self._path(node, focus)
            case ast.Postfix():
                inner = FocusKind.STATE if self._is_state(node.base) else FocusKind.WITHIN
                return self.is_contained(node.base, focus) and self._suffixes(node, focus, inner)
            case ast.OperatorChain(operators=("!", *_)):
                return self._mapped(node.operands, focus)
            case ast.VarRef():
                return self._variable(node)
            case ast.InlineFunction():
                return node.body is None or self.is_contained(node.body, FocusKind.WITHIN)
            case ast.FunctionCall() | ast.NamedFunctionRef() | ast.ArrowCall():
                if not self._function(node, focus):
                    return False
            case ast.TransformWith():  # the copy is no part of the message
                return self.is_contained(node.operand, focus) and (
                    node.modify is None or self.is_contained(node.modify, FocusKind.WITHIN)
                )
        return self._all(ast.children(node), focus)

    def _mapped(self, operands: Sequence[ast.Expr], focus: FocusKind) -> bool:
        """Return whether all operands of `!` are contained; each has the items of the one before as its focus."""
        for operand in operands:
            if not self.is_contained(operand, focus):
                return False
            focus = FocusKind.STATE if self._is_state(operand) else FocusKind.WITHIN
        return True

    def _variable(self, node: ast.VarRef) -> bool:
        """Check the value of a global variable: it may hold a function, which is called where the variable is used."""
        binder = self.names.variables.get(node)
        if not isinstance(binder, ast.VarDecl) or binder in self._variables_seen:
            return True
        self._variables_seen.add(binder)
        return binder.value is None or self.is_contained(binder.value, FocusKind.WITHIN)

    def _step(self, step: ast.AxisStep, focus: FocusKind) -> bool:
        allowed = (
            focus is FocusKind.STATE or step.axis in _DOWN or (step.axis in _ALONG and focus is not FocusKind.MESSAGE)
        )
        inner = FocusKind.STATE if focus is FocusKind.STATE else FocusKind.WITHIN
        return allowed and self._all(step.predicates, inner)

    def _suffixes(self, node: ast.Postfix, focus: FocusKind, inner: FocusKind) -> bool:
        return all(
            [self.is_contained(item, inner if isinstance(item, ast.Predicate) else focus) for item in node.suffixes]
        )

    def _path(self, path: ast.Path, focus: FocusKind) -> bool:
        here = focus
        if path.separators[0]:
            if focus is FocusKind.WITHIN:
                return False  # the root of an item that may or may not belong to the message
            if focus is FocusKind.MESSAGE:
                self.from_message.append(path)
        for step in path.steps:
            first = step is path.steps[0]
            leads_on = len(path.steps) > 1 and not path.separators[0]
            if first and leads_on and (self._is_message(step) or isinstance(step, ast.ContextItem)):
                here = FocusKind.MESSAGE if self._is_message(step) else focus
                continue
            if not self.is_contained(step, here):
                return False
            from_state = here is FocusKind.STATE and isinstance(step, ast.AxisStep)
            here = FocusKind.STATE if from_state or self._is_state(step) else FocusKind.WITHIN
        return True

    def _is_message(self, node: ast.Node) -> bool:
        known = self.names.functions.get(node)
        return known is not None and known[:2] == (QS, "message") and isinstance(node, ast.FunctionCall)

    def _is_state(self, node: ast.Node) -> bool:
        """Return whether an expression certainly selects nodes of documents other than the message."""
        while True:
            match node:
                case ast.Postfix():
                    node = node.base
                case ast.Path() if not node.separators[0]:
                    if not all([isinstance(step, ast.AxisStep) for step in node.steps[1:]]):
                        return False
                    node = node.steps[0]
                case ast.VarRef():
                    binder = self.names.variables.get(node)
                    if not isinstance(binder, (ast.LetBinding, ast.ForBinding, ast.QuantifiedBinding)):
                        return False
                    node = binder.expr
                case ast.FunctionCall():
                    known = self.names.functions.get(node)
                    return known is not None and known[:2] in READING
                case _:
                    return False

    def _function(self, node: ast.Node, focus: FocusKind) -> bool:
        known = self.names.functions.get(node)
        if known is None:
            return True
        if known[0] == QS:
            return known[1] != "message" and known != (QS, "property", 2)
        if known[0] == FN and known[1] in _SEES_THE_TREE:
            return False
        if known in FOCUS_FUNCTIONS and focus is FocusKind.MESSAGE:
            return False
        declared = self.names.declared.get(known)
        if declared is None or known in self._functions_seen:
            return True
        self._functions_seen.add(known)
        return declared.body is None or self.is_contained(declared.body, FocusKind.WITHIN)

    def _all(self, nodes: Sequence[ast.Node], focus: FocusKind) -> bool:
        return all([self.is_contained(node, focus) for node in nodes])
