"""Compare two versions of a program, part by part.

Texts are compared as printed, so neither layout nor comments count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from demaq.language.printing.printer import print_expr, print_node
from demaq.language.program.program import ModuleContext, Program, Property, Queue, Rule, Slicing

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class ProgramDifference:
    """One part of the program that is new, removed or changed."""

    part: Literal["queue", "property", "slicing", "collection", "rule", "module", "index"]
    name: str
    change: Literal["new", "removed", "changed"]
    details: tuple[str, ...] = ()

    def __str__(self) -> str:
        details = f" ({', '.join(self.details)})" if self.details else ""
        return f"{self.part} {self.name}: {self.change}{details}"


def find_differences(old: Program, new: Program) -> list[ProgramDifference]:
    """Return the differences between two programs, in the order of their statements."""
    return [
        *_compare_modules(old, new),
        *_compare("queue", old.queues, new.queues, _queue_changes),
        *_compare("property", _declared(old), _declared(new), lambda a, b: find_property_changes(old, a, new, b)),
        *_compare("slicing", old.slicings, new.slicings, _slicing_changes),
        *_compare("collection", old.collections, new.collections, lambda a, b: ()),
        *_compare("rule", _rules(old), _rules(new), _rule_changes),
    ]


def find_property_changes(old: Program, before: Property, new: Program, after: Property) -> list[str]:
    """Return in which ways a property changed its meaning."""
    changes: list[str] = []
    if before.type != after.type:
        changes.append(f"xs:{before.type} is now xs:{after.type}")
    if before.variant != after.variant:
        changes.append(f"{before.variant or 'free'} is now {after.variant or 'free'}")
    changes += [f"no longer on {queue}" for queue in before.values if queue not in after.values]
    for queue in after.values:
        if queue not in before.values:
            changes.append(f"now on {queue}")
        elif _value(old, before, queue) != _value(new, after, queue):
            changes.append(f"another value on {queue}")
    return changes


def _value(program: Program, prop: Property, queue: str) -> tuple[str, ...] | None:
    """Return the expression that computes a property, with everything that its names may depend on."""
    value = prop.values[queue]
    if value is None or prop.module is None:
        return None
    return (print_expr(value), *_prolog(program.modules[prop.module]))


def _prolog(module: ModuleContext) -> list[str]:
    return [print_node(declaration) for declaration in module.tree.prolog]


def _compare(
    part: Literal["queue", "property", "slicing", "collection", "rule"],
    old: Mapping[str, Part],
    new: Mapping[str, Part],
    changes: Callable[[Part, Part], Iterable[str] | None],
) -> list[ProgramDifference]:
    """Return the differences of parts by name.

    `changes` returns how two parts differ, or None if it only knows that they do.
    """
    found: list[ProgramDifference] = []
    for name, after in new.items():
        if name not in old:
            found.append(ProgramDifference(part, name, "new"))
            continue
        details = changes(old[name], after)
        if details is None or tuple(details):
            found.append(ProgramDifference(part, name, "changed", tuple(details or ())))
    return found + [ProgramDifference(part, name, "removed") for name in old if name not in new]


def _compare_modules(old: Program, new: Program) -> list[ProgramDifference]:
    """Return the differences of modules with the same file name, or of the only ones, which may be renamed."""
    if len(old.modules) == len(new.modules) == 1:
        pairs = [(old.modules[0], new.modules[0])]
    else:
        named = {_file_name(module): module for module in old.modules}
        pairs = [(named[_file_name(module)], module) for module in new.modules if _file_name(module) in named]
    compared = [(_file_name(after), _module_changes(before, after)) for before, after in pairs]
    return [ProgramDifference("module", name, "changed", tuple(changes)) for name, changes in compared if changes]


def _file_name(module: ModuleContext) -> str:
    return Path(module.tree.at.file).name


def _module_changes(old: ModuleContext, new: ModuleContext) -> list[str]:
    changes = _describe_changes([("error queue", old.errorqueue, new.errorqueue)])
    return [*changes, "another prolog"] if _prolog(old) != _prolog(new) else changes


def _queue_changes(old: Queue, new: Queue) -> list[str]:
    changes = _describe_changes(
        [
            ("kind", old.kind, new.kind),
            ("mode", old.mode, new.mode),
            ("priority", old.priority, new.priority),
            ("schema", _file(old.schema), _file(new.schema)),
            ("error queue", old.errorqueue, new.errorqueue),
        ]
    )
    return changes if changes or _gateway(old) == _gateway(new) else ["another interface"]


def _gateway(queue: Queue) -> object:
    gateway = queue.gateway
    if gateway is None:
        return None
    extensions = [(name, _file(policy)) for name, policy in gateway.extensions]
    return _file(gateway.interface), gateway.port, gateway.endpoint, gateway.replyto, extensions


def _slicing_changes(old: Slicing, new: Slicing) -> list[str]:
    return _describe_changes([("property", old.property, new.property)])


def _rule_changes(old: Rule, new: Rule) -> Iterable[str] | None:
    return () if print_node(old.decl) == print_node(new.decl) else None


def _declared(program: Program) -> dict[str, Property]:
    return {name: prop for name, prop in program.properties.items() if prop.decl is not None}


def _rules(program: Program) -> dict[str, Rule]:
    return {rule.name: rule for rule in program.rules}


def _describe_changes(pairs: list[tuple[str, object, object]]) -> list[str]:
    def shown(value: object) -> str:
        return "none" if value is None else str(value)

    return [f"{what} {shown(old)} is now {shown(new)}" for what, old, new in pairs if old != new]


def _file(path: Path | None) -> str | None:
    """Return the name of a file without its folder: an application that was moved is unchanged."""
    return path.name if path is not None else None
