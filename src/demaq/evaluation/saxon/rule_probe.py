"""Evaluate parts of a rule on a message, each by itself, on the state that the rule reads.

Rules are pure on a snapshot, so any part of a rule can be evaluated again, and has the value that it had. What the rule
looks up by an index is read as a whole queue if that is short, so that a part such as `qs:queue("crm")` has the value
that its author means, and not the messages that the whole expression would find.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from demaq.compiler.emit.xquery.probe_function import Probe, emit_probes
from demaq.compiler.emit.xquery.vocabulary import RUNTIME
from demaq.compiler.plan import AnyQueue, QueueByKey, Read, RulePlan
from demaq.evaluation.outcomes import StateReader
from demaq.evaluation.saxon.failures import BASE_URI, readable
from demaq.evaluation.saxon.processor import EvaluationError, StaticError
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.state_builder import Job, StateBuilder, Wanted
from demaq.language import ast
from demaq.messages import Message

NEEDS_MAX = 100
"""So many queues and collections with computed names are read for one probe."""
_NEED = f"Q{{{RUNTIME}}}"


@dataclass(frozen=True, slots=True)
class ProbedItem:
    """One item of a value: `element`, `attribute`, `document`, `text`, `node`, `function` or an atomic type."""

    kind: str
    name: tuple[str, str] | None
    """Namespace and local name of a node that has one; of a document, those of its root."""
    text: str
    """Its string value, or the beginning of it."""
    markup: str
    """A node as markup, or the beginning of it."""

    @property
    def is_node(self) -> bool:
        return bool(self.markup) and self.kind != "function"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedValue:
    count: int = 0
    truth: bool | None = None
    """The effective boolean value; None if it has none."""
    items: tuple[ProbedItem, ...] = ()
    """The first ones."""
    error: str | None = None
    """Code and description, if there is no value."""


class RuleProbe:
    """One rule on one message."""

    def __init__(
        self,
        evaluator: SaxonEvaluator,
        plan: RulePlan,
        message: Message,
        reader: StateReader,
        now: datetime,
        long_queues: frozenset[str],
    ) -> None:
        """`long_queues` are not read as a whole if the rule only looks messages up in them."""
        self._evaluator = evaluator
        self._compiled = evaluator.compiled
        self._message = message
        self._reader = reader
        self._now = now
        self._builder = StateBuilder(self._compiled.plan, reader)
        by_key = {read for read in plan.keyed if read.queue in long_queues}
        self.looked_up: frozenset[ast.Node] = frozenset([node for node, read in plan.sites.items() if read in by_key])
        """Calls of which only what an index finds is read: alone they have no value that says anything."""
        self.plan = plan if by_key else _without_keys(plan)
        self._reads: Mapping[ast.Node, Read] = self.plan.sites
        self._job: Job | None = None

    @property
    def job(self) -> Job:
        """Return the state that was read. Raises EvaluationError if the keys of what is read have no value."""
        if self._job is None:
            keys: list[list[str]] = []
            if self.plan.keyed:
                keys = self._evaluator.compute_keys(self._message, self.plan, self._now)
            self._job = self._builder.jobs([Wanted(0, self._message, self.plan, keys, self._reader)])[0]
        return self._job

    def evaluate(self, probes: Sequence[Probe]) -> list[ProbedValue]:
        """Return the values of expressions, each evaluated with the message as its focus."""
        if not probes:
            return []
        try:
            block = emit_probes(self._compiled.emitter, self.plan, self._reads, probes)
            function = self._compiled.saxon.functions(block.text, BASE_URI)[0]
        except StaticError as error:
            return self._one_by_one(probes, f"{error.code}: {readable(error.message)}")
        for _ in range(NEEDS_MAX):
            try:
                fields = self._evaluator.call_like_rule(function, self.job, self._now)
            except (EvaluationError, ValueError) as error:
                return self._one_by_one(probes, readable(str(error)))
            values = list(_read_values(iter(fields)))
            if not self._fetch_needed(values):
                break
        return values

    def _one_by_one(self, probes: Sequence[Probe], reason: str) -> list[ProbedValue]:
        if len(probes) == 1:
            return [ProbedValue(error=reason)]
        return [value for probe in probes for value in self.evaluate([probe])]

    def _fetch_needed(self, values: Sequence[ProbedValue]) -> bool:
        """Read what probes have asked for by a computed name. Return whether there was anything."""
        needs = {value.error for value in values if value.error is not None and value.error.startswith(_NEED)}
        for need in needs:
            kind, _, encoded = need.removeprefix(_NEED).partition(":")[0].partition(".")
            name = "".join([chr(int(number)) for number in encoded.split("-")])
            if kind == "queue":
                self.job.queues[name] = self._reader.queue(name) if name in self._compiled.plan.program.queues else ()
            else:
                self.job.collections[name] = self._reader.collection(name)
        return bool(needs)


def _without_keys(plan: RulePlan) -> RulePlan:
    """Return a plan that reads whole queues, when they are asked for."""
    if not plan.keyed:
        return plan
    reads: list[Read] = [read for read in plan.reads if not isinstance(read, QueueByKey)]
    sites = {node: read for node, read in plan.sites.items() if not isinstance(read, QueueByKey)}
    return replace(plan, reads=(*reads, AnyQueue()), sites=sites)


def _read_values(fields: Iterator[str]) -> Iterator[ProbedValue]:
    for tag in fields:
        if tag == "M":
            continue
        if tag == "X":
            yield ProbedValue(error=f"{next(fields)}: {readable(next(fields))}")
            continue
        assert tag == "V", f"unknown field {tag!r}"
        count, truth, shown = int(next(fields)), next(fields), int(next(fields))
        items = [ProbedItem(next(fields), _split_name(next(fields)), next(fields), next(fields)) for _ in range(shown)]
        yield ProbedValue(count=count, truth={"true": True, "false": False}.get(truth), items=tuple(items))


def _split_name(name: str) -> tuple[str, str] | None:
    uri, _, local = name.removeprefix("Q{").rpartition("}")
    return (uri, local) if name else None
