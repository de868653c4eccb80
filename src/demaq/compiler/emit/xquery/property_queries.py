"""The queries that make the properties and index entries of new messages, one for each queue that has any.

    made     the fields of all properties and then of all index entries, of a document with explicit properties, the
             record of its parent, and the place in the program that makes it
    each     for every property a map of its name and how its value is found, for who wants to know which one fails

A fixed property is computed; any other is what somebody has set, else what the parent has, else computed. Everything
that is known when a program is compiled is decided then: it is done for every message.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from demaq.compiler.emit.xquery.blocks import Entry, property_entry
from demaq.compiler.emit.xquery.vocabulary import SEPARATOR, declared, literal
from demaq.language.program.program import Property

_KEY_IS_NOT_TEXT = frozenset({"dateTime", "dateTimeStamp", "date", "time", "float", "double"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeProperty:
    """A property of a queue's messages."""

    name: str
    type: str
    is_fixed: bool
    is_inherited: bool
    is_computed: bool
    is_alone: bool
    """Whether the document alone decides what is computed."""


def describe_property(prop: Property, queue: str, alone: Collection[Entry]) -> MadeProperty:
    """Return how a property of a queue's messages is made; `alone` has those that the document alone decides."""
    value = prop.values[queue]
    return MadeProperty(
        name=prop.name,
        type=prop.type,
        is_fixed=prop.variant == "fixed",
        is_inherited=prop.variant == "inherited",
        is_computed=value is not None,
        is_alone=value is not None and property_entry(prop, value) in alone,
    )


def intake_query(properties: Sequence[MadeProperty], has_indexes: bool) -> str:
    """A function of the properties' values, in their order, and of indexes; its value is a map."""
    members = [
        f"function($document, $known, $parent, $site) {{ {_value(prop, number + 1)} }}"
        for number, prop in enumerate(properties)
    ]
    names = [f'map {{ "name": {literal(p.name)}, "value": $each({n + 1}) }}' for n, p in enumerate(properties)]
    made = (
        f"function($document, $explicit, $parent, $site) {{ {_lets(properties)}"
        f' return string-join(({_fields(properties)}, {_entries(has_indexes)}), "{SEPARATOR}") }}'
    )
    return (
        "function($values as array(*), $indexes as array(*)) as map(*) {"
        f" let $each := [{', '.join(members)}]"
        f' return map {{ "made": {made}, "each": [{", ".join(names)}], "indexes": $indexes }} }}'
    )


def _value(prop: MadeProperty, number: int) -> str:
    """What a property's value is; $known are the properties so far."""
    name = literal(prop.name)
    ways: list[str] = []
    if not prop.is_fixed:
        ways.append(f"{declared('single')}({name}, $known({name}), $site)")
    if prop.is_inherited:
        ways.append(f"($parent/p[@n = {name}] ! {declared('cast')}({literal(prop.type)}, string()))")
    if prop.is_computed:
        known = "map {}" if prop.is_alone else f"{declared('context')}($known, $parent)"
        ways.append(f"{declared('computed')}({name}, $values({number}), $document, {known}, $site)")
    if not ways:
        return "()"
    *first, last = ways
    found = last
    for way in reversed(first):
        found = f"let $set := {way} return if (exists($set)) then $set else {found}"
    return found


def _lets(properties: Sequence[MadeProperty]) -> str:
    """One variable for each property. Where a later one asks for those before it, they are collected too."""
    needs_known = [any([not later.is_alone for later in properties[n + 1 :]]) for n, _ in enumerate(properties)]
    clauses = ["let $known := $explicit"]
    for number, prop in enumerate(properties):
        clauses.append(f"let $p{number} := {_parenthesised(_value(prop, number + 1))}")
        if needs_known[number]:
            name = literal(prop.name)
            clauses.append(
                f"let $known := if (exists($p{number})) then map:put($known, {name}, $p{number})"
                f" else map:remove($known, {name})"
            )
    return " ".join(clauses)


def _parenthesised(expr: str) -> str:
    return f"({expr})"


def _fields(properties: Sequence[MadeProperty]) -> str:
    """How many there are, then name, type, text and key of each; the type of a declared one is known."""
    names = ", ".join([literal(prop.name) for prop in properties])
    count = "count(({}))".format(", ".join([f"$p{number}" for number, _ in enumerate(properties)]))
    fields: list[str] = []
    for number, prop in enumerate(properties):
        key = f"{declared('key')}($p{number})" if prop.type in _KEY_IS_NOT_TEXT else "$text"
        fields.append(
            f"(if (empty($p{number})) then () else"
            f' let $text := string($p{number}) return ({literal(prop.name)}, "", $text, {key}))'
        )
    others = f"{declared('other-fields')}($explicit, ({names}), {count})"
    return ", ".join([others, *fields])


def _entries(has_indexes: bool) -> str:
    return f"{declared('index-fields')}($document, $indexes)" if has_indexes else '"0"'
