"""Parse expressions: operators by precedence, paths and steps. Keywords are names unless the next token decides."""

from __future__ import annotations

import re
from typing import Literal, cast

from demaq.language import ast
from demaq.language.parsing.actions import Actions
from demaq.language.parsing.characters import END_TAG, EQNAME, NAME_START, START_TAG
from demaq.language.parsing.control import Control
from demaq.language.parsing.primaries import Primaries
from demaq.language.parsing.scanner import BRACED, NAME, STRING, SYMBOL, WILD
from demaq.language.parsing.types import KIND_TESTS

AXES = frozenset(
    {
        *("child", "descendant", "attribute", "self", "descendant-or-self", "following-sibling", "following"),
        *("parent", "ancestor", "preceding-sibling", "preceding", "ancestor-or-self"),
    }
)

OR, AND, COMPARE, CONCAT, RANGE, ADD, MULTIPLY, UNION, INTERSECT = range(1, 10)
INSTANCE, TREAT, CASTABLE, CAST, TRANSFORM, ARROW = range(10, 16)

CLOSING = {"(": ")", "[": "]", "{": "}"}

LEVEL = {
    "or": OR,
    "and": AND,
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">=", "eq", "ne", "lt", "le", "gt", "ge", "is", "<<", ">>"), COMPARE),
    "||": CONCAT,
    "to": RANGE,
    "+": ADD,
    "-": ADD,
    **dict.fromkeys(("*", "div", "idiv", "mod"), MULTIPLY),
    "union": UNION,
    "|": UNION,
    "intersect": INTERSECT,
    "except": INTERSECT,
    "instance": INSTANCE,
    "treat": TREAT,
    "castable": CASTABLE,
    "cast": CAST,
    "transform": TRANSFORM,
    "=>": ARROW,
}

STATEMENTS = ("queue", "property", "slicing", "collection", "rule")

_TYPE_WORD = {"instance": "of", "treat": "as", "castable": "as", "cast": "as"}
_NO_CHAIN = (COMPARE, RANGE)
_AFTER_ROOT = frozenset({"into", "with", "value", "queue", "create", "as", "before", "after"})
_STARTS_STEP = frozenset({"@", "..", ".", "*", "(", "$", "?", "[", "%", "<", "``["})


