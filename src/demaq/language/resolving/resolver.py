"""Resolve the names in expressions, following the scoping rules of XQuery.

Every binding expression has a method that determines in which of its parts its variables are visible. All others are
traversed generically. Recursion is plain calls from method to method (see `recursion`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from demaq.language import ast
from demaq.language.namespaces import ERR
from demaq.language.parsing.characters import REFERENCE, resolve_reference
from demaq.language.resolving.references import Focus, References
from demaq.language.resolving.scope import DEFAULT_ELEMENT, Key

CATCH_VARIABLES = ("code", "description", "value", "module", "line-number", "column-number", "additional")

_JOINS_NO_VALUES = frozenset({"and", "or", "union", "|", "intersect", "except"})


class Resolver(References):
    """One pass over the expressions of one module. The result is built in `names`."""

    # entry points

    def visit(self, node: ast.Node) -> None:
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            handler(self, node)
        else:
            self._children(node)

    def _children(self, node: ast.Node) -> None:
        for child in ast.children(node):
            if type(child) is not ast.Name:  # the node that holds a name says what it refers to
                self.visit(child)

    def _scoped(self, node: ast.Node) -> None:
        """Visit a node whose bindings are visible up to its end."""
        mark = self.scope.enter()
        self._children(node)
        self.scope.leave(mark)

    def with_message(self, expr: ast.Expr) -> None:
        """Resolve an expression evaluated on a message: its document node is the context item."""
        self.focus = Focus.DOCUMENT
        self.visit(expr)
        self.focus = Focus.ABSENT

    def without_focus(self, expr: ast.Expr) -> None:
        self.focus = Focus.ABSENT
        self._hint_without_focus = "a global variable is computed once, without a message"
        self.visit(expr)

    def function_body(self, declaration: ast.FunctionDecl) -> None:
        mark = self.scope.enter()
        self._function(declaration)
        self.scope.leave(mark)

    def global_variable(self, declaration: ast.VarDecl) -> None:
        """Resolve a global variable. Its value sees only the variables declared before it."""
        for annotation in declaration.annotations:
            self.visit(annotation)
        if declaration.type is not None:
            self.visit(declaration.type)
        if declaration.value is not None:
            self.without_focus(declaration.value)
        self._bind(declaration.name, declaration)

    def _pragma_or_annotation(self, node: ast.Pragma | ast.Annotation) -> None:
        self.uri_of(node.name, "")

    # variables

    def _var_ref(self, node: ast.VarRef) -> None:
        key = self._key(node.name)
        if key is None or key[0] in self.unloaded:
            return
        if key in self.scope.variables:
            self.names.variables[node] = self.scope.variables[key]
        else:
            self._unknown_variable(node.name, node.at)

    # focus

    def _inner(self, node: ast.Node) -> None:
        """Visit with a focus set by a path, predicate or `!`."""
        before, self.focus = self.focus, Focus.INNER
        self.visit(node)
        self.focus = before

    def _predicate(self, node: ast.Predicate) -> None:
        self._inner(node.condition)

    def _unary_lookup(self, node: ast.UnaryLookup) -> None:
        self._needs_focus(node)
        self._children(node)

    # paths

    def _path(self, node: ast.Path) -> None:
        first = node.steps[0]
        if node.separators[0]:
            self._needs_focus(node)
            self._inner(first)
        elif isinstance(first, ast.AxisStep):
            self._step(first)
        else:
            self.visit(first)
        for step in node.steps[1:]:
            self._inner(step)

    def _lone_step(self, node: ast.AxisStep) -> None:
        if self.focus is Focus.DOCUMENT and self._reads_like_variable(node):
            self._warn_of_missing_dollar(node)
        self._step(node)

    def _step(self, node: ast.AxisStep) -> None:
        self._needs_focus(node)
        if isinstance(node.test, ast.NameTest):
            table = self.names.attributes if node.axis == "attribute" else self.names.elements
            default = "" if node.axis == "attribute" else self.scope.prefixes[DEFAULT_ELEMENT]
            self._name_test(node.test, table, default)
        else:
            self._kind_test(node.test)
        for predicate in node.predicates:
            self._inner(predicate.condition)

    def _operation(self, node: ast.OperatorChain) -> None:
        if node.operators[0] == "!":
            self.visit(node.operands[0])
            for operand in node.operands[1:]:
                self._inner(operand)
            return
        for operand in node.operands:
            if isinstance(operand, ast.AxisStep) and self._reads_like_variable(operand):
                if node.operators[0] not in _JOINS_NO_VALUES and not _mentions(node, operand):
                    self._warn_of_missing_dollar(operand)
                self._step(operand)
            else:
                self.visit(operand)

    def _reads_like_variable(self, node: ast.AxisStep) -> bool:
        """Return whether a step `mRID` stands where `$mRID` is bound: probably a mistake."""
        test = node.test
        return (
            node.axis == "child"
            and isinstance(test, ast.NameTest)
            and test.prefix is None
            and test.uri is None
            and not node.predicates
            and ("", test.local) in self.scope.variables
        )

    def _warn_of_missing_dollar(self, node: ast.AxisStep) -> None:
        assert isinstance(node.test, ast.NameTest)
        name = node.test.local
        self.warn(
            "DQ1201",
            f"`{name}` is an element's name here, and a variable ${name} is bound",
            node.at,
            f"did you mean ${name}? If not, write ./{name}",
        )

    # functions

    def _call(self, node: ast.FunctionCall) -> None:
        self._resolve_function(node, node.name, len(node.args), node.args[0] if node.args else None)
        self._children(node)

    def _function_ref(self, node: ast.NamedFunctionRef) -> None:
        self._resolve_function(node, node.name, node.arity, None)

    def _arrow(self, node: ast.Arrow) -> None:
        self.visit(node.operand)
        first: ast.Expr | None = node.operand
        for call in node.calls:
            if isinstance(call.function, ast.Name):
                self._resolve_function(call, call.function, len(call.args) + 1, first)
            else:
                self.visit(call.function)
            for argument in call.args:
                self.visit(argument)
            first = None

    def _inline_function(self, node: ast.InlineFunction) -> None:
        mark, focus, hint = self.scope.enter(), self.focus, self._hint_without_focus
        self._function(node)
        self.focus, self._hint_without_focus = focus, hint
        self.scope.leave(mark)

    def _function(self, node: ast.FunctionDecl | ast.InlineFunction) -> None:
        for annotation in node.annotations:
            self.visit(annotation)
        seen: set[Key] = set()
        for param in node.params:
            key = self._key(param.name)
            if key is not None and key in seen:
                self.error("DQ0209", f"${param.name} is the name of two parameters", param.at)
            if key is not None:
                seen.add(key)
            self._children(param)
        for param in node.params:
            self._bind(param.name, param)
        if node.returns is not None:
            self.visit(node.returns)
        self.focus = Focus.ABSENT
        self._hint_without_focus = "inside a function write qs:message()/… or pass the node as an argument"
        if node.body is not None:
            self.visit(node.body)

    # binding expressions

    def _binding(self, node: ast.LetBinding | ast.QuantifiedBinding | ast.CopyBinding | ast.CountClause) -> None:
        self._children(node)
        self._bind(node.name, node)

    def _for_binding(self, binding: ast.ForBinding) -> None:
        self._children(binding)
        if binding.position is not None and str(binding.position) == str(binding.name):
            self.error("DQ0209", f"${binding.name} is bound twice by one `for`", binding.position.at)
        self._bind(binding.name, binding)
        self._bind(binding.position, binding.position)

    def _window(self, clause: ast.WindowClause) -> None:
        if clause.type is not None:
            self.visit(clause.type)
        self.visit(clause.expr)
        for condition in (clause.start, clause.end):
            if condition is None:
                continue
            for name in (condition.current, condition.position, condition.previous, condition.next):
                self._bind(name, name)
            self.visit(condition.when)
        self._bind(clause.name, clause)

    def _group_spec(self, spec: ast.GroupSpec) -> None:
        self._children(spec)
        if spec.expr is None:
            key = self._key(spec.name)
            if key is not None and key not in self.scope.variables:
                self._unknown_variable(spec.name, spec.name.at)
        self._bind(spec.name, spec)

    def _type_case(self, node: ast.TypeCase) -> None:
        mark = self.scope.enter()
        self._bind(node.name, node)
        self._children(node)
        self.scope.leave(mark)

    def _typeswitch(self, node: ast.Typeswitch) -> None:
        self.visit(node.operand)
        for case in node.cases:
            self.visit(case)
        mark = self.scope.enter()
        self._bind(node.default_name, node)
        self.visit(node.default)
        self.scope.leave(mark)

    def _catch(self, node: ast.CatchClause) -> None:
        for test in node.tests:
            if test.prefix != "*":
                self.uri_of(test, "")
        mark = self.scope.enter()
        for local in CATCH_VARIABLES:
            self.scope.bind((ERR, local), None)
        if node.body is not None:
            self.visit(node.body)
        self.scope.leave(mark)

    def _transform_with(self, node: ast.TransformWith) -> None:
        self.visit(node.operand)
        if node.modify is not None:
            self._inner(node.modify)

    # constructors

    def _direct_element(self, node: ast.DirectElement) -> None:
        mark = self.scope.enter()
        attributes: list[ast.DirectAttribute] = []
        for attribute in node.attributes:
            if attribute.name.prefix == "xmlns":
                self._namespace_attribute(attribute, attribute.name.local)
            elif attribute.name.prefix is None and attribute.name.local == "xmlns":
                self._namespace_attribute(attribute, DEFAULT_ELEMENT)
            else:
                attributes.append(attribute)
        uri = self.uri_of(node.name, self.scope.prefixes[DEFAULT_ELEMENT])
        if uri is not None:
            self.names.elements[node] = (uri, node.name.local)
        for attribute in attributes:
            uri = self.uri_of(attribute.name, "")
            if uri is not None:
                self.names.attributes[attribute] = (uri, attribute.name.local)
            for part in attribute.parts:
                self.visit(part)
        for content in node.content:
            self.visit(content)
        self.scope.leave(mark)

    def _namespace_attribute(self, attribute: ast.DirectAttribute, prefix: str) -> None:
        uri = ""
        for part in attribute.parts:
            if isinstance(part, ast.RawText):  # the parser allows nothing else here
                raw = part.raw.replace("{{", "{").replace("}}", "}")
                uri += REFERENCE.sub(lambda match: resolve_reference(match) or "", raw)
        self.scope.bind_prefix(prefix, " ".join(uri.split()))

    def _computed(self, node: ast.Computed) -> None:
        if isinstance(node.name, ast.Name):
            if node.kind == "element":
                uri = self.uri_of(node.name, self.scope.prefixes[DEFAULT_ELEMENT])
                if uri is not None:
                    self.names.elements[node] = (uri, node.name.local)
            elif node.kind == "attribute":
                uri = self.uri_of(node.name, "")
                if uri is not None:
                    self.names.attributes[node] = (uri, node.name.local)
        elif node.name is not None:
            self.visit(node.name)
        if node.content is not None:
            self.visit(node.content)

    # types

    def _named_type(self, node: ast.AtomicType | ast.SingleType) -> None:
        self.type_name(node.name)

    def _map_test(self, node: ast.MapTest) -> None:
        if node.key is not None:
            self.type_name(node.key)
        self._children(node)

    def _kind_test(self, node: ast.KindTest) -> None:
        if node.kind in ("schema-element", "schema-attribute"):
            self.error(
                "DQ0304",
                f"{node.kind}() needs an imported schema, and there are none",
                node.at,
                "give the queue a schema",
            )
            return
        if node.kind in ("element", "attribute") and node.name is not None:
            is_element = node.kind == "element"
            table = self.names.elements if is_element else self.names.attributes
            default = self.scope.prefixes[DEFAULT_ELEMENT] if is_element else ""
            if isinstance(node.name, ast.NameTest):
                table[node] = (None, "*")
            else:
                uri = self.uri_of(node.name, default)
                if uri is not None:
                    table[node] = (uri, node.name.local)
        if node.type is not None:
            self.type_name(node.type)
        if node.inner is not None:
            self._kind_test(node.inner)

    # actions

    def _enqueue(self, node: ast.Enqueue) -> None:
        self._children(node)
        self.part(node.queue)

    def _with(self, node: ast.With) -> None:
        self.part(node.name)
        self.visit(node.value)

    def _reset(self, node: ast.Reset) -> None:
        if node.slicing is not None:
            self.part(node.slicing)
        self._children(node)


def _mentions(node: ast.OperatorChain, step: ast.AxisStep) -> bool:
    """Return whether another operand is, or begins with, the variable of that name: `id = $id` is no mistake."""
    assert isinstance(step.test, ast.NameTest)
    for operand in node.operands:
        first = operand
        while isinstance(first, (ast.Path, ast.Postfix)):
            first = first.steps[0] if isinstance(first, ast.Path) else first.base
        inside = first.args if isinstance(first, ast.FunctionCall) else (first,)
        for expr in inside:
            if isinstance(expr, ast.VarRef) and str(expr.name) == step.test.local:
                return True
    return False


_HANDLERS: dict[type[ast.Node], Callable[[Resolver, Any], None]] = {
    ast.VarRef: Resolver._var_ref,
    ast.ContextItem: Resolver._needs_focus,
    ast.Root: Resolver._needs_focus,
    ast.Path: Resolver._path,
    ast.AxisStep: Resolver._lone_step,
    ast.Predicate: Resolver._predicate,
    ast.OperatorChain: Resolver._operation,
    ast.UnaryLookup: Resolver._unary_lookup,
    ast.FunctionCall: Resolver._call,
    ast.NamedFunctionRef: Resolver._function_ref,
    ast.Arrow: Resolver._arrow,
    ast.InlineFunction: Resolver._inline_function,
    ast.Flwor: Resolver._scoped,
    ast.ForBinding: Resolver._for_binding,
    ast.LetBinding: Resolver._binding,
    ast.WindowClause: Resolver._window,
    ast.GroupSpec: Resolver._group_spec,
    ast.CountClause: Resolver._binding,
    ast.Quantified: Resolver._scoped,
    ast.QuantifiedBinding: Resolver._binding,
    ast.Typeswitch: Resolver._typeswitch,
    ast.TypeCase: Resolver._type_case,
    ast.CatchClause: Resolver._catch,
    ast.Copy: Resolver._scoped,
    ast.CopyBinding: Resolver._binding,
    ast.TransformWith: Resolver._transform_with,
    ast.DirectElement: Resolver._direct_element,
    ast.Computed: Resolver._computed,
    ast.AtomicType: Resolver._named_type,
    ast.SingleType: Resolver._named_type,
    ast.MapTest: Resolver._map_test,
    ast.KindTest: Resolver._kind_test,
    ast.Enqueue: Resolver._enqueue,
    ast.With: Resolver._with,
    ast.Reset: Resolver._reset,
    ast.Pragma: Resolver._pragma_or_annotation,
    ast.Annotation: Resolver._pragma_or_annotation,
}
