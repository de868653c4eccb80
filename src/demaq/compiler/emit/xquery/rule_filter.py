"""Emit the query that runs a batch: for every message select the candidate rules, and evaluate them.

root order            1, 4          one lookup of the root's name
//@type = "rush"      7             one lookup for each name that some rule compares with a constant
//cancelled           2             one test for each name, or one traversal of the message if there are many
"""

from __future__ import annotations

from demaq.compiler.emit.xquery.vocabulary import SEPARATOR, full_name, literal, runtime_name
from demaq.compiler.plan import Feature, QueuePlan

RUNTIME_FUNCTIONS = {
    "node": 3,
    "result": 2,
    "queue": 2,
    "collection": 2,
    "document": 1,
    "now": 1,
    "value": 2,
    "property": 2,
    "property-of": 5,
    "keys": 1,
    "lookup": 1,
    "enqueue": 7,
    "message": 3,
    "reset": 4,
    "timeout": 2,
    "explicit": 4,
    "failure": 7,
}

TESTS_MAX = 24
"""For more names than this, one traversal of all elements costs less than testing for each name."""
COMPARED_NAMES_MAX = 8


def emit_batch_query(plan: QueuePlan) -> str:
    """Return a query whose value is an array of one function, which runs a batch of messages of one queue."""
    maps: list[str] = []
    picks = _emit_filter(plan, maps)
    run = (
        f"function({_PARAMETERS}) {{ $state?d?result(for $r at $number in $batch/b/r"
        f' let $m := $state?d?node($r, $number, $nodes) return ("M", {picks}), "{SEPARATOR}") }}'
    )
    bound = f"let {', '.join(maps)} return " if maps else ""
    # Saxon survives infinite recursion only if a declared function is called.
    guard = f"declare function local:guarded($run, {_PARAMETERS}) {{ $run({_PARAMETERS}) }};"
    return f"{guard} [{bound}let $run := {run} return function({_PARAMETERS}) {{ local:guarded($run, {_PARAMETERS}) }}]"


_PARAMETERS = "$batch, $nodes, $rules, $state"

JOBS_BODY = (
    "function($batch as document-node(), $nodes as array(*), $rules as array(*), $state as map(*),"
    " $documents as array(*), $codes as xs:string, $names as array(*)) as array(*) {"
    f" {runtime_name('result')}({runtime_name('jobs')}($batch/b/r, $nodes, $rules, $state, $documents, $codes, $names),"
    f' "{SEPARATOR}") }}'
)
"""Evaluates rules on messages with the state that was read for them; uses the functions of the runtime."""

RUNTIME_BODY = "map {{ {} }}".format(
    ", ".join([f'"{name}": {runtime_name(name)}#{arity}' for name, arity in RUNTIME_FUNCTIONS.items()])
)
"""The functions that generated rules call, by name; uses the functions of the runtime."""

INTAKE_BODY = (
    "function($batch as document-node(), $intakes as map(*)) as xs:string"
    f' {{ string-join($batch/b/r ! ("M", {runtime_name("intake")}(., $intakes)), "{SEPARATOR}") }}'
)
"""Computes properties and index entries of messages from outside; uses the functions of the runtime."""

MIGRATE_BODY = (
    "function($batch as document-node(), $intakes as map(*)) as xs:string"
    f' {{ string-join($batch/b/r ! ("M", {runtime_name("restate")}(., $intakes)), "{SEPARATOR}") }}'
)
"""Computes the same for stored messages, and continues after errors; uses the functions of the runtime."""


def _emit_filter(plan: QueuePlan, maps: list[str]) -> str:
    """Return an expression over $r for the records of all candidate rules, in order."""
    if not plan.rules:
        return "()"
    if not plan.picks:
        return " , ".join([f"$rules({position + 1})($r, $m, $state)" for position in plan.always])
    hits = [str(position + 1) for position in plan.always]
    hits += _by_root(plan, maps)
    hits += _by_value(plan, maps)
    for kind in ("element", "attribute"):
        hits += _by_name(plan, kind, maps)
    return f"sort(distinct-values(({', '.join(hits)}))) ! $rules(.)($r, $m, $state)"


def _by_root(plan: QueuePlan, maps: list[str]) -> list[str]:
    roots = {feature: hits for feature, hits in plan.picks.items() if feature.kind == "root"}
    if not roots:
        return []
    maps.append(f"$roots := {_name_map(roots)}")
    return ["$roots(node-name($m/*))"]


def _by_value(plan: QueuePlan, maps: list[str]) -> list[str]:
    """Return lookups of the values of the compared elements and attributes."""
    compared: dict[tuple[str, str, str], dict[str, tuple[int, ...]]] = {}
    for feature, hits in plan.picks.items():
        if feature.value is not None:
            compared.setdefault((feature.kind, feature.uri, feature.local), {})[feature.value] = hits
    found: list[str] = []
    walked: dict[str, list[str]] = {"element": [], "attribute": []}
    for number, ((kind, uri, local), values) in enumerate(compared.items()):
        name = f"$values{number}"
        entries = ", ".join([f"{literal(value)}: {_positions(hits)}" for value, hits in values.items()])
        maps.append(f"{name} := map {{ {entries} }}")
        if len(compared) <= COMPARED_NAMES_MAX:
            at = "@" if kind == "attribute" else ""
            found.append(f"$m//{at}{full_name(uri, local)} ! {name}(string())")
        else:
            walked[kind].append(f"QName({literal(uri)}, {literal(local)}): {name}")
    for kind, names in walked.items():
        if names:
            maps.append(f"${kind}Values := map {{ {', '.join(names)} }}")
            at = "@" if kind == "attribute" else ""
            found.append(
                f"(for $n in $m//{at}* let $v := ${kind}Values(node-name($n)) where exists($v) return $v(string($n)))"
            )
    return found


def _by_name(plan: QueuePlan, kind: str, maps: list[str]) -> list[str]:
    features = {f: hits for f, hits in plan.picks.items() if f.kind == kind and f.value is None}
    at = "@" if kind == "attribute" else ""
    if len(features) > TESTS_MAX:
        maps.append(f"${kind}s := {_name_map(features)}")
        return [f"distinct-values($m//{at}*/node-name(.)) ! ${kind}s(.)"]
    return [
        f"(if (exists($m//{at}{full_name(feature.uri, feature.local)})) then {_positions(hits)} else ())"
        for feature, hits in features.items()
    ]


def _name_map(features: dict[Feature, tuple[int, ...]]) -> str:
    entries = [
        f"QName({literal(feature.uri)}, {literal(feature.local)}): {_positions(hits)}"
        for feature, hits in features.items()
    ]
    return f"map {{ {', '.join(entries)} }}"


def _positions(hits: tuple[int, ...]) -> str:
    return f"({', '.join([str(position + 1) for position in hits])})"
