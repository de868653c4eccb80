"""Find the key by which a read of a queue can be narrowed before the rule runs.

    qs:queue("invoices")[//customerID = $c]                        by //customerID
    for $i in qs:queue("invoices") where $i//customerID = $c …     by //customerID
    let $all := qs:queue("invoices") return $all[//customerID = $c]   the same, through the variable

Invariant: the read is only narrowed. The rule still applies its own predicate to what the index found, so superfluous
index entries are harmless, and steps of a path may drop their predicates when they become an index. A key may depend on
everything known before the rule runs: the message, its properties, its slice key; never on what is looked up or on
other state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from demaq.compiler.trees import asks_for_position, find_variables, has_no_else, split_conjuncts, uses_focus
from demaq.language import ast
from demaq.language.namespaces import FN, XS
from demaq.language.resolving.names import Names
from demaq.source import SourceLocation

Steps = tuple[tuple[str, ast.Expr], ...]
"""Steps from the document node, each with its separator."""

_DOWN = ("child", "descendant", "descendant-or-self", "self", "attribute")
_BOOLEAN_FUNCTIONS = ("not", "exists", "empty", "boolean", "contains", "starts-with", "ends-with", "matches", "true")
_COUNTING_FUNCTIONS = (("count", 1), ("exists", 1), ("empty", 1), ("not", 1), ("boolean", 1))
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=", "eq", "ne", "lt", "le", "gt", "ge", "is", "<<", ">>", "and", "or")


@dataclass(frozen=True, slots=True)
class Key:
    """An index path and the expression that computes the values to look up."""

    path: ast.Expr
    value: ast.Expr
    is_exact: bool = False
    """Whether the condition selects just what the index finds: all others, and nothing else, fail it."""


class KeyFinder:
    """Finds the keys of reads in one rule's body."""

    def __init__(
        self, body: ast.Expr, names: Names, above: dict[ast.Node, ast.Node], reads_state: Callable[[ast.Node], bool]
    ) -> None:
        self.names = names
        self.above = above
        self.reads_state = reads_state
        self.uses: dict[ast.Node, list[ast.VarRef]] = {}
        for reference in find_variables(body):
            binder = names.variables.get(reference)
            if binder is not None:
                self.uses.setdefault(binder, []).append(reference)

    def find_keys(self, node: ast.Expr, steps: Steps | None = ()) -> list[Key] | None:
        """Return keys that together find every message the rule can select, or None if only a scan does.

        `steps` lead from the document node to the items of the expression; None if they are unknown.
        """
        parent = self.above.get(node)
        match parent:
            case ast.Postfix() if parent.base is node:
                return self._through_postfix(parent, steps)
            case ast.Path() if parent.steps[0] is node and parent.separators[0] == "":
                return self._through_path(parent, steps)
            case ast.LetBinding():
                return self._through_let(parent, steps)
            case ast.ForBinding() if not parent.allowing_empty and parent.position is None:
                return self._through_for(parent, steps)
            case ast.QuantifiedBinding():
                return self._through_quantifier(parent, steps)
        return None

    def is_only_counted(self, node: ast.Expr) -> bool:
        """Return whether an expression is used for nothing but how many items it has, or whether it has any."""
        parent = self.above.get(node)
        match parent:
            case ast.FunctionCall():
                known = self.names.functions.get(parent)
                return known is not None and known[0] == FN and known[1:] in _COUNTING_FUNCTIONS
            case ast.If() | ast.WhereClause() | ast.Quantified():
                return parent.condition is node
            case ast.OperatorChain():
                return parent.operators[0] in ("and", "or")
            case ast.LetBinding(type=None):
                uses = self.uses.get(parent, [])
                return bool(uses) and all([self.is_only_counted(use) for use in uses])
        return False

    # where the items of a read are filtered

    def _through_postfix(self, node: ast.Postfix, steps: Steps | None) -> list[Key] | None:
        for suffix in node.suffixes:
            if not isinstance(suffix, ast.Predicate):
                return None
            if asks_for_position(suffix.condition, self.names):
                return None
            key = self._in_condition(suffix.condition, steps, None)
            if key is not None:
                is_alone = not steps and len(node.suffixes) == 1
                return [replace(key, is_exact=is_alone and self._is_exact(suffix.condition, key))]
            if not self._is_boolean(suffix.condition):
                return None  # a positional predicate: leaving out messages would change which one it selects
        return self.find_keys(node, steps)

    def _through_path(self, node: ast.Path, steps: Steps | None) -> list[Key] | None:
        for separator, step in zip(node.separators[1:], node.steps[1:], strict=True):
            if not isinstance(step, ast.AxisStep):
                return None  # these items may come from anywhere
            if step.axis not in _DOWN:
                steps = None
                continue
            bare = self._without_predicates(step)
            steps = None if steps is None else (*steps, (separator, bare))
            for predicate in step.predicates:
                key = self._in_condition(predicate.condition, steps, None)
                if key is not None:
                    return [key]
        return self.find_keys(node, steps)

    def _through_let(self, binding: ast.LetBinding, steps: Steps | None) -> list[Key] | None:
        if binding.type is not None and binding.type.occurrence != "*":
            return None  # the type may demand more messages than the index finds
        found: list[Key] = []
        for use in self.uses.get(binding, []):
            keys = self.find_keys(use, steps)
            if keys is None:
                return None
            found.extend(keys)
        return found

    def _through_for(self, binding: ast.ForBinding, steps: Steps | None) -> list[Key] | None:
        clause = self.above[binding]
        flwor = self.above[clause]
        if not isinstance(flwor, ast.Flwor):
            return None
        position = [item is clause for item in flwor.clauses].index(True)
        for later in flwor.clauses[position + 1 :]:
            if isinstance(later, ast.WhereClause):
                key = self._in_condition(later.condition, steps, binding)
                if key is not None:
                    return [key]
            elif not isinstance(later, (ast.ForClause, ast.LetClause)):
                return None
        result = flwor.result
        if isinstance(result, ast.If) and has_no_else(result):
            key = self._in_condition(result.condition, steps, binding)
            return None if key is None else [key]
        return None

    def _through_quantifier(self, binding: ast.QuantifiedBinding, steps: Steps | None) -> list[Key] | None:
        quantified = self.above[binding]
        if not isinstance(quantified, ast.Quantified) or quantified.kind != "some":
            return None
        key = self._in_condition(quantified.condition, steps, binding)
        return None if key is None else [key]

    # conditions

    def _in_condition(self, condition: ast.Expr, steps: Steps | None, variable: ast.Node | None) -> Key | None:
        """Return the key of a conjunct `path = value` whose path starts at the item, which is the focus or a variable.

        A value from the message is preferred to a constant, which may be the same for half of the queue.
        """
        constant: Key | None = None
        for conjunct in split_conjuncts(condition):
            if not isinstance(conjunct, ast.OperatorChain) or conjunct.operators not in (("=",), ("eq",)):
                continue
            left, right = conjunct.operands
            for path, value in ((left, right), (right, left)):
                indexed = self._indexed_path(path, steps, variable)
                if indexed is not None and self._is_known_before(value, variable):
                    whole = self._with_bindings(value)
                    if whole is not None and not isinstance(whole, (ast.StringLiteral, ast.NumericLiteral)):
                        return Key(indexed, whole)
                    if whole is not None and constant is None:
                        constant = Key(indexed, whole)
        return constant

    def _is_exact(self, condition: ast.Expr, key: Key) -> bool:
        """Return whether a condition is nothing but `path = text`, and its key has one value wherever it is tested.

        Text equals text if it is identical; of numbers, NaN has an index entry and equals nothing. The key of a
        variable that a loop binds is the values of all iterations.
        """
        if isinstance(key.value, ast.Flwor) and not all([isinstance(c, ast.LetClause) for c in key.value.clauses]):
            return False
        if not isinstance(condition, ast.OperatorChain) or condition.operators != ("=",):
            return False
        return all([self._is_text(operand) for operand in condition.operands])

    def _is_text(self, expr: ast.Expr) -> bool:
        """Return whether an expression has nodes or strings as values, and no predicates that an index would drop."""
        match expr:
            case ast.StringLiteral():
                return True
            case ast.AxisStep():
                return not expr.predicates
            case ast.Path():
                last = expr.steps[-1]
                return isinstance(last, ast.AxisStep) and not any([getattr(s, "predicates", ()) for s in expr.steps])
            case ast.VarRef():
                binder = self.names.variables.get(expr)
                return isinstance(binder, ast.LetBinding) and binder.type is None and self._is_text(binder.expr)
            case ast.FunctionCall():
                return self.names.functions.get(expr) in ((FN, "string", 1), (FN, "normalize-space", 1))
        return False

    def _indexed_path(self, expr: ast.Expr, steps: Steps | None, variable: ast.Node | None) -> ast.Expr | None:
        """Return the path from the document node, as a self-contained expression."""
        if isinstance(expr, ast.FunctionCall) and len(expr.args) == 1:
            known = self.names.functions.get(expr)
            if known in ((FN, "data", 1), (XS, "string", 1)):  # not fn:string, which is never empty
                return self._indexed_path(expr.args[0], steps, variable)
        if isinstance(expr, ast.Path) and expr.separators[0] and variable is None:
            inner: Steps | None = tuple(zip(expr.separators, expr.steps, strict=True))
            steps = ()
        elif isinstance(expr, ast.Path) and not expr.separators[0]:
            inner = self._relative(expr, variable)
        elif isinstance(expr, ast.AxisStep) and variable is None:
            inner = (("/", expr),)
        elif (isinstance(expr, ast.ContextItem) and variable is None) or self._is_variable(expr, variable):
            inner = ()
        else:
            return None
        if steps is None or inner is None or not steps + inner:
            return None
        return self._absolute(expr.at, steps + inner)

    def _relative(self, path: ast.Path, variable: ast.Node | None) -> Steps | None:
        first = path.steps[0]
        rest = tuple(zip(path.separators[1:], path.steps[1:], strict=True))
        if variable is not None:
            return rest if self._is_variable(first, variable) else None
        if isinstance(first, ast.ContextItem):
            return rest
        return (("/", first), *rest)

    def _is_variable(self, expr: ast.Expr, variable: ast.Node | None) -> bool:
        return variable is not None and isinstance(expr, ast.VarRef) and self.names.variables.get(expr) is variable

    def _absolute(self, at: SourceLocation, steps: Steps) -> ast.Expr | None:
        bare: list[ast.Expr] = []
        for _, step in steps:
            if not isinstance(step, ast.AxisStep) or step.axis not in _DOWN:
                return None
            bare.append(self._without_predicates(step))
        return ast.Path(at, tuple([separator for separator, _ in steps]), tuple(bare))

    def _without_predicates(self, step: ast.AxisStep) -> ast.AxisStep:
        return ast.AxisStep(step.at, step.axis, step.test) if step.predicates else step

    def _is_boolean(self, condition: ast.Expr) -> bool:
        """Return whether a predicate certainly does not select by position."""
        if isinstance(condition, (ast.Path, ast.AxisStep, ast.Quantified)):
            last = condition.steps[-1] if isinstance(condition, ast.Path) else condition
            return isinstance(last, (ast.AxisStep, ast.Quantified))
        if isinstance(condition, ast.OperatorChain):
            return condition.operators[0] in _COMPARISONS
        if isinstance(condition, ast.FunctionCall):
            known = self.names.functions.get(condition)
            return known is not None and known[0] == FN and known[1] in _BOOLEAN_FUNCTIONS
        return False

    # values

    def _is_known_before(self, value: ast.Expr, variable: ast.Node | None) -> bool:
        """Return whether a value depends neither on the item looked up nor on state."""
        if self.reads_state(value):
            return False
        if variable is None:
            return not uses_focus(value, self.names)  # in a predicate the focus is the item itself
        if uses_focus(value, self.names) and not self._focus_is_message(value):
            return False
        return not any([self.names.variables.get(reference) is variable for reference in find_variables(value)])

    def _focus_is_message(self, node: ast.Node) -> bool:
        """Return whether nothing between the rule's body and the node sets another focus."""
        child, parent = node, self.above.get(node)
        while parent is not None:
            if isinstance(parent, (ast.Predicate, ast.InlineFunction, ast.FunctionDecl)):
                return False
            if isinstance(parent, ast.Path) and parent.steps[0] is not child:
                return False
            if isinstance(parent, ast.OperatorChain) and parent.operators[0] == "!" and parent.operands[0] is not child:
                return False
            child, parent = parent, self.above.get(parent)
        return True

    def _with_bindings(self, value: ast.Expr) -> ast.Expr | None:
        """Return the value with the variables it needs bound around it, or None if one cannot be bound there."""
        needed: dict[ast.Node, None] = {}
        roots: list[ast.Expr] = [value]
        pending = find_variables(value)
        while pending:
            binder = self.names.variables.get(pending.pop())
            if isinstance(binder, ast.VarDecl) or binder in needed:
                continue
            if binder is not None and any([self._is_inside(binder, root) for root in roots]):
                continue  # bound inside the key, or inside a binding that is copied as a whole
            if not isinstance(binder, (ast.LetBinding, ast.ForBinding, ast.QuantifiedBinding)):
                return None
            if self.reads_state(binder.expr) or self._is_regrouped(binder):
                return None
            if uses_focus(binder.expr, self.names) and not self._focus_is_message(binder):
                return None
            needed[binder] = None
            roots.append(binder.expr)
            pending.extend(find_variables(binder.expr))
        clauses = [_clause(binder) for binder in sorted(needed, key=_start)]
        return ast.Flwor(value.at, tuple(clauses), value) if clauses else value

    def _is_inside(self, node: ast.Node, expr: ast.Expr) -> bool:
        current: ast.Node | None = node
        while current is not None and current is not expr:
            current = self.above.get(current)
        return current is expr

    def _is_regrouped(self, binder: ast.Node) -> bool:
        """Return whether a variable belongs to a FLWOR with grouping, where its meaning changes in later clauses."""
        clause = self.above.get(binder)
        flwor = self.above.get(clause) if clause is not None else None
        if not isinstance(flwor, ast.Flwor):
            return False
        return any([isinstance(item, (ast.GroupByClause, ast.WindowClause)) for item in flwor.clauses])


def _start(node: ast.Node) -> int:
    return node.at.start


def _clause(binder: ast.Node) -> ast.Clause:
    match binder:
        case ast.LetBinding():
            return ast.LetClause(binder.at, (binder,))
        case ast.ForBinding():
            return ast.ForClause(binder.at, (binder,))
        case ast.QuantifiedBinding():
            return ast.ForClause(
                binder.at, (ast.ForBinding(binder.at, binder.name, binder.type, False, None, binder.expr),)
            )
    raise AssertionError("only these binders are collected")
