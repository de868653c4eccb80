"""Random trees of every class, as the parser would make them: chains flat, no parentheses kept, names of all kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from demaq.language import ast
from demaq.source import NOWHERE

Draw = Callable[[st.SearchStrategy[Any]], Any]

_KEYWORDS = """
    and array as ascending at attribute before by case cast castable catch child collation comment copy count
    create declare default delete descending div do document element else empty enqueue eq every except for
    function ge group gt idiv if import in insert instance intersect into is item key last le let lt map mod
    modify module namespace ne node of only option or order ordered parent processing-instruction queue rename
    replace reset return rule satisfies schema-element self slicing some stable start switch text then to
    transform treat try typeswitch union unordered validate value version when where with xquery Q e
""".split()  # noqa: SIM905  # a list would take a line for each
_PLAIN = ["a", "b-c", "d.e", "x1", "_", "é", "𐐀"]
_RESERVED_FUNCTIONS = frozenset(
    {
        *("array", "attribute", "comment", "document-node", "element", "empty-sequence", "function", "if", "item"),
        *("map", "namespace-node", "node", "processing-instruction", "schema-attribute", "schema-element", "switch"),
        *("text", "typeswitch"),
    }
)
_URIS = ["", "urn:a", "http://x.invalid/?a=1&b={2}"]

ncnames = st.sampled_from(_PLAIN + _KEYWORDS)
xml_text = st.text(
    st.one_of(
        st.sampled_from("\"'&<>{}`#(:)]; \n\t\r\x85\u2028"),
        st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cn"]),
    ),
    max_size=6,
)
numbers = st.sampled_from(["0", "1", "007", "1.", ".5", "1.5", "1e3", "1.e-3", ".5E+1", "12345678901234567890"])


@st.composite
def names(draw: Draw) -> ast.Name:
    local = draw(ncnames)
    match draw(st.integers(0, 5)):
        case 0:
            return ast.Name(NOWHERE, local, draw(ncnames))
        case 1:
            return ast.Name(NOWHERE, local, None, draw(st.sampled_from(_URIS)))
    return ast.Name(NOWHERE, local)


@st.composite
def tag_names(draw: Draw) -> ast.Name:
    return ast.Name(NOWHERE, draw(ncnames), draw(st.one_of(st.none(), st.none(), ncnames)))


@st.composite
def function_names(draw: Draw) -> ast.Name:
    name: ast.Name = draw(names())
    if name.prefix is None and name.uri is None and name.local in _RESERVED_FUNCTIONS:
        return ast.Name(NOWHERE, name.local, "local")
    return name


@st.composite
def name_tests(draw: Draw) -> ast.NameTest:
    local = draw(ncnames)
    match draw(st.integers(0, 9)):
        case 0:
            return ast.NameTest(NOWHERE, "*", "*")
        case 1:
            return ast.NameTest(NOWHERE, local, "*")
        case 2:
            return ast.NameTest(NOWHERE, "*", local)
        case 3:
            return ast.NameTest(NOWHERE, "*", None, draw(st.sampled_from(_URIS)))
        case 4:
            return ast.NameTest(NOWHERE, local, None, draw(st.sampled_from(_URIS)))
        case 5:
            return ast.NameTest(NOWHERE, local, draw(ncnames))
    return ast.NameTest(NOWHERE, local)


# --- types -----------------------------------------------------------------------------------------------------------


@st.composite
def kind_tests(draw: Draw) -> ast.KindTest:
    star_or_name = st.one_of(names(), st.just(ast.NameTest(NOWHERE, "*", "*")))
    match draw(st.sampled_from(["plain", "named", "schema", "document", "pi"])):
        case "named":
            kind = draw(st.sampled_from(["element", "attribute"]))
            name = draw(st.one_of(st.none(), star_or_name))
            type_ = draw(st.one_of(st.none(), names())) if name is not None else None
            nillable = kind == "element" and type_ is not None and draw(st.booleans())
            return ast.KindTest(NOWHERE, kind, name, type_, nillable)
        case "schema":
            return ast.KindTest(NOWHERE, draw(st.sampled_from(["schema-element", "schema-attribute"])), draw(names()))
        case "document":
            inner = ast.KindTest(NOWHERE, "element", draw(st.one_of(st.none(), star_or_name)))
            return ast.KindTest(NOWHERE, "document-node", inner=draw(st.sampled_from([None, inner])))
        case "pi":
            name = ast.Name(NOWHERE, draw(ncnames))
            return ast.KindTest(NOWHERE, "processing-instruction", draw(st.sampled_from([None, name])))
    return ast.KindTest(NOWHERE, draw(st.sampled_from(["node", "text", "comment", "namespace-node", "document-node"])))


@st.composite
def annotation_lists(draw: Draw) -> tuple[ast.Annotation, ...]:
    if draw(st.integers(0, 4)):
        return ()
    values = draw(
        st.lists(
            st.one_of(
                st.builds(ast.StringLiteral, st.just(NOWHERE), xml_text),
                st.builds(ast.NumericLiteral, st.just(NOWHERE), numbers),
            ),
            max_size=2,
        )
    )
    return (ast.Annotation(NOWHERE, draw(names()), tuple(values)),)


@st.composite
def item_types(draw: Draw, depth: int = 2) -> ast.ItemType:
    choices = ["kind", "item", "atomic", "function(*)", "map(*)", "array(*)"]
    if depth:
        choices += ["function", "map", "array"]
    match draw(st.sampled_from(choices)):
        case "kind":
            found: ast.KindTest = draw(kind_tests())
            return found
        case "item":
            return ast.AnyItemTest(NOWHERE)
        case "function(*)":
            return ast.FunctionTest(NOWHERE, draw(annotation_lists()), None, None)
        case "map(*)":
            return ast.MapTest(NOWHERE, None, None)
        case "array(*)":
            return ast.ArrayTest(NOWHERE, None)
        case "function":
            params = tuple(draw(st.lists(sequence_types(depth - 1), max_size=2)))
            return ast.FunctionTest(NOWHERE, draw(annotation_lists()), params, draw(sequence_types(depth - 1)))
        case "map":
            return ast.MapTest(NOWHERE, draw(names()), draw(sequence_types(depth - 1)))
        case "array":
            return ast.ArrayTest(NOWHERE, draw(sequence_types(depth - 1)))
    return ast.AtomicType(NOWHERE, draw(names()))


@st.composite
def sequence_types(draw: Draw, depth: int = 2) -> ast.SequenceType:
    if not draw(st.integers(0, 6)):
        return ast.SequenceType(NOWHERE, None)
    return ast.SequenceType(NOWHERE, draw(item_types(depth)), draw(st.sampled_from(["", "?", "*", "+"])))


def optional_types() -> st.SearchStrategy[ast.SequenceType | None]:
    return st.one_of(st.none(), sequence_types())


@st.composite
def params(draw: Draw) -> tuple[ast.Param, ...]:
    return tuple(draw(st.lists(st.builds(ast.Param, st.just(NOWHERE), names(), optional_types()), max_size=2)))


# --- expressions -----------------------------------------------------------------------------------------------------

_OPERATORS = [
    ["or"],
    ["and"],
    ["||"],
    ["+", "-"],
    ["*", "div", "idiv", "mod"],
    ["union", "|"],
    ["intersect", "except"],
    ["!"],
]
_SINGLE_OPERATORS = ["=", "!=", "<", "<=", ">", ">=", "eq", "ne", "lt", "le", "gt", "ge", "is", "<<", ">>", "to"]
_AXES = [
    *("child", "descendant", "attribute", "self", "descendant-or-self", "following-sibling", "following", "parent"),
    *("ancestor", "preceding-sibling", "preceding", "ancestor-or-self"),
]


class _Builder:
    """Draws expressions down to a depth. One method for each class of expression, found by its name."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw

    def pick(self, choices: list[Any]) -> Any:
        return self.draw(st.sampled_from(choices))

    def flag(self) -> bool:
        return bool(self.draw(st.booleans()))

    def name(self) -> ast.Name:
        return self.draw(names())  # type: ignore[no-any-return]

    def maybe_name(self) -> ast.Name | None:
        return self.name() if self.flag() else None

    def type(self) -> ast.SequenceType | None:
        return self.draw(optional_types())  # type: ignore[no-any-return]

    def maybe(self, depth: int) -> ast.Expr | None:
        return self.expr(depth) if self.flag() else None

    def many(self, depth: int, least: int, most: int) -> tuple[ast.Expr, ...]:
        return tuple([self.expr(depth) for _ in range(self.draw(st.integers(least, most)))])

    def expr(self, depth: int) -> ast.Expr:
        if depth <= 0:
            return getattr(self, self.pick(_LEAVES))(depth)  # type: ignore[no-any-return]
        return getattr(self, self.pick(_INNER))(depth - 1)  # type: ignore[no-any-return]

    # leaves

    def leaf_string(self, depth: int) -> ast.Expr:
        return ast.StringLiteral(NOWHERE, self.draw(xml_text))

    def leaf_number(self, depth: int) -> ast.Expr:
        return ast.NumericLiteral(NOWHERE, self.draw(numbers))

    def leaf_variable(self, depth: int) -> ast.Expr:
        return ast.VarRef(NOWHERE, self.name())

    def leaf_dot(self, depth: int) -> ast.Expr:
        return ast.ContextItem(NOWHERE)

    def leaf_empty(self, depth: int) -> ast.Expr:
        return ast.Sequence(NOWHERE, ())

    def leaf_root(self, depth: int) -> ast.Expr:
        return ast.Root(NOWHERE)

    def leaf_step(self, depth: int) -> ast.Expr:
        return self.axis_step(-1)

    def leaf_function(self, depth: int) -> ast.Expr:
        return ast.NamedFunctionRef(NOWHERE, self.draw(function_names()), self.draw(st.integers(0, 3)))

    def leaf_lookup(self, depth: int) -> ast.Expr:
        return ast.UnaryLookup(NOWHERE, self.pick([ast.KeyWildcard(NOWHERE), ast.KeyName(NOWHERE, "a")]))

    def leaf_element(self, depth: int) -> ast.Expr:
        return ast.DirectElement(NOWHERE, self.draw(tag_names()), (), ())

    def leaf_comment(self, depth: int) -> ast.Expr:
        return ast.DirectComment(NOWHERE, self.pick(["", "a - b", "(: {x} <"]))

    def leaf_pi(self, depth: int) -> ast.Expr:
        return ast.DirectPI(NOWHERE, self.pick(["a", "for"]), self.pick(["", "x ? (: {"]))

    def leaf_reset(self, depth: int) -> ast.Expr:
        return ast.Reset(NOWHERE, None, None)

    # primaries

    def sequence(self, depth: int) -> ast.Expr:
        return ast.Sequence(NOWHERE, self.many(depth, 2, 3))

    def args(self, depth: int) -> tuple[ast.Expr, ...]:
        found: list[ast.Expr] = []
        for _ in range(self.draw(st.integers(0, 3))):
            found.append(self.expr(depth) if self.draw(st.integers(0, 4)) else ast.Placeholder(NOWHERE))
        return tuple(found)

    def call(self, depth: int) -> ast.Expr:
        return ast.FunctionCall(NOWHERE, self.draw(function_names()), self.args(depth))

    def inline_function(self, depth: int) -> ast.Expr:
        return ast.InlineFunction(
            NOWHERE, self.draw(annotation_lists()), self.draw(params()), self.type(), self.maybe(depth)
        )

    def map_constructor(self, depth: int) -> ast.Expr:
        count = self.draw(st.integers(0, 2))
        entries = [ast.MapEntry(NOWHERE, self.expr(depth), self.expr(depth)) for _ in range(count)]
        return ast.MapConstructor(NOWHERE, tuple(entries))

    def square_array(self, depth: int) -> ast.Expr:
        return ast.SquareArray(NOWHERE, self.many(depth, 0, 3))

    def curly_array(self, depth: int) -> ast.Expr:
        return ast.CurlyArray(NOWHERE, self.maybe(depth))

    def key(self, depth: int) -> ast.Expr:
        match self.draw(st.integers(0, 3)):
            case 0:
                return ast.KeyName(NOWHERE, self.draw(ncnames))
            case 1:
                return ast.KeyWildcard(NOWHERE)
            case 2:
                return ast.NumericLiteral(NOWHERE, "1")
        return self.expr(depth)

    def unary_lookup(self, depth: int) -> ast.Expr:
        return ast.UnaryLookup(NOWHERE, self.key(depth))

    def string_constructor(self, depth: int) -> ast.Expr:
        return ast.StringConstructor(NOWHERE, self.parts(depth, ["x", " ( [ ] {{ } & < \" '", "(: \n"]))

    def ordering(self, depth: int) -> ast.Expr:
        return ast.Ordering(NOWHERE, self.pick(["ordered", "unordered"]), self.maybe(depth))

    def extension(self, depth: int) -> ast.Expr:
        pragma = ast.Pragma(NOWHERE, self.name(), self.pick(["", "x", "a (: # ) {"]))
        return ast.Extension(NOWHERE, (pragma,) * self.draw(st.integers(1, 2)), self.maybe(depth))

    # postfixes, paths, operators

    def predicates(self, depth: int) -> tuple[ast.Predicate, ...]:
        if depth < 0:
            return ()
        return tuple([ast.Predicate(NOWHERE, self.expr(depth)) for _ in range(self.draw(st.integers(0, 2)))])

    def postfix(self, depth: int) -> ast.Expr:
        suffixes: list[ast.Predicate | ast.Arguments | ast.Lookup] = []
        for _ in range(self.draw(st.integers(1, 3))):
            match self.draw(st.integers(0, 2)):
                case 0:
                    suffixes.append(ast.Predicate(NOWHERE, self.expr(depth)))
                case 1:
                    suffixes.append(ast.Arguments(NOWHERE, self.args(depth)))
                case _:
                    suffixes.append(ast.Lookup(NOWHERE, self.key(depth)))
        return ast.Postfix(NOWHERE, self.expr(depth), tuple(suffixes))

    def axis_step(self, depth: int) -> ast.Expr:
        test = self.draw(st.one_of(name_tests(), name_tests(), kind_tests()))
        axis = self.pick(["child", "child", *_AXES])
        return ast.AxisStep(NOWHERE, axis, test, self.predicates(depth))

    def path(self, depth: int) -> ast.Expr:
        first = self.pick(["", "/", "//"])
        steps = self.many(depth, 1 if first else 2, 3)
        separators = [first] + [self.pick(["/", "//"]) for _ in steps[1:]]
        return ast.Path(NOWHERE, tuple(separators), steps)

    def operation(self, depth: int) -> ast.Expr:
        if self.flag():
            return ast.OperatorChain(NOWHERE, (self.pick(_SINGLE_OPERATORS),), self.many(depth, 2, 2))
        level = self.pick(_OPERATORS)
        operands = self.many(depth, 2, 3)
        return ast.OperatorChain(NOWHERE, tuple([self.pick(level) for _ in operands[1:]]), operands)

    def unary(self, depth: int) -> ast.Expr:
        return ast.Unary(NOWHERE, self.pick(["-", "+", "--", "-+-"]), self.expr(depth))

    def type_operation(self, depth: int) -> ast.Expr:
        operand = self.expr(depth)
        if self.flag():
            type_ = self.draw(sequence_types())
            return ast.TypeOperation(NOWHERE, self.pick(["instance of", "treat as"]), operand, type_)
        single = ast.SingleType(NOWHERE, self.name(), self.flag())
        return ast.TypeOperation(NOWHERE, self.pick(["castable as", "cast as"]), operand, single)

    def arrow(self, depth: int) -> ast.Expr:
        calls = []
        for _ in range(self.draw(st.integers(1, 2))):
            function = self.draw(function_names()) if self.flag() else self.expr(depth)
            calls.append(ast.ArrowCall(NOWHERE, function, self.args(depth)))
        return ast.Arrow(NOWHERE, self.expr(depth), tuple(calls))

    # control

    def flwor(self, depth: int) -> ast.Expr:
        clauses: list[ast.Clause] = [getattr(self, self.pick(_FIRST_CLAUSES))(depth)]
        for _ in range(self.draw(st.integers(0, 2))):
            clauses.append(getattr(self, self.pick(_CLAUSES))(depth))
        return ast.Flwor(NOWHERE, tuple(clauses), self.expr(depth))

    def for_clause(self, depth: int) -> ast.Clause:
        bindings = [
            ast.ForBinding(NOWHERE, self.name(), self.type(), self.flag(), self.maybe_name(), self.expr(depth))
            for _ in range(self.draw(st.integers(1, 2)))
        ]
        return ast.ForClause(NOWHERE, tuple(bindings))

    def let_clause(self, depth: int) -> ast.Clause:
        bindings = [
            ast.LetBinding(NOWHERE, self.name(), self.type(), self.expr(depth))
            for _ in range(self.draw(st.integers(1, 2)))
        ]
        return ast.LetClause(NOWHERE, tuple(bindings))

    def window_clause(self, depth: int) -> ast.Clause:
        kind = self.pick(["tumbling", "sliding"])
        end = self.window_condition(depth) if kind == "sliding" or self.flag() else None
        return ast.WindowClause(
            NOWHERE,
            kind,
            self.name(),
            self.type(),
            self.expr(depth),
            self.window_condition(depth),
            end,
            end is not None and self.flag(),
        )

    def window_condition(self, depth: int) -> ast.WindowCondition:
        current, position, previous, following = [self.maybe_name() for _ in range(4)]
        return ast.WindowCondition(NOWHERE, current, position, previous, following, self.expr(depth))

    def where_clause(self, depth: int) -> ast.Clause:
        return ast.WhereClause(NOWHERE, self.expr(depth))

    def collation(self) -> ast.StringLiteral | None:
        return ast.StringLiteral(NOWHERE, self.draw(xml_text)) if self.flag() else None

    def group_by_clause(self, depth: int) -> ast.Clause:
        specs = []
        for _ in range(self.draw(st.integers(1, 2))):
            expr = self.maybe(depth)
            type_ = self.type() if expr is not None else None
            specs.append(ast.GroupSpec(NOWHERE, self.name(), type_, expr, self.collation()))
        return ast.GroupByClause(NOWHERE, tuple(specs))

    def order_by_clause(self, depth: int) -> ast.Clause:
        specs = []
        for _ in range(self.draw(st.integers(1, 2))):
            direction = self.pick([None, "ascending", "descending"])
            empty = self.pick([None, "greatest", "least"])
            specs.append(ast.OrderSpec(NOWHERE, self.expr(depth), direction, empty, self.collation()))
        return ast.OrderByClause(NOWHERE, self.flag(), tuple(specs))

    def count_clause(self, depth: int) -> ast.Clause:
        return ast.CountClause(NOWHERE, self.name())

    def quantified(self, depth: int) -> ast.Expr:
        bindings = [
            ast.QuantifiedBinding(NOWHERE, self.name(), self.type(), self.expr(depth))
            for _ in range(self.draw(st.integers(1, 2)))
        ]
        return ast.Quantified(NOWHERE, self.pick(["some", "every"]), tuple(bindings), self.expr(depth))

    def switch(self, depth: int) -> ast.Expr:
        cases = [
            ast.SwitchCase(NOWHERE, self.many(depth, 1, 2), self.expr(depth))
            for _ in range(self.draw(st.integers(1, 2)))
        ]
        return ast.Switch(NOWHERE, self.expr(depth), tuple(cases), self.expr(depth))

    def typeswitch(self, depth: int) -> ast.Expr:
        cases = []
        for _ in range(self.draw(st.integers(1, 2))):
            types = tuple(self.draw(st.lists(sequence_types(), min_size=1, max_size=2)))
            cases.append(ast.TypeCase(NOWHERE, self.maybe_name(), types, self.expr(depth)))
        return ast.Typeswitch(NOWHERE, self.expr(depth), tuple(cases), self.maybe_name(), self.expr(depth))

    def if_expr(self, depth: int) -> ast.Expr:
        return ast.If(NOWHERE, self.expr(depth), self.expr(depth), self.expr(depth))

    def if_without_else(self, depth: int) -> ast.Expr:
        return ast.If(NOWHERE, self.expr(depth), self.acting(depth), None)

    def acting(self, depth: int) -> ast.Expr:
        """Something with an action inside, so that an if around it may leave its else out."""
        if depth <= 0:
            return ast.Reset(NOWHERE, None, None)
        match self.draw(st.integers(0, 4)):
            case 0:
                return self.if_without_else(depth - 1)
            case 1:
                return ast.Flwor(NOWHERE, (self.let_clause(depth - 1),), self.acting(depth - 1))
            case 2:
                return ast.Sequence(NOWHERE, (self.acting(depth - 1), self.acting(depth - 1)))
            case 3:
                return ast.If(NOWHERE, self.expr(depth - 1), self.acting(depth - 1), self.acting(depth - 1))
        return self.enqueue(depth - 1)

    def try_catch(self, depth: int) -> ast.Expr:
        catches = [
            ast.CatchClause(
                NOWHERE, tuple(self.draw(st.lists(name_tests(), min_size=1, max_size=2))), self.maybe(depth)
            )
            for _ in range(self.draw(st.integers(1, 2)))
        ]
        return ast.TryCatch(NOWHERE, self.maybe(depth), tuple(catches))

    # constructors

    def parts(self, depth: int, raws: list[str]) -> tuple[ast.RawText | ast.Enclosed, ...]:
        found: list[ast.RawText | ast.Enclosed] = []
        for _ in range(self.draw(st.integers(0, 3))):
            if self.flag() and not (found and isinstance(found[-1], ast.RawText)):
                found.append(ast.RawText(NOWHERE, self.pick(raws)))
            else:
                found.append(ast.Enclosed(NOWHERE, self.maybe(depth)))
        return tuple(found)

    def element(self, depth: int) -> ast.Expr:
        attributes = [
            ast.DirectAttribute(
                NOWHERE, self.draw(tag_names()), self.parts(depth, ["x", "{{ }}", " \" ' ", "&lt;&#10;", "(:\n"])
            )
            for _ in range(self.draw(st.integers(0, 2)))
        ]
        content: list[ast.RawText | ast.Enclosed | ast.CData | ast.Expr] = []
        for part in self.parts(depth, ["x", " ", "\n  ", "{{}}", "&amp;", "(: x", ":)", "\"'`", "]]"]):
            content.append(part)
            match self.draw(st.integers(0, 5)):
                case 0:
                    content.append(ast.CData(NOWHERE, self.pick(["", "x{<(:", "]] >"])))
                case 1:
                    content.append(self.element(depth - 1) if depth > 0 else self.leaf_element(0))
                case 2:
                    content.append(getattr(self, self.pick(["leaf_comment", "leaf_pi"]))(0))
        return ast.DirectElement(NOWHERE, self.draw(tag_names()), tuple(attributes), tuple(content))

    def computed(self, depth: int) -> ast.Expr:
        kind = self.pick(["element", "attribute", "document", "text", "comment", "processing-instruction", "namespace"])
        name: ast.Name | ast.Expr | None = None
        if kind in ("element", "attribute"):
            name = self.name() if self.flag() else self.expr(depth)
        elif kind in ("processing-instruction", "namespace"):
            name = ast.Name(NOWHERE, self.draw(ncnames)) if self.flag() else self.expr(depth)
        return ast.Computed(NOWHERE, kind, name, self.maybe(depth))

    # updates

    def insert(self, depth: int) -> ast.Expr:
        where = self.pick(["into", "as first into", "as last into", "before", "after"])
        return ast.Insert(NOWHERE, self.expr(depth), where, self.expr(depth), self.flag())

    def delete(self, depth: int) -> ast.Expr:
        return ast.Delete(NOWHERE, self.expr(depth), self.flag())

    def replace(self, depth: int) -> ast.Expr:
        return ast.Replace(NOWHERE, self.flag(), self.expr(depth), self.expr(depth), self.flag())

    def rename(self, depth: int) -> ast.Expr:
        return ast.Rename(NOWHERE, self.expr(depth), self.expr(depth), self.flag())

    def copy(self, depth: int) -> ast.Expr:
        count = self.draw(st.integers(1, 2))
        bindings = [ast.CopyBinding(NOWHERE, self.name(), self.expr(depth)) for _ in range(count)]
        return ast.Copy(NOWHERE, tuple(bindings), self.expr(depth), self.expr(depth), self.flag())

    def transform_with(self, depth: int) -> ast.Expr:
        return ast.TransformWith(NOWHERE, self.expr(depth), self.maybe(depth))

    def enqueue(self, depth: int) -> ast.Expr:
        count = self.draw(st.integers(0, 2))
        properties = [ast.With(NOWHERE, self.name(), self.expr(depth)) for _ in range(count)]
        return ast.Enqueue(NOWHERE, self.expr(depth), self.name(), tuple(properties))

    def reset(self, depth: int) -> ast.Expr:
        name = self.name()
        if str(name) in ("else", "case", "default"):  # words that continue after a bare reset: no slicing is named so
            name = ast.Name(NOWHERE, "slicing")
        return ast.Reset(NOWHERE, name, self.expr(depth))


