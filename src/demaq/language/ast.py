"""The syntax tree: one class for each construct of XQuery 3.1, the Update Facility, QDL and QML.

Nodes are values: they are never changed after they are made. They compare by identity, so that a pass can keep its
results in a dict by node; `same_tree` compares by content. Chains that can grow without brackets (`1 + 1 + 1 …`,
`a/b/c`, `$x?a?b`, predicates) are flat, so a tree is never deeper than its text is nested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias, dataclass_transform

from demaq.source import SourceLocation


@dataclass_transform(eq_default=False, field_specifiers=(field,))
@dataclass(eq=False, repr=False)
class Node:
    at: SourceLocation
    _below: tuple[Node, ...] | None = field(default=None, init=False, repr=False)
    """The result of `children`, cached: every check and rewrite walks the same trees."""

    def __repr__(self) -> str:
        # One for all classes: generating one for each would take every process some time when it starts.
        shown = [f"{item.name}={getattr(self, item.name)!r}" for item in fields(self) if item.repr]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __init_subclass__(cls) -> None:
        cls.__doc__ = cls.__doc__ or cls.__name__  # or dataclass would make one from the signature, which is slow
        dataclass(eq=False, repr=False)(cls)  # every class of nodes is a dataclass


class Expr(Node):
    """Anything that stands where an expression may stand."""


# --- names and types -------------------------------------------------------------------------------------------------


class Name(Node):
    """A QName as written: `local`, `prefix:local` or `Q{uri}local` (then uri is a string, perhaps empty)."""

    local: str
    prefix: str | None = None
    uri: str | None = None

    def __str__(self) -> str:
        if self.uri is not None:
            return f"Q{{{self.uri}}}{self.local}"
        return f"{self.prefix}:{self.local}" if self.prefix else self.local


class NameTest(Node):
    """`name`, `*`, `*:local`, `prefix:*`, `Q{uri}*`: a star stands for any prefix or local name.

    `prefix` is None where none was written, "*" in `*:local`; a lone `*` has local "*" and prefix "*".
    """

    local: str
    prefix: str | None = None
    uri: str | None = None


class KindTest(Node):
    """`node()`, `element(a, xs:int?)`, `document-node(element(a))`, `processing-instruction("x")` …

    `name` is None where nothing was written and a NameTest `*` for a star. For a processing instruction it is a Name.
    """

    kind: str
    name: Name | NameTest | None = None
    type: Name | None = None
    nillable: bool = False
    inner: KindTest | None = None


class AnyItemTest(Node):
    """`item()`."""


class AtomicType(Node):
    name: Name


class FunctionTest(Node):
    """`function(*)` when params is None, else `function(T, …) as T`."""

    annotations: tuple[Annotation, ...]
    params: tuple[SequenceType, ...] | None
    returns: SequenceType | None


class MapTest(Node):
    """`map(*)` when key is None."""

    key: Name | None
    value: SequenceType | None


class ArrayTest(Node):
    """`array(*)` when member is None."""

    member: SequenceType | None


ItemType: TypeAlias = KindTest | AnyItemTest | AtomicType | FunctionTest | MapTest | ArrayTest


class SequenceType(Node):
    """An item type with `?`, `*`, `+` or nothing; `empty-sequence()` when item is None."""

    item: ItemType | None
    occurrence: str = ""


class SingleType(Node):
    """What follows `cast as`: an atomic type, `?` when the empty sequence is allowed."""

    name: Name
    optional: bool


class Annotation(Node):
    name: Name
    values: tuple[StringLiteral | NumericLiteral, ...]


class Param(Node):
    name: Name
    type: SequenceType | None


# --- primary expressions ---------------------------------------------------------------------------------------------


class StringLiteral(Expr):
    """The value, with references and doubled quotes resolved."""

    value: str


class NumericLiteral(Expr):
    """As written: `1`, `1.5`, `.5`, `1e3`."""

    text: str


class VarRef(Expr):
    name: Name


class ContextItem(Expr):
    """`.`"""


class Sequence(Expr):
    """Expressions joined by commas; `()` when there are none."""

    items: tuple[Expr, ...]


class Placeholder(Expr):
    """`?` as an argument: partial application."""


class FunctionCall(Expr):
    name: Name
    args: tuple[Expr, ...]


class NamedFunctionRef(Expr):
    name: Name
    arity: int


class InlineFunction(Expr):
    annotations: tuple[Annotation, ...]
    params: tuple[Param, ...]
    returns: SequenceType | None
    body: Expr | None


class MapEntry(Node):
    key: Expr
    value: Expr


class MapConstructor(Expr):
    entries: tuple[MapEntry, ...]


class SquareArray(Expr):
    members: tuple[Expr, ...]


class CurlyArray(Expr):
    content: Expr | None


class KeyName(Expr):
    """The bare name in `?name`."""

    value: str


class KeyWildcard(Expr):
    """The star in `?*`."""


class UnaryLookup(Expr):
    key: Expr


class StringConstructor(Expr):
    """` ``[text `{ expr }` text]`` `."""

    parts: tuple[RawText | Enclosed, ...]


class Ordering(Expr):
    """`ordered { … }` and `unordered { … }`."""

    mode: Literal["ordered", "unordered"]
    content: Expr | None


class Pragma(Node):
    name: Name
    content: str


class Extension(Expr):
    pragmas: tuple[Pragma, ...]
    content: Expr | None


# --- postfix, paths, operators ---------------------------------------------------------------------------------------


class Predicate(Node):
    condition: Expr


class Arguments(Node):
    args: tuple[Expr, ...]


class Lookup(Node):
    key: Expr


class Postfix(Expr):
    """A primary followed by one or more of `[predicate]`, `(arguments)` and `?key`."""

    base: Expr
    suffixes: tuple[Predicate | Arguments | Lookup, ...]


class Root(Expr):
    """A lone `/`."""


class AxisStep(Expr):
    axis: str
    test: NameTest | KindTest
    predicates: tuple[Predicate, ...] = ()


class Path(Expr):
    """Steps, each after its separator `/` or `//`; a relative path has the empty separator first."""

    separators: tuple[str, ...]
    steps: tuple[Expr, ...]


class OperatorChain(Expr):
    """Operands of one level of precedence, applied from the left: `a + b - c`, `a or b`, `a = b`, `a ! b`."""

    operators: tuple[str, ...]
    operands: tuple[Expr, ...]


class Unary(Expr):
    signs: str
    operand: Expr


class TypeOperation(Expr):
    operator: Literal["instance of", "treat as", "castable as", "cast as"]
    operand: Expr
    type: SequenceType | SingleType


class ArrowCall(Node):
    """`=> name(args)`, `=> $f(args)` or `=> (expr)(args)`."""

    function: Name | Expr
    args: tuple[Expr, ...]


class Arrow(Expr):
    operand: Expr
    calls: tuple[ArrowCall, ...]


# --- control ---------------------------------------------------------------------------------------------------------


class ForBinding(Node):
    name: Name
    type: SequenceType | None
    allowing_empty: bool
    position: Name | None
    expr: Expr


class ForClause(Node):
    bindings: tuple[ForBinding, ...]


class LetBinding(Node):
    name: Name
    type: SequenceType | None
    expr: Expr


class LetClause(Node):
    bindings: tuple[LetBinding, ...]


class WindowCondition(Node):
    current: Name | None
    position: Name | None
    previous: Name | None
    next: Name | None
    when: Expr


class WindowClause(Node):
    kind: Literal["tumbling", "sliding"]
    name: Name
    type: SequenceType | None
    expr: Expr
    start: WindowCondition
    end: WindowCondition | None
    only_end: bool


class WhereClause(Node):
    condition: Expr


class GroupSpec(Node):
    name: Name
    type: SequenceType | None
    expr: Expr | None
    collation: StringLiteral | None


class GroupByClause(Node):
    specs: tuple[GroupSpec, ...]


class OrderSpec(Node):
    expr: Expr
    direction: Literal["ascending", "descending"] | None
    empty: Literal["greatest", "least"] | None
    collation: StringLiteral | None


class OrderByClause(Node):
    stable: bool
    specs: tuple[OrderSpec, ...]


class CountClause(Node):
    name: Name


Clause: TypeAlias = ForClause | LetClause | WindowClause | WhereClause | GroupByClause | OrderByClause | CountClause


class Flwor(Expr):
    clauses: tuple[Clause, ...]
    result: Expr


class QuantifiedBinding(Node):
    name: Name
    type: SequenceType | None
    expr: Expr


class Quantified(Expr):
    kind: Literal["some", "every"]
    bindings: tuple[QuantifiedBinding, ...]
    condition: Expr


class SwitchCase(Node):
    values: tuple[Expr, ...]
    result: Expr


class Switch(Expr):
    operand: Expr
    cases: tuple[SwitchCase, ...]
    default: Expr


class TypeCase(Node):
    name: Name | None
    types: tuple[SequenceType, ...]
    result: Expr


class Typeswitch(Expr):
    operand: Expr
    cases: tuple[TypeCase, ...]
    default_name: Name | None
    default: Expr


class If(Expr):
    """`otherwise` is None where an updating `if` leaves its else out."""

    condition: Expr
    then: Expr
    otherwise: Expr | None


class CatchClause(Node):
    tests: tuple[NameTest, ...]
    body: Expr | None


class TryCatch(Expr):
    body: Expr | None
    catches: tuple[CatchClause, ...]


# --- constructors ----------------------------------------------------------------------------------------------------


class RawText(Node):
    """Characters exactly as written, references and doubled braces included (they decide what boundary space is)."""

    raw: str


class Enclosed(Node):
    """`{ expr }` inside a constructor."""

    content: Expr | None


class CData(Node):
    text: str


class DirectAttribute(Node):
    """An attribute or a namespace declaration. In the parts quotes are single characters, all else is as written."""

    name: Name
    parts: tuple[RawText | Enclosed, ...]


class DirectElement(Expr):
    name: Name
    attributes: tuple[DirectAttribute, ...]
    content: tuple[RawText | Enclosed | CData | Expr, ...]


class DirectComment(Expr):
    text: str


class DirectPI(Expr):
    target: str
    text: str


class Computed(Expr):
    """`element`, `attribute`, `document`, `text`, `comment`, `processing-instruction`, `namespace` { … }.

    `name` is a Name where written plainly, an expression where in braces, None where the kind has none.
    """

    kind: str
    name: Name | Expr | None
    content: Expr | None


# --- updates and actions ---------------------------------------------------------------------------------------------


class Insert(Expr):
    """`insert node …`; `draft` where written as the 2006 draft's `do insert …`."""

    source: Expr
    where: Literal["into", "as first into", "as last into", "before", "after"]
    target: Expr
    draft: bool


