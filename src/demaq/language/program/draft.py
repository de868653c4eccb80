"""An application as written, before it is checked: the input of the checks.

Parts are found by name, the first declaration of a name counts. A part whose statement has a syntax error is known by
its name only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from demaq.language import ast
from demaq.language.program.bodies import Body, DraftModule, DraftRule, Effect, find_effects, read_body
from demaq.language.program.program import SYSTEM_ERRORS, basic_if_mailbox
from demaq.language.resolving.names import Names
from demaq.suggestions import Suggestions
from demaq.system_properties import is_system_property

D = TypeVar("D", bound=ast.Node)
S = TypeVar("S", bound=ast.Statement)

_KINDS: dict[type[ast.Node], str] = {
    ast.QueueDecl: "queue",
    ast.PropertyDecl: "property",
    ast.SlicingDecl: "slicing",
    ast.CollectionDecl: "collection",
    ast.RuleDecl: "rule",
}


@dataclass(slots=True, eq=False)
class Declared(Generic[D]):
    """A part of the application. `decl` is None if it is the system's own or has a syntax error."""

    name: str
    module: DraftModule | None
    decl: D | None
    at: ast.Name | None


@dataclass(slots=True, eq=False)
class Repeated:
    """A name declared again, and its first declaration."""

    kind: str
    name: ast.Name
    first: ast.Name