_LEAVES = [name for name in vars(_Builder) if name.startswith("leaf_")]
_FIRST_CLAUSES = ["for_clause", "let_clause", "window_clause"]
_CLAUSES = [*_FIRST_CLAUSES, "where_clause", "group_by_clause", "order_by_clause", "count_clause"]
_INNER = [
    *("leaf_string", "leaf_step", "leaf_variable"),
    *("sequence", "call", "inline_function", "map_constructor", "square_array", "curly_array", "unary_lookup"),
    *("string_constructor", "ordering", "extension", "postfix", "axis_step", "path", "operation", "operation", "unary"),
    *("type_operation", "arrow", "flwor", "quantified", "switch", "typeswitch", "if_expr", "if_without_else"),
    *("try_catch", "element", "computed", "insert", "delete", "replace", "rename", "copy", "transform_with", "enqueue"),
    "reset",
]


@st.composite
def exprs(draw: Draw, depth: int = 3) -> ast.Expr:
    return _Builder(draw).expr(depth)


# --- prologs and queries ---------------------------------------------------------------------------------------------

_SETTERS = [
    *(("boundary-space", "preserve"), ("boundary-space", "strip"), ("construction", "strip")),
    *(("default collation", "http://x.invalid/a&b"), ("base-uri", 'a"b'), ("ordering", "unordered")),
    *(("default order empty", "least"), ("copy-namespaces", "preserve, no-inherit"), ("revalidation", "lax")),
]