class Delete(Expr):
    target: Expr
    draft: bool


class Replace(Expr):
    value_of: bool
    target: Expr
    replacement: Expr
    draft: bool


class Rename(Expr):
    target: Expr
    name: Expr
    draft: bool


class CopyBinding(Node):
    name: Name
    expr: Expr


class Copy(Expr):
    """`copy … modify … return …`; `draft` where written `transform copy …`."""

    bindings: tuple[CopyBinding, ...]
    modify: Expr
    result: Expr
    draft: bool


class TransformWith(Expr):
    """`expr transform with { updates }`."""

    operand: Expr
    modify: Expr | None


class With(Node):
    """`with name value expr` of an enqueue."""

    name: Name
    value: Expr


class Enqueue(Expr):
    message: Expr
    queue: Name
    properties: tuple[With, ...]


class Reset(Expr):
    """`do reset slicing key expr`; a bare `do reset` has neither."""

    slicing: Name | None
    key: Expr | None


class Template(Expr):
    """Made by the compiler, never by the parser: generated text around expressions of the author."""

    parts: tuple[str | Expr, ...]


# --- prologs ---------------------------------------------------------------------------------------------------------


class VersionDecl(Node):
    version: str | None
    encoding: str | None


class NamespaceDecl(Node):
    prefix: str
    uri: str


