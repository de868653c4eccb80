"""The flow of an application as a graph: queues, slicings and rules, and what leads from one to the other.

Made from the plan, so that it shows what a node does: calls of functions are followed, and the target of a timer is
known if it is written in the rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from demaq.compiler.plan import Plan, QueueByKey, RulePlan, WholeQueue
from demaq.gateways.answer_queues import find_answer_queues
from demaq.language.program.program import SYSTEM_ERRORS, Program, Queue, Slicing

NodeKind: TypeAlias = Literal["basic", "mailbox", "incomingGateway", "outgoingGateway", "echo", "slicing", "rule"]
EdgeKind: TypeAlias = Literal["asks", "joins", "enqueues", "timer", "reply", "error", "resets", "reads"]
"""`asks`: a rule is evaluated for the messages of a queue or slicing. `joins`: messages of a queue are in a slicing.
`timer`: messages come back in a queue. `reply`: responses to what a gateway sends. The others are actions of rules, and
`error` is where failures of a rule or queue go."""
MAIN_KINDS: tuple[EdgeKind, ...] = ("asks", "joins", "enqueues")
"""The kinds of edges that messages usually take, and by which the graph has its direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowNode:
    id: str
    """`queue:NAME`, `slicing:NAME` or `rule:NAME`."""
    name: str
    kind: NodeKind
    notes: tuple[str, ...]
    """What there is to say about it, in words."""
    is_error_queue: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowEdge:
    source: str
    target: str
    kind: EdgeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowGraph:
    nodes: tuple[FlowNode, ...]
    """In the order in which the application declares them: queues, slicings, rules."""
    edges: tuple[FlowEdge, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "nodes": [
                {"id": node.id, "name": node.name, "kind": node.kind, "notes": list(node.notes)} for node in self.nodes
            ],
            "edges": [{"source": edge.source, "target": edge.target, "kind": edge.kind} for edge in self.edges],
        }


def make_flow_graph(plan: Plan, *, with_reads: bool = False) -> FlowGraph:
    """Return the graph of an application; `with_reads` adds which queues rules read besides the message's own slice."""
    program = plan.program
    edges = [*_queue_edges(program)]
    for rule in plan.rules.values():
        edges += _rule_edges(plan, rule)
        if with_reads:
            edges += _read_edges(rule)
    edges = list(dict.fromkeys(edges))
    error_queues = _find_error_queues(program)
    notes = _Notes(plan)
    nodes = [_queue_node(queue, notes, error_queues) for queue in program.queues.values()]
    nodes += [_slicing_node(program, slicing) for slicing in program.slicings.values()]
    nodes += [_rule_node(rule) for rule in plan.rules.values()]
    if all([module.errorqueue is not None for module in program.modules]):
        linked = {end for edge in edges for end in (edge.source, edge.target)}
        nodes = [node for node in nodes if node.name != SYSTEM_ERRORS or node.id in linked]
    return FlowGraph(nodes=tuple(nodes), edges=tuple(edges))


# --- nodes -----------------------------------------------------------------------------------------------------------


class _Notes:
    """What is said about queues: who answers whom, whose errors they get, whether the target of a timer is known."""

    def __init__(self, plan: Plan) -> None:
        self.program = plan.program
        self.answered: dict[str, list[str]] = {}
        for gateway, queues in find_answer_queues(plan).by_gateway.items():
            for queue in queues:
                self.answered.setdefault(queue, []).append(gateway)
        writes = [write for rule in plan.rules.values() for write in rule.enqueues]
        self.computed_targets = {write.queue for write in writes if write.timer_targets is None}

    def about(self, queue: Queue) -> Iterator[str]:
        named = {"incomingGateway": "incoming gateway", "outgoingGateway": "outgoing gateway", "echo": "echo queue"}
        kind = named.get(queue.kind, "mailbox" if queue.declared_kind == "mailbox" else None)
        if kind is not None:
            yield kind
        if queue.name == SYSTEM_ERRORS:
            yield "all other errors"
        modules = [module for module in self.program.modules if module.errorqueue == queue.name]
        if modules:
            yield "errors of " + (", ".join([module.name or "the module" for module in modules]))
        if queue.name in self.answered:
            yield f"answers {', '.join(self.answered[queue.name])}"
        if queue.kind == "echo" and queue.name in self.computed_targets:
            yield "targets are computed"
        if queue.mode == "transient":
            yield "transient"
        if queue.priority:
            yield f"priority {queue.priority}"


