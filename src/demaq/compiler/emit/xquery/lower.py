"""Lower an author's expression to XQuery that Saxon HE evaluates.

    qs:queue("crm")             d:queue($state, "crm")
    qs:slicekey()               the slicing's property of this message
    current-dateTime()          the message's own time
    do enqueue E into q …       d:enqueue(…, E, …): the fields of one record of the result
    try { E } catch …           try { array { E }?* } catch …: Saxon cannot retract what E has already emitted
    where try … return R        return if (try …) then R else (): Saxon's optimizer would never end
    local:f(x)                  local:f(record, message, state, x), if f depends on the message

Everything else stays as it is, with its source location.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from demaq.compiler.context import CLOCK, CompilerContext
from demaq.compiler.emit.xquery import update_calls
from demaq.compiler.emit.xquery.emitted_names import EmittedNames
from demaq.compiler.emit.xquery.vocabulary import (
    KNOWN,
    MESSAGE,
    RECORD,
    RULE,
    RUNTIME,
    SEPARATOR,
    STATE,
    Sites,
    fn,
    full_name,
    literal,
    runtime,
    runtime_name,
    xs,
)
from demaq.compiler.plan import AnyQueue, CollectionRead, QueueByKey, Read, WholeQueue
from demaq.errors import ProgramError
from demaq.language import ast
from demaq.language.namespaces import FN, QS
from demaq.language.program.program import Program, Rule
from demaq.language.resolving.names import FunctionKey
from demaq.source import NOWHERE, SourceLocation
from demaq.system_properties import ECHO_PROPERTIES, GATEWAY_PROPERTIES, SYSTEM_PROPERTIES

_COLLATION_AT = {
    **dict.fromkeys(
        ["compare", "contains", "starts-with", "ends-with", "substring-before", "substring-after", "deep-equal"], 3
    ),
    **dict.fromkeys(["distinct-values", "max", "min", "sort", "collation-key"], 2),
    **dict.fromkeys(["index-of", "contains-token"], 3),
}
"""Functions that take a collation, and as which argument. Loading an unknown one would end Saxon's process."""


