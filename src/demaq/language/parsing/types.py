"""Parse types and node tests: `element(a)*`, `map(xs:string, item())`, `function(*)`, `p:*`."""

from __future__ import annotations

from demaq.language import ast
from demaq.language.parsing.grammar import Grammar
from demaq.language.parsing.scanner import BRACED, NAME, WILD

KIND_TESTS = frozenset(
    {
        *("node", "text", "comment", "document-node", "element", "attribute", "schema-element", "schema-attribute"),
        *("processing-instruction", "namespace-node"),
    }
)


class Types(Grammar):
    def sequence_type(self) -> ast.SequenceType:
        start = self.start
        if self.value == "empty-sequence" and self.peek() == "(":
            self.advance()
            self.expect_words("(", ")")
            return ast.SequenceType(self.since(start), None)
        item = self.item_type()
        occurrence = ""
        if self.value in ("?", "*", "+"):
            occurrence = self.value
            self.advance()
        return ast.SequenceType(self.since(start), item, occurrence)

    def item_type(self) -> ast.ItemType:
        self.deeper()
        found = self._item_type()
        self.depth -= 1
        return found

    def _item_type(self) -> ast.ItemType:
        value = self.value
        start = self.start
        if value == "(":
            self.advance()
            inner = self.item_type()
            self.expect(")")
            return inner
        if value == "%":
            annotations = self.annotations()
            if self.value != "function":
                self.fail_expected("`function`")
            return self._function_test(start, annotations)
        if self.kind is NAME and self.peek() == "(":
            if value in KIND_TESTS:
                return self.kind_test()
            if value == "item":
                self.advance()
                self.expect_words("(", ")")
                return ast.AnyItemTest(self.since(start))
            if value == "function":
                return self._function_test(start, ())
            if value == "map":
                return self._map_test()
            if value == "array":
                return self._array_test()
            self.fail(f"`{value}(` is not a type", hint="types are written like xs:string, element(a), map(*), item()*")
        name = self.name("a type")
        return ast.AtomicType(name.at, name)

    def _function_test(self, start: int, annotations: tuple[ast.Annotation, ...]) -> ast.FunctionTest:
        self.advance()
        if self.peek() == "*":
            self.expect_words("(", "*", ")")
            return ast.FunctionTest(self.since(start), annotations, None, None)
        params = self.several_or_none("(", self.sequence_type, ")")
        self.expect("as", hint="a function type says what it returns: function(item()) as item()*")
        returns = self.sequence_type()
        return ast.FunctionTest(self.since(start), annotations, params, returns)

    def _map_test(self) -> ast.MapTest:
        start = self.start
        self.advance()
        self.expect("(")
        if self.accept("*"):
            self.expect(")")
            return ast.MapTest(self.since(start), None, None)
        key = self.name("a type")
        self.expect(",")
        value = self.sequence_type()
        self.expect(")")
        return ast.MapTest(self.since(start), key, value)

    def _array_test(self) -> ast.ArrayTest:
        start = self.start
        self.advance()
        self.expect("(")
        member = None
        if not self.accept("*"):
            member = self.sequence_type()
        self.expect(")")
        return ast.ArrayTest(self.since(start), member)

    def single_type(self) -> ast.SingleType:
        start = self.start
        name = self.name("a type")
        optional = self.accept("?")
        return ast.SingleType(self.since(start), name, optional)

    def node_test(self) -> ast.NameTest | ast.KindTest:
        if self.value in KIND_TESTS and self.peek() == "(":
            return self.kind_test()
        return self.name_test()

    def name_test(self) -> ast.NameTest:
        at = self.here()
        value = self.value
        if value == "*":
            found = ast.NameTest(at, "*", "*")
        elif self.kind is WILD and value.startswith("Q{"):
            found = ast.NameTest(at, "*", None, self.uri_in_braces(value[2:-2]))
        elif self.kind is WILD or self.kind is NAME:
            prefix, colon, local = value.rpartition(":")
            found = ast.NameTest(at, local, prefix if colon else None)
        elif self.kind is BRACED:
            name = self._braced_name(at)
            found = ast.NameTest(at, name.local, None, name.uri)
        else:
            self.fail_expected("a name, `*` or a test such as node()")
        self.advance()
        return found

    def kind_test(self) -> ast.KindTest:
        start = self.start
        kind = self.value
        self.advance()
        self.expect("(")
        name: ast.Name | ast.NameTest | None = None
        type_: ast.Name | None = None
        inner: ast.KindTest | None = None
        nillable = False
        if kind in ("element", "attribute"):
            if self.value != ")":
                name = self._name_or_star()
                if self.accept(","):
                    type_ = self.name("a type")
                    nillable = kind == "element" and self.accept("?")
        elif kind in ("schema-element", "schema-attribute"):
            name = self.name()
        elif kind == "document-node":
            if self.value != ")":
                if self.value not in ("element", "schema-element") or self.peek() != "(":
                    self.fail_expected("element(…), schema-element(…) or `)`")
                inner = self.kind_test()
        elif kind == "processing-instruction" and self.value != ")":
            name = self._pi_name()
        self.expect(")")
        return ast.KindTest(self.since(start), kind, name, type_, nillable, inner)

    def _name_or_star(self) -> ast.Name | ast.NameTest:
        return self.name_test() if self.value == "*" else self.name()

    def _pi_name(self) -> ast.Name:
        if self.kind == "string":
            literal = self.string_literal()
            return ast.Name(literal.at, " ".join(literal.value.split()))
        at = self.here()
        return ast.Name(at, self.ncname())
