"""A checked program: queues, properties, slicings, collections and rules by name.

Made by `demaq.language.loader` from checked trees; all later stages work on it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from demaq.language import ast
from demaq.language.resolving.names import Names

SYSTEM_ERRORS = "demaq:errors"
"""The queue that always exists: errors go there if no other error queue is declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """How a gateway queue is connected."""

    interface: Path | None
    port: str | None
    endpoint: str | None
    replyto: str | None
    """The queue for the answers to messages that an outgoing gateway sends."""
    extensions: tuple[tuple[str, Path | None], ...]


QueueKind: TypeAlias = Literal["basic", "incomingGateway", "outgoingGateway", "echo"]


def basic_if_mailbox(declared: QueueKind | Literal["mailbox"] | None) -> QueueKind:
    """Return the kind of a queue by its `kind` clause: a mailbox is a basic queue."""
    return "basic" if declared is None or declared == "mailbox" else declared


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    name: str
    kind: QueueKind
    mode: Literal["persistent", "transient"]
    priority: int
    schema: Path | None
    errorqueue: str | None
    gateway: Gateway | None
    module: int | None
    decl: ast.QueueDecl | None = field(repr=False)

    @property
    def declared_kind(self) -> QueueKind | Literal["mailbox"]:
        """Return the kind as declared, for display."""
        return "mailbox" if self.decl is not None and self.decl.kind == "mailbox" else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """A property and, for each queue it is defined on, the expression that computes it there (or None)."""

    name: str
    type: str
    """The local name of an atomic type of XML Schema, such as `string`."""
    variant: Literal["fixed", "inherited"] | None
    values: Mapping[str, ast.Expr | None] = field(repr=False)
    module: int | None
    decl: ast.PropertyDecl | None = field(repr=False)
    """None for a property that the system sets; it is defined on all queues if a slicing is on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slicing:
    name: str
    property: str
    module: int
    decl: ast.SlicingDecl = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule on a queue or a slicing. Its body is the `if` the author wrote."""

    name: str
    number: int
    """Position among all rules of the application, in declaration order."""
    target: str
    on_slicing: bool
    errorqueue: str | None
    body: ast.If = field(repr=False)
    module: int
    decl: ast.RuleDecl = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleContext:
    """One module with its names and its error queue."""

    name: str | None
    tree: ast.Module = field(repr=False)
    names: Names = field(repr=False)
    errorqueue: str | None
    libraries: tuple[ast.Query, ...] = field(repr=False, default=())
    """Library modules it imports, directly or through others, each once, dependencies first."""
    library_names: tuple[Names, ...] = field(repr=False, default=())
    """The names of each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    modules: tuple[ModuleContext, ...]
    queues: Mapping[str, Queue]
    properties: Mapping[str, Property]
    slicings: Mapping[str, Slicing]
    collections: Mapping[str, ast.CollectionDecl]
    rules: tuple[Rule, ...]

    def files(self) -> dict[str, str]:
        """Return the text of every module by its file: all that is needed to load the program again."""
        return {module.tree.at.file: module.tree.at.source.text for module in self.modules}

    def file_name(self, file: str) -> str:
        """Return the name of a file for display: relative to the folder that holds all modules.

        A library from elsewhere has its name only, so that no path of the machine is disclosed.
        """
        folder = os.path.commonpath([Path(module.tree.at.file).resolve().parent for module in self.modules])
        path = Path(file).resolve()
        return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name

    def slicings_of(self, queue: str) -> tuple[Slicing, ...]:
        """Return the slicings a message of this queue can be in."""
        return tuple([s for s in self.slicings.values() if queue in self.properties[s.property].values])

    def properties_of(self, queue: str) -> tuple[Property, ...]:
        """Return the properties a message of this queue can have."""
        return tuple([p for p in self.properties.values() if queue in p.values])
