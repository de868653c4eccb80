"""The plan: which rules run for a message, what each reads and writes, and what is decided before state is read.

A plan is plain data. The rewrites improve it, `explain` describes it, `emit` translates it to XQuery and Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from demaq.compiler.context import CompilerContext
from demaq.language import ast
from demaq.language.program.program import Program, Rule

# --- reads -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """An index over the values of a path in the messages of a queue.

    It is a hidden computed property: every message of the queue has an entry for each value of the path.
    """

    number: int
    queue: str
    path: str
    expr: ast.Expr = field(repr=False)
    module: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLookup:
    """A lookup in one index, of the values of a key that is computed from the message before the rule runs."""

    index: Index
    key: ast.Expr = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRead:
    """`qs:slice()`: the message's slice."""

    slicing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueByKey:
    """The messages of a queue that at least one of the lookups finds."""

    queue: str
    lookups: tuple[IndexLookup, ...]
    number: int
    """Position among the keyed reads of the rule."""
    is_counted: bool = False
    """Whether the rule selects just what the index finds, and asks only how many messages that are, or whether any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeQueue:
    """A scan of a queue; None is the queue of the message."""

    queue: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyQueue:
    """A scan of a queue whose name is computed when the rule runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionRead:
    """A collection; None if its name is computed when the rule runs."""

    collection: str | None


Read: TypeAlias = SliceRead | QueueByKey | WholeQueue | AnyQueue | CollectionRead


# --- requirements ----------------------------------------------------------------------------------------------------


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
"""A message needs at least one of these features."""


# --- rules and queues ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A queue a rule enqueues into and the properties it may set there."""

    queue: str
    properties: tuple[str, ...]
    always: tuple[str, ...] = ()
    """The properties that it always sets there."""
    timer_targets: tuple[str, ...] | None = ()
    """The target queues of messages in an echo queue, if all are literals; else None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePlan:
    rule: Rule
    conditions: tuple[ast.Expr, ...] = field(repr=False)
    """The rule acts only if all of these hold."""
    first: tuple[ast.Expr, ...] = field(repr=False)
    """The conditions that depend on the message alone; they are decided before any state is read."""
    requires: tuple[Requirement, ...]
    """What a message needs for the conditions to hold."""
    reads: tuple[Read, ...]
    sites: Mapping[ast.Node, Read] = field(repr=False)
    """The read that each call of a reading function in the rule's own body stands for."""
    properties: tuple[str, ...]
    """The properties of the message that the rule reads; "*" if a name is computed."""
    other_properties: bool
    """Whether it reads properties of other messages."""
    enqueues: tuple[Write, ...]
    resets: tuple[str, ...]
    never: str | None = None
    """The reason if the rule can never fire."""

    @property
    def needs_state(self) -> bool:
        return bool(self.reads)

    @property
    def reads_other_messages(self) -> bool:
        """Return whether the rule can read messages besides its own."""
        return any([not isinstance(read, CollectionRead) for read in self.reads])

    @property
    def keyed(self) -> tuple[QueueByKey, ...]:
        return tuple([read for read in self.reads if isinstance(read, QueueByKey)])


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlan:
    """The rules of a queue's messages, in order, and the filter that selects the candidates among them."""

    queue: str
    rules: tuple[RulePlan, ...]
    always: tuple[int, ...]
    """Positions of the rules that are candidates for every message."""
    picks: Mapping[Feature, tuple[int, ...]]
    """Positions of the rules that are candidates if a message has the feature."""


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

    def properties_asked_by(self, queue: str) -> frozenset[str] | None:
        """Return the properties of a queue's messages that its rules read or pass on; None for all."""
        found: set[str] = set()
        for plan in self.queues[queue].rules:
            found.update(plan.properties)
            if plan.rule.on_slicing:
                found.add(self.program.slicings[plan.rule.target].property)
            for write in plan.enqueues:
                inherited = [p.name for p in self.program.properties_of(write.queue) if p.variant == "inherited"]
                found.update(inherited)
        return None if "*" in found else frozenset(found)
