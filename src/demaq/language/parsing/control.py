"""Parse FLWOR, quantifiers, conditionals, switches and try: the expressions that begin with a keyword."""

from __future__ import annotations

from typing import Literal, cast

from demaq.language import ast
from demaq.language.parsing.habits import explain_branch
from demaq.language.parsing.types import Types

ELSE_HINT = "only an `if` whose branch has actions may leave its else out"


class Control(Types):
    # FLWOR

    def begins_flwor(self) -> bool:
        following = self.peek()
        if following == "$":
            return True
        return self.value == "for" and following in ("tumbling", "sliding") and self.peek(2) == "window"

    def flwor(self) -> ast.Expr:
        start = self.start
        clauses: list[ast.Clause] = [self._first_clause()]
        while self.value != "return":
            clauses.append(self._clause())
        self.advance()
        result = self.branch("return", start)
        return ast.Flwor(self.since(start), tuple(clauses), result)

    def _first_clause(self) -> ast.Clause:
        if self.value == "let":
            return self._let_clause()
        if self.peek() == "$":
            return self._for_clause()
        return self._window_clause()

    def _clause(self) -> ast.Clause:
        value = self.value
        if value in ("for", "let"):
            if not self.begins_flwor():
                self.fail_expected("a variable after `" + value + "`")
            return self._first_clause()
        start = self.start
        if value == "where":
            self.advance()
            condition = self.expr_single()
            return ast.WhereClause(self.since(start), condition)
        if value == "group":
            return self._group_by()
        if value in ("order", "stable"):
            return self._order_by()
        if value == "count":
            self.advance()
            name = self.variable_name()
            return ast.CountClause(self.since(start), name)
        self.fail_expected("`return` or another clause (for, let, where, group by, order by, count)")

    def _for_clause(self) -> ast.ForClause:
        start = self.start
        self.advance()
        bindings = self.several(self._for_binding)
        return ast.ForClause(self.since(start), bindings)

    def _for_binding(self) -> ast.ForBinding:
        start = self.start
        name = self.variable_name()
        type_ = self.optional_type()
        allowing_empty = False
        if self.accept("allowing"):
            self.expect("empty")
            allowing_empty = True
        position = self.variable_name() if self.accept("at") else None
        self.expect("in")
        expr = self.expr_single()
        return ast.ForBinding(self.since(start), name, type_, allowing_empty, position, expr)

    def _let_clause(self) -> ast.LetClause:
        start = self.start
        self.advance()
        bindings = self.several(self._let_binding)
        return ast.LetClause(self.since(start), bindings)

    def _let_binding(self) -> ast.LetBinding:
        start = self.start
        name = self.variable_name()
        type_ = self.optional_type()
        self.expect(":=", hint="a variable is bound with `:=`")
        expr = self.expr_single()
        return ast.LetBinding(self.since(start), name, type_, expr)

    def _window_clause(self) -> ast.WindowClause:
        start = self.start
        self.advance()
        kind = cast(Literal["tumbling", "sliding"], self.one_of("tumbling", "sliding"))
        self.expect("window")
        name = self.variable_name()
        type_ = self.optional_type()
        self.expect("in")
        expr = self.expr_single()
        opening = self._window_condition("start")
        only_end = False
        closing = None
        if self.value == "only":
            self.advance()
            only_end = True
            closing = self._window_condition("end")
        elif self.value == "end" or kind == "sliding":
            closing = self._window_condition("end")
        return ast.WindowClause(self.since(start), kind, name, type_, expr, opening, closing, only_end)

    def _window_condition(self, word: str) -> ast.WindowCondition:
        start = self.start
        self.expect(word)
        current = self.variable_name() if self.value == "$" else None
        position = self.variable_name() if self.accept("at") else None
        previous = self.variable_name() if self.accept("previous") else None
        following = self.variable_name() if self.accept("next") else None
        self.expect("when")
        when = self.expr_single()
        return ast.WindowCondition(self.since(start), current, position, previous, following, when)

    def _group_by(self) -> ast.GroupByClause:
        start = self.start
        self.expect_words("group", "by")
        specs = self.several(self._group_spec)
        return ast.GroupByClause(self.since(start), specs)

    def _group_spec(self) -> ast.GroupSpec:
        start = self.start
        name = self.variable_name()
        type_ = self.optional_type()
        expr = None
        if type_ is not None or self.value == ":=":
            self.expect(":=")
            expr = self.expr_single()
        collation = self._collation()
        return ast.GroupSpec(self.since(start), name, type_, expr, collation)

    def _collation(self) -> ast.StringLiteral | None:
        return self.string_literal("a collation's URI in quotes") if self.accept("collation") else None

    def _order_by(self) -> ast.OrderByClause:
        start = self.start
        stable = self.accept("stable")
        self.expect_words("order", "by")
        specs = self.several(self._order_spec)
        return ast.OrderByClause(self.since(start), stable, specs)

    def _order_spec(self) -> ast.OrderSpec:
        start = self.start
        expr = self.expr_single()
        direction: Literal["ascending", "descending"] | None = None
        if self.value in ("ascending", "descending"):
            direction = cast(Literal["ascending", "descending"], self.value)
            self.advance()
        empty: Literal["greatest", "least"] | None = None
        if self.accept("empty"):
            empty = cast(Literal["greatest", "least"], self.one_of("greatest", "least"))
        collation = self._collation()
        return ast.OrderSpec(self.since(start), expr, direction, empty, collation)

    # others

    def quantified(self) -> ast.Expr:
        start = self.start
        kind = cast(Literal["some", "every"], self.value)
        self.advance()
        bindings = self.several(self._quantified_binding)
        self.expect("satisfies")
        condition = self.expr_single()
        return ast.Quantified(self.since(start), kind, bindings, condition)

    def _quantified_binding(self) -> ast.QuantifiedBinding:
        start = self.start
        name = self.variable_name()
        type_ = self.optional_type()
        self.expect("in")
        expr = self.expr_single()
        return ast.QuantifiedBinding(self.since(start), name, type_, expr)

    def if_expr(self) -> ast.Expr:
        start = self.start
        self.advance()
        self.expect("(")
        condition = self.expr()
        self.expect(")")
        self.expect("then")
        seen = self._updates_or_foreign_calls_seen()
        self.ifs_open += 1
        then = self.branch("then", start)
        otherwise = None
        if self.value == "else":
            self.advance()
            otherwise = self.branch("else", start)
        elif seen == self._updates_or_foreign_calls_seen():
            self.fail_if_mistake(explain_branch(self.stop("`else`"), then.at.start))
            self.fail_at(f"this `if` has no `else`: found {self.found()} instead", start, start + 2, hint=ELSE_HINT)
        self.ifs_open -= 1
        return ast.If(self.since(start), condition, then, otherwise)

    def _updates_or_foreign_calls_seen(self) -> tuple[int, int]:
        """Return the numbers of updates and of calls into other modules so far.

        Checks decide whether these calls update.
        """
        return (self.updates_seen, self.foreign_calls_seen) if self.in_rule else (self.actions_seen, 0)

    def switch(self) -> ast.Expr:
        start = self.start
        self.advance()
        self.expect("(")
        operand = self.expr()
        self.expect(")")
        cases = [self._switch_case()]
        while self.value == "case":
            cases.append(self._switch_case())
        self.expect_words("default", "return")
        default = self.branch("default return", start)
        return ast.Switch(self.since(start), operand, tuple(cases), default)

    def _switch_case(self) -> ast.SwitchCase:
        start = self.start
        values = []
        self.expect("case")
        values.append(self.expr_single())
        while self.accept("case"):
            values.append(self.expr_single())
        self.expect("return")
        result = self.branch("return", start)
        return ast.SwitchCase(self.since(start), tuple(values), result)

    def typeswitch(self) -> ast.Expr:
        start = self.start
        self.advance()
        self.expect("(")
        operand = self.expr()
        self.expect(")")
        cases = [self._type_case()]
        while self.value == "case":
            cases.append(self._type_case())
        self.expect("default")
        name = self.variable_name() if self.value == "$" else None
        self.expect("return")
        default = self.branch("default return", start)
        return ast.Typeswitch(self.since(start), operand, tuple(cases), name, default)

    def _type_case(self) -> ast.TypeCase:
        start = self.start
        self.expect("case")
        name = None
        if self.value == "$":
            name = self.variable_name()
            self.expect("as")
        types = self.several(self.sequence_type, "|")
        self.expect("return")
        result = self.branch("return", start)
        return ast.TypeCase(self.since(start), name, types, result)

    def try_catch(self) -> ast.Expr:
        start = self.start
        self.advance()
        body = self.enclosed_expr()
        catches = [self._catch()]
        while self.value == "catch":
            catches.append(self._catch())
        return ast.TryCatch(self.since(start), body, tuple(catches))

    def _catch(self) -> ast.CatchClause:
        start = self.start
        self.expect("catch")
        tests = self.several(self.name_test, "|")
        body = self.enclosed_expr()
        return ast.CatchClause(self.since(start), tests, body)