@st.composite
def head_declarations(draw: Draw) -> ast.Decl:
    match draw(st.integers(0, 4)):
        case 0:
            return ast.NamespaceDecl(NOWHERE, draw(ncnames), draw(xml_text))
        case 1:
            return ast.DefaultNamespaceDecl(NOWHERE, draw(st.sampled_from(["element", "function"])), draw(xml_text))
        case 2:
            properties = draw(st.lists(st.sampled_from([("digit", "#"), ("NaN", 'a"&')]), max_size=2))
            return ast.DecimalFormatDecl(NOWHERE, draw(st.one_of(st.none(), names())), tuple(properties))
        case 3:
            prefix = draw(st.one_of(st.none(), ncnames))
            return ast.ModuleImport(NOWHERE, prefix, draw(xml_text), tuple(draw(st.lists(xml_text, max_size=2))))
    return ast.Setter(NOWHERE, *draw(st.sampled_from(_SETTERS)))


@st.composite
def body_declarations(draw: Draw, depth: int = 2) -> ast.Decl:
    external = draw(st.booleans())
    value = draw(st.one_of(st.none(), exprs(depth))) if external else draw(exprs(depth))
    match draw(st.integers(0, 3)):
        case 0:
            return ast.ContextItemDecl(NOWHERE, draw(st.one_of(st.none(), item_types())), external, value)
        case 1:
            return ast.VarDecl(
                NOWHERE, draw(annotation_lists()), draw(names()), draw(optional_types()), external, value
            )
        case 2:
            body = None if external else value
            return ast.FunctionDecl(
                NOWHERE,
                draw(annotation_lists()),
                draw(st.booleans()),
                draw(function_names()),
                draw(params()),
                draw(optional_types()),
                external,
                body,
            )
    return ast.OptionDecl(NOWHERE, draw(names()), draw(xml_text))