class Draft:
    """The parts of an application by name, and its expressions."""

    def __init__(self, modules: list[DraftModule], suggestions: Suggestions) -> None:
        self.modules = modules
        self.suggestions = suggestions
        self.queues: dict[str, Declared[ast.QueueDecl]] = {}
        self.properties: dict[str, Declared[ast.PropertyDecl]] = {}
        self.slicings: dict[str, Declared[ast.SlicingDecl]] = {}
        self.collections: dict[str, Declared[ast.CollectionDecl]] = {}
        self.rule_names: dict[str, ast.Name] = {}
        self.repeated: list[Repeated] = []
        self.queues[SYSTEM_ERRORS] = Declared(SYSTEM_ERRORS, None, None, None)
        for module in modules:
            self._declare(module)
        self._queues_of: dict[str, dict[str, ast.PropertyQueues]] = {}
        for name, declared in self.properties.items():
            if declared.decl is not None and declared.module is not None:
                self._queues_of[name] = _queues_of(declared.decl, declared.module)
        self.rules: list[DraftRule] = []
        self.bodies: list[Body] = []
        self._libraries_read: set[ast.Query] = set()
        for module in modules:
            self._read_bodies(module)
        for body in self.bodies:
            read_body(body)
        self.effects: dict[ast.FunctionDecl, Effect] = find_effects(self.bodies)
        """The effects of each declared function, including those of the functions it calls."""

    # queries

    def kind_of(self, queue: str | None) -> str | None:
        """Return a queue's kind, or None if it is unknown. A mailbox is a basic queue."""
        if queue == SYSTEM_ERRORS:
            return "basic"
        declared = self.queues.get(queue) if queue is not None else None
        if declared is None or declared.decl is None:
            return None
        return basic_if_mailbox(declared.decl.kind)

    def mode_of(self, queue: str) -> str | None:
        if queue == SYSTEM_ERRORS:
            return "persistent"
        declared = self.queues.get(queue)
        if declared is None or declared.decl is None:
            return None
        return declared.decl.mode or "persistent"

    def queues_of(self, name: str) -> dict[str, ast.PropertyQueues] | None:
        """Return the queues of a property, each with the part of the statement that names it; None if unknown."""
        return self._queues_of.get(name)

    def slicing_property(self, slicing: str) -> str | None:
        declared = self.slicings.get(slicing)
        if declared is None or declared.decl is None or declared.module is None:
            return None
        return declared.module.part(declared.decl.property)

    def slicing_queues(self, slicing: str) -> tuple[str, ...] | None:
        """Return the queues whose messages a slicing groups; None if unknown."""
        property_name = self.slicing_property(slicing)
        if property_name is None:
            return None
        if is_system_property(property_name):
            return tuple(self.queues)
        queues = self.queues_of(property_name)
        return None if queues is None else tuple(queues)

    def statements(self, kind: type[S]) -> Iterator[tuple[DraftModule, S]]:
        """Yield the statements of a kind, each with its module."""
        for module in self.modules:
            for statement in module.tree.statements:
                if isinstance(statement, kind):
                    yield module, statement

    def prologs(self) -> Iterator[tuple[ast.Decl, ...]]:
        """Yield the prologs of the modules and of the libraries they import."""
        for module in self.modules:
            yield module.tree.prolog
            for library in module.libraries:
                yield library.tree.prolog

    def enqueues(self) -> Iterator[tuple[str | None, ast.Enqueue, Names]]:
        """Yield all enqueues, each with the name of its queue (None if unknown) and the names around it."""
        for body in self.bodies:
            for enqueue in body.enqueues:
                yield body.names.parts.get(enqueue.queue), enqueue, body.names

    # construction

    def _declare(self, module: DraftModule) -> None:
        tables: dict[str, dict[str, Declared[Any]]] = {
            "queue": self.queues,
            "property": self.properties,
            "slicing": self.slicings,
            "collection": self.collections,
        }
        for statement in module.tree.statements:
            name = module.part(statement.name)
            if name is None:
                continue
            is_broken = isinstance(statement, ast.BrokenStatement)
            kind = statement.kind if isinstance(statement, ast.BrokenStatement) else _KINDS[type(statement)]
            if kind in tables:
                declared = Declared(name, module, None if is_broken else statement, statement.name)
                self._add(kind, tables[kind], declared)
            else:
                self._add_rule(name, statement.name)

    def _add(self, kind: str, table: dict[str, Declared[D]], declared: Declared[D]) -> None:
        assert declared.at is not None, "only the system's own parts have no place"
        first: ast.Name | None = None
        if declared.name in table:
            first = table[declared.name].at
        elif kind == "queue" and declared.name in self.slicings:  # both are targets of rules
            first = self.slicings[declared.name].at
        elif kind == "slicing" and declared.name in self.queues:
            first = self.queues[declared.name].at
        else:
            table[declared.name] = declared
        if first is not None:
            self.repeated.append(Repeated(kind, declared.at, first))

    def _add_rule(self, name: str, at: ast.Name) -> None:
        first = self.rule_names.setdefault(name, at)
        if first is not at:
            self.repeated.append(Repeated("rule", at, first))

    def _read_bodies(self, module: DraftModule) -> None:
        self._read_prolog(module.tree.prolog, module.names)
        for library in module.libraries:
            if library.tree not in self._libraries_read:
                self._libraries_read.add(library.tree)
                self._read_prolog(library.tree.prolog, library.names)
        for statement in module.tree.statements:
            if isinstance(statement, ast.RuleDecl):
                self._read_rule(module, statement)
            elif isinstance(statement, ast.PropertyDecl):
                for part in statement.parts:
                    if part.value is not None:
                        self.bodies.append(Body("property", part.value, module.names, statement))

    def _read_rule(self, module: DraftModule, statement: ast.RuleDecl) -> None:
        body = Body("rule", statement.body, module.names, statement)
        target = module.part(statement.target)
        name = module.part(statement.name) or statement.name.local
        body.rule = DraftRule(name, module, statement, target, target in self.slicings, body)
        self.rules.append(body.rule)
        self.bodies.append(body)

    def _read_prolog(self, prolog: tuple[ast.Decl, ...], names: Names) -> None:
        for declaration in prolog:
            if isinstance(declaration, ast.FunctionDecl) and declaration.body is not None:
                self.bodies.append(Body("function", declaration.body, names, declaration))
            elif isinstance(declaration, ast.VarDecl) and declaration.value is not None:
                self.bodies.append(Body("variable", declaration.value, names, declaration))


def _queues_of(decl: ast.PropertyDecl, module: DraftModule) -> dict[str, ast.PropertyQueues]:
    found: dict[str, ast.PropertyQueues] = {}
    for part in decl.parts:
        for queue in part.queues:
            name = module.part(queue)
            if name is not None:
                found.setdefault(name, part)
    return found