class DefaultNamespaceDecl(Node):
    kind: Literal["element", "function"]
    uri: str


class Setter(Node):
    """`declare boundary-space strip;` and its kin: the words between `declare` and the value, then the value."""

    kind: str
    value: str


class DecimalFormatDecl(Node):
    name: Name | None
    properties: tuple[tuple[str, str], ...]


class ModuleImport(Node):
    prefix: str | None
    uri: str
    locations: tuple[str, ...]


class ContextItemDecl(Node):
    type: ItemType | None
    external: bool
    value: Expr | None


class VarDecl(Node):
    annotations: tuple[Annotation, ...]
    name: Name
    type: SequenceType | None
    external: bool
    value: Expr | None


class FunctionDecl(Node):
    """`updating` where written `declare updating function`; `body` is None in `{}` and in an external one."""

    annotations: tuple[Annotation, ...]
    updating: bool
    name: Name
    params: tuple[Param, ...]
    returns: SequenceType | None
    external: bool
    body: Expr | None


class OptionDecl(Node):
    name: Name
    value: str


Decl: TypeAlias = (
    NamespaceDecl
    | DefaultNamespaceDecl
    | Setter
    | DecimalFormatDecl
    | ModuleImport
    | ContextItemDecl
    | VarDecl
    | FunctionDecl
    | OptionDecl
)


class Comment(Node):
    """`(: … :)`, kept apart from the tree, for the formatter and for silencing warnings."""

    text: str


class Query(Node):
    """A main module, or a library module when `library` names its namespace (then there is no body)."""

    version: VersionDecl | None
    library: NamespaceDecl | None
    prolog: tuple[Decl, ...]
    body: Expr | None
    comments: tuple[Comment, ...]


# --- applications ----------------------------------------------------------------------------------------------------


class File(Node):
    """A file named in a queue's clause, as written."""

    path: str


class Using(Node):
    extension: Literal["WS-ReliableMessaging", "WS-Security"]
    policy: File | None