@st.composite
def prologs(draw: Draw) -> tuple[ast.Decl, ...]:
    head = draw(st.lists(head_declarations(), max_size=2))
    return (*head, *draw(st.lists(body_declarations(), max_size=2)))


@st.composite
def queries(draw: Draw) -> ast.Query:
    version = library = None
    if draw(st.booleans()):
        encoding = draw(st.sampled_from([None, "utf-8"]))
        version = ast.VersionDecl(NOWHERE, draw(st.sampled_from(["3.1", None])) if encoding else "3.1", encoding)
    if not draw(st.integers(0, 4)):
        library = ast.NamespaceDecl(NOWHERE, draw(ncnames), draw(xml_text))
    body = draw(exprs()) if library is None else None
    return ast.Query(NOWHERE, version, library, draw(prologs()), body, ())


# --- applications ----------------------------------------------------------------------------------------------------

_FILES = ["order.xsd", "sub/order.xsd", "with blank.xsd", '"', "../up.xsd"]


@st.composite
def files(draw: Draw) -> ast.File:
    return ast.File(NOWHERE, draw(st.sampled_from(_FILES)))


@st.composite
def queue_decls(draw: Draw) -> ast.QueueDecl:
    interface = draw(st.one_of(st.none(), files()))
    using = st.builds(
        ast.Using,
        st.just(NOWHERE),
        st.sampled_from(["WS-ReliableMessaging", "WS-Security"]),
        st.one_of(st.none(), files()),
    )
    return ast.QueueDecl(
        NOWHERE,
        draw(names()),
        draw(st.sampled_from([None, "basic", "mailbox", "incomingGateway", "outgoingGateway", "echo"])),
        draw(st.sampled_from([None, "persistent", "transient"])),
        draw(st.one_of(st.none(), files())),
        draw(st.one_of(st.none(), st.integers(-5, 10**6))),
        draw(st.one_of(st.none(), names())),
        interface,
        draw(st.sampled_from([None, "Port", "my port"])) if interface is not None else None,
        draw(st.one_of(st.none(), st.builds(ast.StringLiteral, st.just(NOWHERE), xml_text))),
        draw(st.one_of(st.none(), names())),
        tuple(draw(st.lists(using, max_size=2))),
    )


