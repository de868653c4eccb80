"""Build the program, which all later stages work on, from a draft without errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from demaq.language import ast
from demaq.language.checks.named_files import resolve_file
from demaq.language.checks.property_reads import boolean_constant
from demaq.language.namespaces import FN
from demaq.language.program.bodies import DraftModule, DraftRule
from demaq.language.program.draft import Declared, Draft
from demaq.language.program.program import (
    SYSTEM_ERRORS,
    Gateway,
    ModuleContext,
    Program,
    Property,
    Queue,
    Rule,
    Slicing,
    basic_if_mailbox,
)
from demaq.language.resolving.names import FunctionKey
from demaq.system_properties import SYSTEM_PROPERTIES, is_system_property

T = TypeVar("T")


def build_program(draft: Draft) -> Program:
    slicings = {name: _slicing(declared) for name, declared in draft.slicings.items()}
    constants: dict[ast.Node, FunctionKey] = {}
    properties = {name: _property(declared, constants) for name, declared in draft.properties.items()}
    for slicing in slicings.values():
        if is_system_property(slicing.property):
            properties[slicing.property] = _system_property(slicing.property, draft)
    return Program(
        modules=tuple([_module(module, constants) for module in draft.modules]),
        queues={name: _queue(declared) for name, declared in draft.queues.items()},
        properties=properties,
        slicings=slicings,
        collections={name: _known(declared.decl) for name, declared in draft.collections.items()},
        rules=tuple([_rule(number, rule) for number, rule in enumerate(draft.rules)]),
    )


def _module(module: DraftModule, constants: Mapping[ast.Node, FunctionKey]) -> ModuleContext:
    return ModuleContext(
        name=module.tree.name,
        tree=module.tree,
        names=replace(module.names, functions={**module.names.functions, **constants}) if constants else module.names,
        errorqueue=module.part(module.tree.errorqueue),
        libraries=tuple([library.tree for library in module.libraries]),
        library_names=tuple([library.names for library in module.libraries]),
    )


def _queue(declared: Declared[ast.QueueDecl]) -> Queue:
    decl, module = declared.decl, declared.module
    if decl is None or module is None:
        assert declared.name == SYSTEM_ERRORS, "only the system's own queue has no declaration"
        return Queue(
            name=SYSTEM_ERRORS,
            kind="basic",
            mode="persistent",
            priority=0,
            schema=None,
            errorqueue=None,
            gateway=None,
            module=None,
            decl=None,
        )
    kind = basic_if_mailbox(decl.kind)
    return Queue(
        name=declared.name,
        kind=kind,
        mode=decl.mode or "persistent",
        priority=decl.priority or 0,
        schema=resolve_file(module, decl.schema) if decl.schema is not None else None,
        errorqueue=module.part(decl.errorqueue),
        gateway=_gateway(decl, module) if kind in ("incomingGateway", "outgoingGateway") else None,
        module=module.number,
        decl=decl,
    )


def _gateway(decl: ast.QueueDecl, module: DraftModule) -> Gateway:
    return Gateway(
        interface=resolve_file(module, decl.interface) if decl.interface is not None else None,
        port=decl.port,
        endpoint=decl.endpoint.value if decl.endpoint is not None else None,
        replyto=module.part(decl.replyto),
        extensions=tuple(
            [
                (using.extension, resolve_file(module, using.policy) if using.policy is not None else None)
                for using in decl.using
            ]
        ),
    )


def _property(declared: Declared[ast.PropertyDecl], constants: dict[ast.Node, FunctionKey]) -> Property:
    """Return a property. `constants` receives the calls that stand for boolean constants, with what they call."""
    decl, module = _known(declared.decl), _known(declared.module)
    values: dict[str, ast.Expr | None] = {}
    for part in decl.parts:
        word = boolean_constant(decl, part, module.names)
        value = part.value if word is None else _boolean(word, part, constants)
        for queue in part.queues:
            values[_known(module.part(queue))] = value
    return Property(
        name=declared.name, type=decl.type.local, variant=decl.variant, values=values, module=module.number, decl=decl
    )


def _boolean(word: str, part: ast.PropertyQueues, constants: dict[ast.Node, FunctionKey]) -> ast.Expr:
    """Return `true()` for `value true`, which the grammar reads as the name of an element."""
    at = _known(part.value).at
    call = ast.FunctionCall(at, ast.Name(at, word, None, FN), ())
    constants[call] = (FN, word, 0)
    return call


def _system_property(name: str, draft: Draft) -> Property:
    return Property(
        name=name,
        type=SYSTEM_PROPERTIES.get(name, "string"),
        variant=None,
        values=dict.fromkeys(draft.queues),
        module=None,
        decl=None,
    )


def _slicing(declared: Declared[ast.SlicingDecl]) -> Slicing:
    decl, module = _known(declared.decl), _known(declared.module)
    return Slicing(name=declared.name, property=_known(module.part(decl.property)), module=module.number, decl=decl)


def _rule(number: int, rule: DraftRule) -> Rule:
    body = rule.decl.body
    assert isinstance(body, ast.If), "checked by rule_bodies"
    return Rule(
        name=rule.name,
        number=number,
        target=_known(rule.target),
        on_slicing=rule.on_slicing,
        errorqueue=rule.module.part(rule.decl.errorqueue),
        body=body,
        module=rule.module.number,
        decl=rule.decl,
    )


def _known(value: T | None) -> T:
    assert value is not None, "a draft without errors leaves nothing unknown"
    return value
