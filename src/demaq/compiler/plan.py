"""What the engine has to do for a message: which rules to ask, what each reads and writes, what can be decided first.

A plan is plain data. The rewrites improve it, `explain` puts it into words, `emit` turns it into XQuery.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from demaq.compiler.context import CompilerContext
from demaq.language import ast
from demaq.language.program.program import Program, Rule

# --- what is read ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The values of a path in the messages of a queue, kept so that messages are found by value.

    A hidden computed property: every message of the queue has an entry for each value of the path.
    """

    number: int
    queue: str
    path: str
    expr: ast.Expr = field(repr=False)
    module: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLookup:
    """One index asked for the values of a key that is computed from the message before the rule runs."""

    index: Index
    key: ast.Expr = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRead:
    """`qs:slice()`: the message's slice."""

    slicing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueByKey:
    """Messages of a queue that some index finds: those of all the lookups together."""

    queue: str
    lookups: tuple[IndexLookup, ...]
    number: int
    """Position among the keyed reads of the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeQueue:
    """All messages of a queue; `None` is the queue the message is in."""

    queue: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyQueue:
    """A queue whose name is computed when the rule runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionRead:
    """A collection; `None` where its name is computed when the rule runs."""

    collection: str | None


Read: TypeAlias = SliceRead | QueueByKey | WholeQueue | AnyQueue | CollectionRead


# --- what a message must have ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Feature:
    """Something a message has or lacks: a root element, an element, an attribute, or one of these with a value."""

    kind: str
    """`root`, `element` or `attribute`."""
    uri: str
    local: str
    value: str | None = None

    def __str__(self) -> str:
        name = f"Q{{{self.uri}}}{self.local}" if self.uri else self.local
        shown = {"root": f"/{name}", "element": f"//{name}", "attribute": f"//@{name}"}[self.kind]
        return shown if self.value is None else f'{shown} = "{self.value}"'


Requirement: TypeAlias = frozenset[Feature]
"""Of these features a message needs at least one."""


# --- rules and queues ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A queue a rule enqueues into and the properties it may set there."""

    queue: str
    properties: tuple[str, ...]
    always: tuple[str, ...] = ()
    """Those of them that it sets whenever it enqueues there."""
    timer_targets: tuple[str, ...] | None = ()
    """Where messages of an echo queue come back, as the rule says; None where that is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePlan:
    rule: Rule
    conditions: tuple[ast.Expr, ...] = field(repr=False)
    """All of these must hold before the rule does anything."""
    first: tuple[ast.Expr, ...] = field(repr=False)
    """Those of them that need the message alone and are decided before any state is read."""
    requires: tuple[Requirement, ...]
    """What a message must have for the conditions to hold."""
    reads: tuple[Read, ...]
    sites: Mapping[ast.Node, Read] = field(repr=False)
    """Which read each call of a reading function in the rule's own body stands for."""
    properties: tuple[str, ...]
    """Properties of the message that the rule looks at."""
    other_properties: bool
    """Whether it asks for properties of other messages."""
    enqueues: tuple[Write, ...]
    resets: tuple[str, ...]
    never: str | None = None
    """Why the rule can never fire, if so."""

    @property
    def needs_state(self) -> bool:
        return bool(self.reads)

    @property
    def reads_other_messages(self) -> bool:
        """Whether it can see messages besides its own."""
        return any([not isinstance(read, CollectionRead) for read in self.reads])

    @property
    def keyed(self) -> tuple[QueueByKey, ...]:
        return tuple([read for read in self.reads if isinstance(read, QueueByKey)])


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlan:
    """The rules a message of a queue is given to, in order, and how the candidates among them are picked."""

    queue: str
    rules: tuple[RulePlan, ...]
    always: tuple[int, ...]
    """Positions of rules that no feature rules out."""
    picks: Mapping[Feature, tuple[int, ...]]
    """Positions of the rules that come into question when a message has the feature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a program is evaluated: the plans of its queues and rules, and the indexes they use."""

    program: Program = field(repr=False)
    modules: tuple[CompilerContext, ...] = field(repr=False)
    """The modules of the program, in its order, with what the compiler knows about them."""
    queues: Mapping[str, QueuePlan]
    rules: Mapping[str, RulePlan]
    indexes: tuple[Index, ...]

    def indexes_of(self, queue: str) -> tuple[Index, ...]:
        return tuple([index for index in self.indexes if index.queue == queue])