def _queue_node(queue: Queue, notes: _Notes, error_queues: frozenset[str]) -> FlowNode:
    return FlowNode(
        id=f"queue:{queue.name}",
        name=queue.name,
        kind=queue.declared_kind,
        notes=tuple(notes.about(queue)),
        is_error_queue=queue.name in error_queues,
    )


def _slicing_node(program: Program, slicing: Slicing) -> FlowNode:
    queues = ("all queues",) if _is_on_all_queues(program, slicing) else ()
    return FlowNode(
        id=f"slicing:{slicing.name}",
        name=slicing.name,
        kind="slicing",
        notes=(f"slicing on {slicing.property}", *queues),
    )


def _rule_node(rule: RulePlan) -> FlowNode:
    never = ("never fires",) if rule.never is not None else ()
    own = (f"resets {rule.rule.target}",) if rule.rule.on_slicing and rule.rule.target in rule.resets else ()
    return FlowNode(id=f"rule:{rule.rule.name}", name=rule.rule.name, kind="rule", notes=(*never, *own))


def _find_error_queues(program: Program) -> frozenset[str]:
    named = [queue.errorqueue for queue in program.queues.values()]
    named += [rule.errorqueue for rule in program.rules]
    named += [module.errorqueue for module in program.modules]
    return frozenset([SYSTEM_ERRORS, *[name for name in named if name is not None]])


def _is_on_all_queues(program: Program, slicing: Slicing) -> bool:
    """Return whether it is on a property of the system, which messages of all queues have."""
    return program.properties[slicing.property].decl is None


# --- edges -----------------------------------------------------------------------------------------------------------


def _queue_edges(program: Program) -> Iterator[FlowEdge]:
    for queue in program.queues.values():
        here = f"queue:{queue.name}"
        for slicing in program.slicings_of(queue.name):
            if not _is_on_all_queues(program, slicing):
                yield FlowEdge(source=here, target=f"slicing:{slicing.name}", kind="joins")
        if queue.gateway is not None and queue.gateway.replyto is not None:
            yield FlowEdge(source=here, target=f"queue:{queue.gateway.replyto}", kind="reply")
        if queue.errorqueue is not None:
            yield FlowEdge(source=here, target=f"queue:{queue.errorqueue}", kind="error")


def _rule_edges(plan: Plan, item: RulePlan) -> Iterator[FlowEdge]:
    rule = item.rule
    here = f"rule:{rule.name}"
    yield FlowEdge(source=f"{'slicing' if rule.on_slicing else 'queue'}:{rule.target}", target=here, kind="asks")
    for write in item.enqueues:
        yield FlowEdge(source=here, target=f"queue:{write.queue}", kind="enqueues")
        if plan.program.queues[write.queue].kind == "echo":
            for target in write.timer_targets or ():
                yield FlowEdge(source=f"queue:{write.queue}", target=f"queue:{target}", kind="timer")
    for slicing in item.resets:
        if not (rule.on_slicing and slicing == rule.target):  # of its own slicing it is a note
            yield FlowEdge(source=here, target=f"slicing:{slicing}", kind="resets")
    if rule.errorqueue is not None:
        yield FlowEdge(source=here, target=f"queue:{rule.errorqueue}", kind="error")


def _read_edges(item: RulePlan) -> Iterator[FlowEdge]:
    for read in item.reads:
        if isinstance(read, QueueByKey | WholeQueue):
            own = None if item.rule.on_slicing else item.rule.target
            queue = read.queue if read.queue is not None else own
            if queue is not None:
                yield FlowEdge(source=f"queue:{queue}", target=f"rule:{item.rule.name}", kind="reads")