class QueueDecl(Node):
    name: Name
    kind: Literal["basic", "mailbox", "incomingGateway", "outgoingGateway", "echo"] | None
    mode: Literal["persistent", "transient"] | None
    schema: File | None
    priority: int | None
    errorqueue: Name | None
    interface: File | None
    port: str | None
    endpoint: StringLiteral | None
    replyto: Name | None
    using: tuple[Using, ...]


class PropertyQueues(Node):
    """`queue a, b value expr`."""

    queues: tuple[Name, ...]
    value: Expr | None


class PropertyDecl(Node):
    name: Name
    type: Name
    variant: Literal["fixed", "inherited"] | None
    parts: tuple[PropertyQueues, ...]


class SlicingDecl(Node):
    name: Name
    property: Name


class CollectionDecl(Node):
    name: Name


class RuleDecl(Node):
    """`target` names a queue or a slicing."""

    name: Name
    target: Name
    errorqueue: Name | None
    body: Expr


class BrokenStatement(Node):
    """A statement with a syntax error: all that is known of it is what it would have declared."""

    kind: str
    name: Name


Statement: TypeAlias = QueueDecl | PropertyDecl | SlicingDecl | CollectionDecl | RuleDecl


class Continuation(Node):
    """The first comma at the top of a rule's body that continues a branch, and offsets of what is around it.

    `word` is the one in front of the branch, `ifs` how many ifs are around it. `owner` is where the construct begins
    that the branch belongs to, `start` and `end` are those of the list, `first_end` is the end of its first item.
    """

    word: str
    before_else: bool
    ifs: int
    owner: int
    start: int
    first_end: int
    end: int


class Module(Node):
    """One file of an application. `name` is None where the file has no module header."""

    name: str | None
    errorqueue: Name | None
    prolog: tuple[Decl, ...]
    statements: tuple[Statement | BrokenStatement, ...]
    comments: tuple[Comment, ...]
    continuations: tuple[Continuation, ...] = ()


class Application(Node):
    modules: tuple[Module, ...]


# --- walking ---------------------------------------------------------------------------------------------------------

_ASIDE = ("comments", "continuations")
"""Fields that record how something is written, not what it means."""

_NO_NODES = re.compile(r"(str|int|bool|Literal\[[^\]]*\]|tuple\[tuple\[str, str\], \.\.\.\])( \| None)?")

_fields: dict[type[Node], tuple[str, ...]] = {}
_node_fields: dict[type[Node], tuple[str, ...]] = {}


def child_fields(kind: type[Node]) -> tuple[str, ...]:
    """Return the fields of a node class but for its place, in source order."""
    known = _fields.get(kind)
    if known is None:
        known = _fields[kind] = tuple([f.name for f in fields(kind) if f.name not in ("at", "_below")])
    return known


def node_fields(kind: type[Node]) -> tuple[str, ...]:
    """Return the fields that may hold nodes. Half of all nodes are names and literals, which have none."""
    known = _node_fields.get(kind)
    if known is None:
        types = {f.name: str(f.type) for f in fields(kind)}
        found = [name for name in child_fields(kind) if not _NO_NODES.fullmatch(types[name])]
        known = _node_fields[kind] = tuple(found)
    return known


def children(node: Node) -> tuple[Node, ...]:
    """Return the direct child nodes, in source order."""
    below = node._below
    if below is None:
        found: list[Node] = []
        for name in node_fields(type(node)):
            value = getattr(node, name)
            if type(value) is tuple:
                for item in value:
                    if isinstance(item, Node):
                        found.append(item)
            elif isinstance(value, Node):
                found.append(value)
        below = node._below = tuple(found)
    return below


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and all its descendants, in source order, without recursion."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(children(current)))


def change_children(node: Node, change: Callable[[Node], Node]) -> tuple[list[object], bool]:
    """Return the values of all fields but the location, with every child changed, and whether any is another one."""
    values: list[object] = []
    is_other = False
    for name in child_fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, Node):
            new: object = change(value)
            is_other = is_other or new is not value
        elif type(value) is tuple:
            new = tuple([change(item) if isinstance(item, Node) else item for item in value])
            is_other = is_other or any([one is not other for one, other in zip(new, value, strict=True)])
        else:
            new = value
        values.append(new)
    return values, is_other


def same_tree(left: object, right: object) -> bool:
    """Return whether two trees are equal except for locations. Without recursion, so depth does not matter."""
    stack = [(left, right)]
    while stack:
        a, b = stack.pop()
        if type(a) is not type(b):
            return False
        if isinstance(a, Node):
            stack.extend([(getattr(a, name), getattr(b, name)) for name in child_fields(type(a)) if name not in _ASIDE])
        elif isinstance(a, tuple) and isinstance(b, tuple):
            if len(a) != len(b):
                return False
            stack.extend(zip(a, b, strict=True))
        elif a != b:
            return False
    return True