@dataclass(slots=True, eq=False)
class Lowering:
    """Lowers the expressions of one module. `rule` is None for properties, indexes and declared functions."""

    program: Program
    context: CompilerContext
    names: EmittedNames
    sites: Sites
    rule: Rule | None = None
    reads: Mapping[ast.Node, Read] = field(default_factory=dict)
    from_message: frozenset[ast.Path] | None = None
    in_property: bool = False
    asks_known: bool = False
    """Whether the value of a property depends on more than the document."""

    # traversal

    def lower_expr(self, node: ast.Expr) -> ast.Expr:
        lowered = self.lower(node)
        assert isinstance(lowered, ast.Expr)
        return lowered

    def lower(self, node: ast.Node) -> ast.Node:
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            return handler(self, node)
        return self.rebuild(node)

    def rebuild(self, node: ast.Node) -> ast.Node:
        """Return the node with everything below it lowered; the node itself if nothing changed."""
        if not ast.node_fields(type(node)):
            return node
        values, is_other = ast.change_children(node, self.lower)
        if not is_other:
            return node
        made = type(node)(node.at, *values)
        self.names.copy_function(node, made)
        return made

    def template(self, at: SourceLocation, *parts: str | ast.Expr) -> ast.Template:
        return ast.Template(at, parts)

    # functions

    def call(self, node: ast.FunctionCall) -> ast.Node:
        known = self.names.function(node)
        if known is None or not self._is_special(known):
            return self._with_safe_collation(node, known)
        if any([isinstance(arg, ast.Placeholder) for arg in node.args]):
            function = self._as_inline_function(node.at, node.name, known)
            return ast.Postfix(node.at, function, (ast.Arguments(node.at, self._args(node.args)),))
        return self._special(node, known, node.args)

    def reference(self, node: ast.NamedFunctionRef) -> ast.Node:
        known = self.names.function(node)
        if known is None or not (self._is_special(known) or self._takes_collation(known)):
            return node
        return self._as_inline_function(node.at, node.name, known)

    def arrow(self, node: ast.Arrow) -> ast.Node:
        """Return `f(a, b)` for `a => f(b)` if f is special."""
        if not any([self._needs_call(call) for call in node.calls]):
            return self.rebuild(node)
        operand = node.operand
        for call in node.calls:
            if isinstance(call.function, ast.Name):
                made = ast.FunctionCall(call.at, call.function, (operand, *call.args))
                self.names.copy_function(call, made)
                operand = made
            else:
                operand = ast.Postfix(call.at, call.function, (ast.Arguments(call.at, (operand, *call.args)),))
        return self.lower(operand)

    def _needs_call(self, call: ast.ArrowCall) -> bool:
        known = self.names.function(call)
        return known is not None and (self._is_special(known) or self._takes_collation(known))

    def _takes_collation(self, known: FunctionKey) -> bool:
        return known[0] == FN and _COLLATION_AT.get(known[1]) == known[2]

    def _is_special(self, known: FunctionKey) -> bool:
        if known[0] == QS or known[:2] in CLOCK or known[:2] in ((FN, "collection"), (FN, "trace")):
            return True
        return known in self.context.names.declared and self.context.is_ambient(known)

    def _args(self, args: tuple[ast.Expr, ...]) -> tuple[ast.Expr, ...]:
        return tuple([self.lower_expr(arg) for arg in args])

    def _with_safe_collation(self, node: ast.FunctionCall, known: FunctionKey | None) -> ast.Node:
        lowered = self.rebuild(node)
        if known is None or not self._takes_collation(known):
            return lowered
        assert isinstance(lowered, ast.FunctionCall)
        position = _COLLATION_AT[known[1]] - 1
        given = lowered.args[position]
        if isinstance(given, ast.Placeholder):
            return lowered
        checked = self.template(given.at, f"{runtime_name('collation')}(", given, ")")
        args = (*lowered.args[:position], checked, *lowered.args[position + 1 :])
        return ast.FunctionCall(lowered.at, lowered.name, args)

    def _as_inline_function(self, at: SourceLocation, name: ast.Name, known: FunctionKey) -> ast.Expr:
        """Return an inline function that calls a special function, for a reference to it."""
        params = [ast.Name(at, f"a{n}", None, RUNTIME) for n in range(known[2])]
        call = ast.FunctionCall(at, name, tuple([ast.VarRef(at, param) for param in params]))
        self.names.set_function(call, known)
        body = self.lower_expr(call)
        return ast.InlineFunction(at, (), tuple([ast.Param(at, param, None) for param in params]), None, body)

    def _special(self, node: ast.Expr, known: FunctionKey, args: tuple[ast.Expr, ...]) -> ast.Node:
        at = node.at
        match known[:2]:
            case (uri, "message") if uri == QS:
                return self.template(at, MESSAGE)
            case (uri, "queue") if uri == QS:
                return self._queue(node, args)
            case (uri, "slice") if uri == QS:
                return self.template(at, f"({STATE}?slice?*)")
            case (uri, "slicekey") if uri == QS:
                assert self.rule is not None
                return self._own_property(at, self.program.slicings[self.rule.target].property)
            case (uri, "property") if uri == QS:
                return self._property(at, args)
            case (uri, "collection") if uri == FN:
                return self._collection(node, args)
            case (uri, "trace") if uri == FN:
                return self.lower_expr(args[0])
            case function if function in CLOCK:
                return self._clock(at, known[1])
        hidden: list[str | ast.Expr] = [f"{ambient_name(known)}({RECORD}, {MESSAGE}, {STATE}, {self._rule_number()}"]
        for arg in self._args(args):
            hidden.extend([", ", arg])
        return self.template(at, *hidden, ")")

    def _queue(self, node: ast.Expr, args: tuple[ast.Expr, ...]) -> ast.Node:
        read = self.reads.get(node)
        if isinstance(read, QueueByKey):
            return self.template(node.at, f"({STATE}?found({read.number + 1})?*)")
        if isinstance(read, WholeQueue) and read.queue is not None:
            return self.template(node.at, f"{runtime('queue')}({STATE}, {literal(read.queue)})")
        if isinstance(read, AnyQueue) or (read is None and args):
            named = self.names.parts.get(args[0])
            name: str | ast.Expr = literal(named) if named else self.lower_expr(args[0])
            return self.template(node.at, f"{runtime('queue')}({STATE}, {fn('string')}(", name, "))")
        return self.template(node.at, f"{runtime('queue')}({STATE}, {fn('string')}({RECORD}/@q))")

    def _collection(self, node: ast.Expr, args: tuple[ast.Expr, ...]) -> ast.Node:
        read = self.reads.get(node)
        known = read.collection if isinstance(read, CollectionRead) else self.names.parts.get(args[0])
        name: str | ast.Expr = literal(known) if known else self.lower_expr(args[0])
        return self.template(node.at, f"{runtime('collection')}({STATE}, {fn('string')}(", name, "))")

    def _property(self, at: SourceLocation, args: tuple[ast.Expr, ...]) -> ast.Node:
        name = self.names.parts.get(args[0]) if isinstance(args[0], ast.StringLiteral) else None
        if len(args) == 2:
            if self.in_property:
                raise ProgramError(
                    "the value of a property cannot ask for properties of other messages", at, code="DQ0309"
                )
            asked: str | ast.Expr = literal(name) if name else self.lower_expr(args[0])
            head = f"{runtime('property-of')}({RECORD}, {MESSAGE}, {STATE}, {fn('string')}("
            return self.template(at, head, asked, "), ", self.lower_expr(args[1]), ")")
        if self.in_property:
            self.asks_known = True
            computed: str | ast.Expr = literal(name) if name else self.lower_expr(args[0])
            return self.template(at, f"{KNOWN}({fn('string')}(", computed, "))")
        if name is not None:
            return self._own_property(at, name)
        return self.template(at, f"{runtime('property')}({RECORD}, {fn('string')}(", self.lower_expr(args[0]), "))")

    def _own_property(self, at: SourceLocation, name: str) -> ast.Node:
        type_ = property_type(self.program, name)
        value = f"{runtime('value')}({RECORD}, {literal(name)})"
        return self.template(at, value if type_ == "string" else f"({value} ! {xs(type_)}(.))")

    def _clock(self, at: SourceLocation, name: str) -> ast.Node:
        now = f"{runtime('now')}({RECORD})"
        if self.in_property:
            self.asks_known = True
            now = f"{KNOWN}({literal('demaq:created')})"
        match name:
            case "current-date":
                return self.template(at, f"{xs('date')}({now})")
            case "current-time":
                return self.template(at, f"{xs('time')}({now})")
            case "implicit-timezone":
                return self.template(at, f'{xs("dayTimeDuration")}("PT0S")')
        return self.template(at, now)

    # paths

    def path(self, node: ast.Path) -> ast.Node:
        lowered = self.rebuild(node)
        if self.from_message is None or node not in self.from_message:
            return lowered
        assert isinstance(lowered, ast.Path)
        return ast.Path(node.at, ("", *lowered.separators), (self.template(node.at, MESSAGE), *lowered.steps))

    def name_test(self, node: ast.NameTest) -> ast.Node:
        """Qualify a name whose namespace a constructor declares: keys and indexes stand outside of it."""
        names = self.names.resolved
        known = names.elements.get(node) or names.attributes.get(node)
        if known is None or known[0] is None or node.prefix == "*" or node.uri is not None:
            return node
        default = names.prefixes.get("", "") if node in names.elements else ""
        is_same = known[0] == (names.prefixes.get(node.prefix) if node.prefix else default)
        return node if is_same else ast.NameTest(node.at, known[1], None, known[0])

    # actions

    def _rule_number(self) -> str:
        return RULE if self.rule is None else literal(str(self.rule.number))

    def enqueue(self, node: ast.Enqueue) -> ast.Node:
        queue = self.names.parts[node.queue]
        site = literal(self.sites.number(node.at))
        head = f"{runtime('enqueue')}({RECORD}, {STATE}, {self._known_fields(site, queue)}, {site}, {literal(queue)}, "
        parts: list[str | ast.Expr] = [head, *self._document(node.message, queue, site), ", map { "]
        for position, item in enumerate(node.properties):
            name = self.names.parts[item.name]
            where = literal(self.sites.number(item.at))
            parts.append(f"{', ' if position else ''}{literal(name)}: ")
            if name == "timeout" and name not in self.program.properties:
                parts.extend([f"{runtime('timeout')}(", self.lower_expr(item.value), f", {where})"])
            else:
                type_ = literal(property_type(self.program, name))
                parts.extend(
                    [f"{runtime('explicit')}({literal(name)}, {type_}, ", self.lower_expr(item.value), f", {where})"]
                )
        return self.template(node.at, *parts, " })")

    def _known_fields(self, site: str, queue: str) -> str:
        """Return the fields of a record that are known before the rule is evaluated."""
        fields = SEPARATOR.join(["", site.strip('"'), queue])
        if self.rule is None:
            return f"{fn('concat')}({literal('E' + SEPARATOR)}, {RULE}, {literal(fields)})"
        return literal(f"E{SEPARATOR}{self.rule.number}{fields}")

    def _document(self, message: ast.Expr, queue: str, site: str) -> list[str | ast.Expr]:
        """Return the enqueued message as a document.

        A constructed element is built in the document, anything else is copied.
        """
        if isinstance(message, ast.DirectElement) or (isinstance(message, ast.Computed) and message.kind == "element"):
            return ["document { ", self.lower_expr(message), " }"]
        return [f"{runtime('message')}(", self.lower_expr(message), f", {literal(queue)}, {site})"]

    def reset(self, node: ast.Reset) -> ast.Node:
        if node.slicing is not None:
            slicing = self.names.parts[node.slicing]
        else:
            assert self.rule is not None, "a bare reset stands in a rule"
            slicing = self.rule.target
        property_name = self.program.slicings[slicing].property
        site = literal(self.sites.number(node.at))
        head = f"{runtime('reset')}({self._rule_number()}, {site}, {literal(slicing)}, "
        if node.key is None:
            key = self._own_property(node.at, property_name)
            assert isinstance(key, ast.Expr)
            return self.template(node.at, head, key, ")")
        type_ = property_type(self.program, property_name)
        name = literal(property_name)
        cast = f"{runtime('explicit')}({name}, {literal(type_)}, "
        return self.template(node.at, head, cast, self.lower_expr(node.key), f", {site}))")

    def if_expr(self, node: ast.If) -> ast.Node:
        if node.otherwise is not None:
            return self.rebuild(node)
        return ast.If(node.at, self.lower_expr(node.condition), self.lower_expr(node.then), ast.Sequence(node.at, ()))

    # where Saxon deviates

    def try_catch(self, node: ast.TryCatch) -> ast.Node:
        lowered = self.rebuild(node)
        assert isinstance(lowered, ast.TryCatch)
        if lowered.body is None:
            return lowered
        at = node.at
        body = self.template(at, "(array { ", lowered.body, " }?*)")
        need = ast.CatchClause(at, (ast.NameTest(at, "*", None, RUNTIME),), self._rethrow(at))
        return ast.TryCatch(at, body, (need, *lowered.catches))

    def flwor(self, node: ast.Flwor) -> ast.Node:
        """Return the expression without `try` in a `where`, as far as the clauses after it are about single tuples.

        Where the variables of a catch are used in a `where` that does not depend on the loop, Saxon's optimizer moves
        it out of the loop again and again, until the stack overflows and its process ends.
        """
        clauses, after, result = list(node.clauses), list[ast.Clause](), node.result
        while clauses and isinstance(clauses[-1], ast.ForClause | ast.LetClause | ast.WhereClause):
            clause = clauses.pop()
            if isinstance(clause, ast.WhereClause) and _has_try(clause.condition):
                inner = ast.Flwor(node.at, tuple(after), result) if after else result
                result, after = ast.If(clause.at, clause.condition, inner, ast.Sequence(clause.at, ())), []
            else:
                after.insert(0, clause)
        if result is node.result:
            return self.rebuild(node)
        return self.rebuild(ast.Flwor(node.at, (*clauses, *after), result))

    def _rethrow(self, at: SourceLocation) -> ast.Expr:
        err = "$Q{http://www.w3.org/2005/xqt-errors}"
        return self.template(at, f"{fn('error')}({err}code, {err}description, {err}value)")

    def with_collation(self, node: ast.OrderSpec | ast.GroupSpec) -> ast.Node:
        if node.collation is not None:
            refuse_unknown_collation(node.collation.value, node.collation.at)
        return self.rebuild(node)

    def extension(self, node: ast.Extension) -> ast.Node:
        if node.content is None:
            raise ProgramError("no pragma here is known, and nothing stands in the braces", node.at, code="DQ0702")
        return self.lower_expr(node.content)

    def attribute(self, node: ast.DirectAttribute) -> ast.Node:
        """Print the attribute on one line: Saxon counts every line break inside an attribute's value twice.

        Its braces become references: Saxon does not find the end of a value in which an opening one has no closing one.
        """
        parts: list[ast.RawText | ast.Enclosed] = []
        for part in node.parts:
            if isinstance(part, ast.RawText):
                raw = part.raw.replace("\n", " ").replace("{{", "&#x7B;").replace("}}", "&#x7D;")
                parts.append(ast.RawText(NOWHERE, raw))
            else:
                parts.append(
                    ast.Enclosed(NOWHERE, None if part.content is None else _on_one_line(self.lower_expr(part.content)))
                )
        return ast.DirectAttribute(node.at, node.name, tuple(parts))