class Expressions(Control, Primaries, Actions):
    # lists

    def expr(self) -> ast.Expr:
        start = self.start
        first = self.expr_single()
        if self.value != ",":
            return first
        self.advance()
        others = self.several(self.expr_single)
        return ast.Sequence(self.since(start), (first, *others))

    def enclosed_expr(self) -> ast.Expr | None:
        self.expect("{")
        content = None if self.value == "}" else self.expr()
        self.expect("}")
        return content

    # single expressions

    def one_expr(self) -> ast.Expr:
        match self.value:
            case "for" | "let":
                if self.begins_flwor():
                    return self.flwor()
            case "some" | "every":
                if self.peek() == "$":
                    return self.quantified()
            case "if":
                if self.peek() == "(":
                    return self.if_expr()
            case "switch":
                if self.peek() == "(":
                    return self.switch()
            case "typeswitch":
                if self.peek() == "(":
                    return self.typeswitch()
            case "try":
                if self.peek() == "{":
                    return self.try_catch()
            case "insert" | "delete" | "replace" | "rename" | "copy" | "transform" | "do":
                if self.begins_update():
                    return self.update()
        return self._operators(OR)

    def _operators(self, floor: int) -> ast.Expr:
        """Parse operators that bind at least as tightly as the floor (precedence climbing)."""
        start = self.start
        left = self._unary()
        ceiling = ARROW + 1
        while True:
            level = LEVEL.get(self.value, 0)
            if level < floor or level == 0:
                return left
            if self.value == "<":
                self._refuse_tag()
            if level >= ceiling:
                self._refuse_chain(left)
                self.fail(
                    f"`{self.value}` cannot follow here without parentheses",
                    hint="say what belongs together: (a = b) = c",
                )
            if level < INSTANCE:
                left = self._chain(start, left, level)
            elif level == ARROW:
                left = self._arrow(start, left)
            elif level == TRANSFORM:
                if self.peek() != "with":
                    return left
                self.expect_words("transform", "with")
                seen = self.updates_seen, self.actions_seen
                modify = self.enclosed_expr()
                self.updates_seen, self.actions_seen = seen
                left = ast.TransformWith(self.since(start), left, modify)
            elif self.peek() == _TYPE_WORD[self.value]:
                left = self._type_operation(start, left)
            else:
                return left
            ceiling = level

    def _refuse_tag(self) -> None:
        """Refuse a tag: comparisons do not chain, so `</a>` and `<a>` after a value can only be tags."""
        closing = re.compile(END_TAG).match(self.text, self.start)
        if closing is not None and self.brackets:
            opening = self.brackets[-1][0]
            bracket = self.text[opening]
            hint = f"add the missing `{CLOSING[bracket]}` before {closing.group()}"
            self.fail_at(f"this `{bracket}` is never closed", opening, opening + 1, hint)
        if closing is not None:
            self.fail_at(f"{closing.group()} closes nothing here", closing.start(), closing.end())
        if (tag := re.compile(START_TAG).match(self.text, self.start)) is not None:
            shown = f"<{tag.group(1)}>"
            hint = "values are joined by a comma: (A, B)"
            self.fail_at(f"a comma is missing before {shown}", tag.start(), tag.end(1), hint)

    def _refuse_chain(self, left: ast.Expr) -> None:
        if isinstance(left, ast.OperatorChain) and isinstance(left.operands[-1], ast.OperatorChain):
            inner = left.operands[-1]
            if "||" in inner.operators:
                at = self.text.find("||", inner.operands[0].at.end)
                self.fail_at("`||` joins strings", at, at + 2, hint="write `or`")

    def _chain(self, start: int, first: ast.Expr, level: int) -> ast.Expr:
        operators: list[str] = []
        operands = [first]
        while LEVEL.get(self.value) == level:
            operators.append(self.value)
            self.advance()
            operands.append(self._operators(level + 1))
            if level in _NO_CHAIN:
                break
        return ast.OperatorChain(self.since(start), tuple(operators), tuple(operands))

    def _type_operation(self, start: int, operand: ast.Expr) -> ast.Expr:
        word = self.value
        operator = cast(Literal["instance of", "treat as", "castable as", "cast as"], f"{word} {_TYPE_WORD[word]}")
        self.advance()
        self.advance()
        type_ = self.sequence_type() if word in ("instance", "treat") else self.single_type()
        return ast.TypeOperation(self.since(start), operator, operand, type_)

    def _arrow(self, start: int, operand: ast.Expr) -> ast.Expr:
        calls: list[ast.ArrowCall] = []
        while self.value == "=>":
            self.advance()
            call_start = self.start
            function: ast.Name | ast.Expr
            if self.value == "$":
                function = ast.VarRef(self.here(), self.variable_name())
            elif self.value == "(":
                function = self._parentheses()
            else:
                hint = "`=>` calls a function: $text => upper-case(); greater or equal is `>=`"
                function = self.name("a function's name, `$variable` or `(expression)`", hint)
                self._refuse_reserved(function)
                self.note_call(function)
            args = self._arguments()
            calls.append(ast.ArrowCall(self.since(call_start), function, args))
        return ast.Arrow(self.since(start), operand, tuple(calls))

    def _unary(self) -> ast.Expr:
        start = self.start
        signs: list[str] = []
        while self.value in ("-", "+"):
            signs.append(self.value)
            self.advance()
        if self.value == "validate":
            self._refuse_validate()
        operand = self._extension() if self.value == "(#" else self._simple_map()
        return ast.Unary(self.since(start), "".join(signs), operand) if signs else operand

    def _refuse_validate(self) -> None:
        following = self.peek()
        if following in ("{", "type") or (following in ("lax", "strict") and self.peek(2) == "{"):
            self.fail("validate is not supported", hint="give the queue a schema: create queue q schema order.xsd")

    def _extension(self) -> ast.Expr:
        start = self.start
        pragmas: list[ast.Pragma] = []
        while self.value == "(#":
            pragmas.append(self._pragma())
        content = self.enclosed_expr()
        return ast.Extension(self.since(start), tuple(pragmas), content)

    def _pragma(self) -> ast.Pragma:
        """Parse `(# name content #)` by character, because the content may be anything."""
        start = self.start
        closing = self.text.find("#)", self.end)
        if closing < 0:
            self.fail("this pragma is never closed", hint="add the missing `#)`")
        self.end = self._space(self.end)
        match = re.compile(EQNAME).match(self.text, self.end, closing)
        if match is None:
            self.fail_at("expected the pragma's name", self.end, self.end + 1)
        self.start, self.value, self.end = match.start(), match.group(), match.end()
        at = self.here()
        name = self._braced_name(at) if self.value.startswith("Q{") else self._plain_name(at)
        rest = self.text[match.end() : closing]
        if rest and not rest[0].isspace():
            self.fail_at("expected a blank after the pragma's name", match.end(), match.end() + 1)
        self.last_end = closing + 2
        self.go_to(closing + 2)
        return ast.Pragma(self.since(start), name, rest.strip(" \t\n\r"))

    def _simple_map(self) -> ast.Expr:
        start = self.start
        first = self._path()
        if self.value != "!":
            return first
        self.advance()
        others = self.several(self._path, "!")
        return ast.OperatorChain(self.since(start), ("!",) * len(others), (first, *others))

    # paths

    def _path(self) -> ast.Expr:
        start = self.start
        separators: list[str]
        if self.value == "/":
            self.advance()
            if not self._starts_step() or (self.start > start + 1 and self._ends_at_root()):
                return ast.Root(self.since(start))
            separators, steps = ["/"], [self._step()]
        elif self.value == "//":
            self.advance()
            if not self._starts_step():
                self.fail_expected("a step after `//`")
            separators, steps = ["//"], [self._step()]
        else:
            first = self._step()
            if self.value != "/" and self.value != "//":
                return first
            separators, steps = [""], [first]
        while self.value == "/" or self.value == "//":
            separators.append(self.value)
            self.advance()
            steps.append(self._step())
        return ast.Path(self.since(start), tuple(separators), tuple(steps))

    def _ends_at_root(self) -> bool:
        """Return whether the name after a slash and a space can only belong to the context: `do enqueue / into q`.

        A step would be followed by an operator, a predicate or the end, never by a name or variable.
        """
        if self.value not in _AFTER_ROOT or self.kind is not NAME:
            return False
        kind, value, _ = self.peek_token()
        return value == "$" or kind is STRING or ((kind is NAME or kind is BRACED) and value not in LEVEL)

    def _starts_step(self) -> bool:
        return self.value in _STARTS_STEP if self.kind is SYMBOL else self.kind != "end"

    def _step(self) -> ast.Expr:
        kind, value, start = self.kind, self.value, self.start
        if kind is NAME:
            following = self.peek()
            if self.in_rule:
                self._refuse_statement_words(value, following)
            if following == "::":
                return self._axis_step()
            if following == "(":
                if value in KIND_TESTS:
                    return self._kind_step()
            elif following != "#" and not self._begins_primary(following):
                return self._with_predicates(start, "child", self.name_test())
        elif kind is BRACED:
            if self.peek() not in ("(", "#"):
                return self._with_predicates(start, "child", self.name_test())
        elif kind is WILD or value == "*":
            return self._with_predicates(start, "child", self.name_test())
        elif value == "@":
            self.advance()
            return self._with_predicates(start, "attribute", self.node_test())
        elif value == "..":
            self.advance()
            test = ast.KindTest(self.since(start), "node")
            return self._with_predicates(start, "parent", test)
        return self._postfix()

    def _refuse_statement_words(self, value: str, following: str) -> None:
        """Refuse two adjacent names: the next statement begins here, or a keyword is missing before."""
        if value == "create" and following in STATEMENTS and self.peek_token(2)[0] in (NAME, BRACED):
            self.fail("expected an expression, found the next statement")
        if value == "enqueue" and (
            following == "$" or (following == "<" and NAME_START.match(self.text, self._ahead[2][2]))
        ):
            self.fail("an action begins with `do`", hint="do enqueue MESSAGE into QUEUE")

    def _begins_primary(self, following: str) -> bool:
        """Return whether the current name, with the next token, is a constructor and no step."""
        value = self.value
        if following == "{":
            return value in ("map", "array", "ordered", "unordered") or self.is_computed_constructor()
        return (
            value in ("element", "attribute", "processing-instruction", "namespace") and self.is_computed_constructor()
        )

    def _axis_step(self) -> ast.Expr:
        start, axis = self.start, self.value
        if axis not in AXES:
            self.fail(
                f"`{axis}` is not an axis", hint="axes are child, descendant, parent, ancestor, following-sibling …"
            )
        self.advance()
        self.advance()
        return self._with_predicates(start, axis, self.node_test())

    def _kind_step(self) -> ast.Expr:
        start = self.start
        test = self.kind_test()
        axis = "attribute" if test.kind in ("attribute", "schema-attribute") else "child"
        if test.kind == "namespace-node":
            axis = ""  # no axis selects one: Saxon reports the error
        return self._with_predicates(start, axis, test)

    def _with_predicates(self, start: int, axis: str, test: ast.NameTest | ast.KindTest) -> ast.Expr:
        predicates: list[ast.Predicate] = []
        while self.value == "[":
            predicates.append(self._predicate())
        return ast.AxisStep(self.since(start), axis, test, tuple(predicates))
