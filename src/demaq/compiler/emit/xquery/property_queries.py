"""Emit the queries that compute properties and index entries of new messages, one for each queue that has any.

    made     the fields of all properties, then of all index entries, given a document, its explicit properties, the
             record of its parent, and the site in the program that makes it
    each     for every property its name and a function for its value, to find out which property fails

A fixed property is computed. Any other has its explicit value, else the value of the parent if it is inherited, else it
is computed. Whatever is known at compile time is decided then, because the query runs for every message.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from demaq.compiler.emit.xquery.blocks import Entry, property_entry
from demaq.compiler.emit.xquery.vocabulary import SEPARATOR, literal, runtime_name
from demaq.language.program.program import Property

_KEY_IS_NOT_TEXT = frozenset(
    {
        *("dateTime", "dateTimeStamp", "date", "time", "float", "double"),
        *("gYear", "gYearMonth", "gMonth", "gMonthDay", "gDay"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyRecipe:
    """How a property of a queue's messages gets its value."""

    name: str
    type: str
    is_fixed: bool
    is_inherited: bool
    is_computed: bool
    is_document_only: bool
    """Whether the computed value depends on the document alone."""


def describe_property(prop: Property, queue: str, alone: Collection[Entry]) -> PropertyRecipe:
    """Return how a property of a queue's messages is made; `alone` has those that the document alone decides."""
    value = prop.values[queue]
    return PropertyRecipe(
        name=prop.name,
        type=prop.type,
        is_fixed=prop.variant == "fixed",
        is_inherited=prop.variant == "inherited",
        is_computed=value is not None,
        is_document_only=value is not None and property_entry(prop, value) in alone,
    )


def emit_intake_query(properties: Sequence[PropertyRecipe], has_indexes: bool) -> str:
    """Return a function of the property values, in their order, and of the indexes; it returns a map."""
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


def _value(prop: PropertyRecipe, number: int) -> str:
    """Return the expression of a property's value; $known are the properties before it."""
    name = literal(prop.name)
    ways: list[str] = []
    if not prop.is_fixed:
        ways.append(f"{runtime_name('single')}({name}, $known({name}), $site)")
    if prop.is_inherited:
        ways.append(f"($parent/p[@n = {name}] ! {runtime_name('cast')}({literal(prop.type)}, string()))")
    if prop.is_computed:
        known = "map {}" if prop.is_document_only else f"{runtime_name('context')}($known, $parent)"
        ways.append(f"{runtime_name('computed')}({name}, $values({number}), $document, {known}, $site)")
    if not ways:
        return "()"
    *first, last = ways
    found = last
    for way in reversed(first):
        found = f"let $set := {way} return if (exists($set)) then $set else {found}"
    return found


def _lets(properties: Sequence[PropertyRecipe]) -> str:
    """Return one variable for each property; properties that later ones may read are collected in $known."""
    needs_known = [any([not later.is_document_only for later in properties[n + 1 :]]) for n, _ in enumerate(properties)]
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


def _fields(properties: Sequence[PropertyRecipe]) -> str:
    """Return the number of properties, then name, type, text and key of each; declared ones have no type."""
    names = ", ".join([literal(prop.name) for prop in properties])
    count = "count(({}))".format(", ".join([f"$p{number}" for number, _ in enumerate(properties)]))
    fields: list[str] = []
    for number, prop in enumerate(properties):
        key = f"{runtime_name('key')}($p{number})" if prop.type in _KEY_IS_NOT_TEXT else "$text"
        fields.append(
            f"(if (empty($p{number})) then () else"
            f' let $text := string($p{number}) return ({literal(prop.name)}, "", $text, {key}))'
        )
    others = f"{runtime_name('other-fields')}($explicit, ({names}), {count})"
    return ", ".join([others, *fields])


def _entries(has_indexes: bool) -> str:
    return f"{runtime_name('index-fields')}($document, $indexes)" if has_indexes else '"0"'