@st.composite
def statements(draw: Draw) -> ast.Statement:
    match draw(st.integers(0, 5)):
        case 0:
            queue: ast.QueueDecl = draw(queue_decls())
            return queue
        case 1:
            part = st.builds(
                ast.PropertyQueues,
                st.just(NOWHERE),
                st.lists(names(), min_size=1, max_size=2).map(tuple),
                st.one_of(st.none(), exprs(2)),
            )
            variant = draw(st.sampled_from([None, "fixed", "inherited"]))
            parts = tuple(draw(st.lists(part, min_size=1, max_size=2)))
            return ast.PropertyDecl(NOWHERE, draw(names()), draw(names()), variant, parts)
        case 2:
            return ast.SlicingDecl(NOWHERE, draw(names()), draw(names()))
        case 3:
            return ast.CollectionDecl(NOWHERE, draw(names()))
    builder = _Builder(draw)
    body = builder.if_without_else(3) if draw(st.booleans()) else builder.if_expr(3)
    return ast.RuleDecl(NOWHERE, draw(names()), draw(names()), draw(st.one_of(st.none(), names())), body)


@st.composite
def modules(draw: Draw) -> ast.Module:
    name = draw(st.one_of(st.none(), ncnames))
    errorqueue = draw(st.one_of(st.none(), names())) if name is not None else None
    return ast.Module(
        NOWHERE, name, errorqueue, draw(prologs()), tuple(draw(st.lists(statements(), min_size=1, max_size=4))), ()
    )