def refuse_unknown_collation(uri: str, at: SourceLocation) -> None:
    """Raises ProgramError for a collation that Saxon might not survive loading.

    The file collation.xq has the same list, for computed collations.
    """
    known = uri.startswith("http://www.w3.org/2013/collation/UCA") or uri in _COLLATIONS
    if not known and ":" in uri:
        raise ProgramError(f"collation {uri} is not supported", at, "known are codepoint, html-ascii and UCA", "DQ0704")


_COLLATIONS = (
    "http://www.w3.org/2005/xpath-functions/collation/codepoint",
    "http://www.w3.org/2005/xpath-functions/collation/html-ascii-case-insensitive",
)


def _on_one_line(node: ast.Node) -> Any:
    """Return the node without source locations, which would be printed as line breaks."""
    return type(node)(NOWHERE, *ast.change_children(node, _on_one_line)[0])


def ambient_name(known: FunctionKey) -> str:
    """Return the name of a function with the additional parameters for the message."""
    return full_name(*ambient_key(known))


def ambient_key(known: FunctionKey) -> tuple[str, str]:
    """Return the namespace and local name of a function with the additional parameters for the message."""
    return f"{RUNTIME}/{known[0]}", f"{known[1]}-{known[2]}"


def property_type(program: Program, name: str) -> str:
    """Return the local name of a property's type."""
    if name in program.properties:
        return program.properties[name].type
    if name in GATEWAY_PROPERTIES or name in ECHO_PROPERTIES:
        return "string"
    return SYSTEM_PROPERTIES.get(name, "string")


_HANDLERS: dict[type[ast.Node], Callable[[Lowering, Any], ast.Node]] = {
    ast.FunctionCall: Lowering.call,
    ast.NamedFunctionRef: Lowering.reference,
    ast.Arrow: Lowering.arrow,
    ast.Path: Lowering.path,
    ast.NameTest: Lowering.name_test,
    ast.Enqueue: Lowering.enqueue,
    ast.Reset: Lowering.reset,
    ast.If: Lowering.if_expr,
    ast.Flwor: Lowering.flwor,
    ast.TryCatch: Lowering.try_catch,
    ast.Extension: Lowering.extension,
    ast.OrderSpec: Lowering.with_collation,
    ast.GroupSpec: Lowering.with_collation,
    ast.DirectAttribute: Lowering.attribute,
    ast.Copy: update_calls.copy,
    ast.TransformWith: update_calls.transform_with,
    ast.Insert: update_calls.insert,
    ast.Delete: update_calls.delete,
    ast.Replace: update_calls.replace,
    ast.Rename: update_calls.rename,
}


def _has_try(expr: ast.Expr) -> bool:
    return any([isinstance(node, ast.TryCatch) for node in ast.walk(expr)])
