"""Parse primaries and what follows them: literals, calls, maps, arrays, functions; predicates, arguments, lookups."""

from __future__ import annotations

from typing import Literal, cast

from demaq.language import ast
from demaq.language.parsing.constructors import Constructors
from demaq.language.parsing.scanner import BRACED, NAME, NUMBER, STRING
from demaq.language.parsing.types import KIND_TESTS

RESERVED_FUNCTION_NAMES = KIND_TESTS | {
    *("array", "empty-sequence", "function", "if", "item", "map", "switch", "typeswitch")
}

ARITY_DIGITS_MAX = 1000


class Primaries(Constructors):
    def _predicate(self) -> ast.Predicate:
        start = self.start
        self.advance()
        condition = self.expr()
        self.expect("]")
        return ast.Predicate(self.since(start), condition)

    def _postfix(self) -> ast.Expr:
        start = self.start
        base = self._primary()
        suffixes: list[ast.Predicate | ast.Arguments | ast.Lookup] = []
        while True:
            value = self.value
            if value == "[":
                suffixes.append(self._predicate())
            elif value == "(":
                args_start = self.start
                args = self._arguments()
                suffixes.append(ast.Arguments(self.since(args_start), args))
            elif value == "?":
                key_start = self.start
                key = self._lookup_key()
                suffixes.append(ast.Lookup(self.since(key_start), key))
            else:
                break
        return ast.Postfix(self.since(start), base, tuple(suffixes)) if suffixes else base

    def _lookup_key(self) -> ast.Expr:
        self.expect("?")
        at = self.here()
        if self.kind is NAME and ":" not in self.value:
            found: ast.Expr = ast.KeyName(at, self.value)
        elif self.kind is NUMBER and self.value.isdigit():
            found = ast.NumericLiteral(at, self.value)
        elif self.value == "*":
            found = ast.KeyWildcard(at)
        elif self.value == "(":
            return self._parentheses()
        else:
            self.fail_expected("a key after `?`: a name, a whole number, `*` or `(expression)`")
        self.advance()
        return found

    def _arguments(self) -> tuple[ast.Expr, ...]:
        return self.several_or_none("(", self._argument, ")")

    def _argument(self) -> ast.Expr:
        if self.value == "?" and self.peek() in (",", ")"):
            at = self.here()
            self.advance()
            return ast.Placeholder(at)
        return self.expr_single()

    def _primary(self) -> ast.Expr:
        kind, value, start = self.kind, self.value, self.start
        if kind is STRING:
            return self.string_literal()
        if kind is NUMBER:
            literal = ast.NumericLiteral(self.here(), value)
            self.advance()
            return literal
        if kind is NAME or kind is BRACED:
            return self._named_primary()
        match value:
            case "$":
                name = self.variable_name()
                return ast.VarRef(self.since(start), name)
            case "(":
                return self._parentheses()
            case ".":
                self.advance()
                return ast.ContextItem(self.since(start))
            case "<":
                return self.direct_constructor()
            case "[":
                return self._square_array()
            case "?":
                key = self._lookup_key()
                return ast.UnaryLookup(self.since(start), key)
            case "%":
                return self._inline_function(start, self.annotations())
            case "``[":
                return self.string_constructor()
        self.fail_expected("an expression")

    def _named_primary(self) -> ast.Expr:
        start, value = self.start, self.value
        following = self.peek()
        if following == "{":
            if value == "map":
                return self._map_constructor()
            if value in ("array", "ordered", "unordered"):
                self.advance()
                content = self.enclosed_expr()
                if value == "array":
                    return ast.CurlyArray(self.since(start), content)
                return ast.Ordering(self.since(start), cast(Literal["ordered", "unordered"], value), content)
        if following == "(" and value == "function":
            return self._inline_function(start, ())
        if following not in ("(", "#") and self.is_computed_constructor():
            return self.computed_constructor()
        name = self.name()
        self._refuse_reserved(name)
        if self.value == "#":
            self.advance()
            if self.kind is not NUMBER or not self.value.isdigit():
                self.fail_expected("the number of arguments after `#`")
            if len(self.value) > ARITY_DIGITS_MAX:
                self.fail("no function has that many arguments")
            arity = int(self.value)
            self.advance()
            return ast.NamedFunctionRef(self.since(start), name, arity)
        args = self._arguments()
        self.note_call(name)
        return ast.FunctionCall(self.since(start), name, args)

    def _refuse_reserved(self, name: ast.Name) -> None:
        if name.prefix is None and name.uri is None and name.local in RESERVED_FUNCTION_NAMES:
            self.fail_at(f"`{name}` cannot be the name of a function", name.at.start, name.at.end)

    def _parentheses(self) -> ast.Expr:
        start = self.start
        self.advance()
        if self.accept(")"):
            return ast.Sequence(self.since(start), ())
        content = self.expr()
        self.expect(")")
        return content

    def _square_array(self) -> ast.Expr:
        start = self.start
        members = self.several_or_none("[", self.expr_single, "]")
        return ast.SquareArray(self.since(start), members)

    def _map_constructor(self) -> ast.Expr:
        start = self.start
        self.advance()
        entries = self.several_or_none("{", self._map_entry, "}")
        return ast.MapConstructor(self.since(start), entries)

    def _map_entry(self) -> ast.MapEntry:
        start = self.start
        key = self.expr_single()
        self.expect(":")
        value = self.expr_single()
        return ast.MapEntry(self.since(start), key, value)

    def _inline_function(self, start: int, annotations: tuple[ast.Annotation, ...]) -> ast.Expr:
        self.expect("function")
        params = self.params()
        returns = self.optional_type()
        seen = self.updates_seen, self.actions_seen
        body = self.enclosed_expr()
        self.updates_seen, self.actions_seen = seen
        return ast.InlineFunction(self.since(start), annotations, params, returns, body)
