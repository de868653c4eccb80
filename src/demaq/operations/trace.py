"""The conversation of a message: what caused it, back to the first message, and all that followed, as a tree.

Each message has the number of the one that caused it, the rule that made it, and the number of the first one. Messages
that are gone are known by those that they caused; what led to such a message is not. Where a message went to another
node of ours, or came from one, the tree continues there if the store of that node is given.

    12 orders                       came from outside
    ├─ 13 invoices                  rule bill
    │  └─ 15 customer               rule send, delivered to another node
    │     └─ 4 inbox                a message of the other store
    └─ 14 timers                    rule wait
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, TypeAlias

from demaq.errors import OperatorError
from demaq.language.program.program import Program
from demaq.operations.node_names import find_received, name_message, read_request_queue, read_sender_name
from demaq.store.protocol import Attempt, Store, StoredMessage, Timer
from demaq.system_properties import ERROR_LEVEL, REPLAY_OF

EXAMINED_MAX = 200_000
"""Members of a conversation are looked for among so many messages from its first one on; later ones by their causes."""
ATTEMPTS_MAX = 20
"""So many attempts of a delivery are returned, the newest ones."""
NODES_CROSSED_MAX = 100
TEXT_MAX = 200
"""So much of a body is returned."""

TraceLink: TypeAlias = Literal["outside", "rule", "timer", "reply", "error", "node", "unknown"]
"""Why a message is there: it came from outside, a rule made it, a timer was due, a service replied, something failed,
another node sent it; or messages between it and the one above it are gone."""
TraceState: TypeAlias = Literal["waits", "to send", "timer", "not taken", "processed", "unmatched", "unstored"]
"""`unmatched`: processed, and no rule reacted. `unstored`: it came and went without being stored, or was removed."""


@dataclass(frozen=True, slots=True)
class TracedStore:
    """A store, the name by which it was given, and the application that ran on it last, if that is known."""

    name: str
    store: Store
    program: Program | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceNode:
    """A message of the conversation."""

    store: str
    seq: int
    name: str
    """By which other nodes know it."""
    parent: int | None
    """The position in the trace of the message that caused it."""
    depth: int
    link: TraceLink
    rule: str | None
    queue: str | None
    """Of an unstored message as far as it can be concluded from the rule that reacted to it."""
    state: TraceState
    created: datetime | None
    text: str
    timer: Timer | None
    attempts: tuple[Attempt, ...]
    replay_of: str | None
    came_from: str | None
    """The name of the message of another node that it was, if the store of that node is not given."""
    is_asked: bool
    skipped: int
    """How many messages are between the one above it and itself that are not in the trace."""
    left_out: int
    """How many of the messages that it caused are not in the trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    nodes: tuple[TraceNode, ...]
    """Each after the one that caused it, and before those which that one caused later."""
    left_out: int
    """How many messages of the conversation are known and not in it."""
    is_examined_whole: bool
    """Whether all messages that could belong to it were examined; otherwise more may have followed unstored ones."""


def trace_conversation(stores: Sequence[TracedStore], seq: int, *, depth_max: int = 50, nodes_max: int = 200) -> Trace:
    """Return the conversation of a message of the first of the stores.

    Raises an OperatorError if nothing is known of it.

    Not more than `nodes_max` messages, from the first ones on, and none that is deeper than `depth_max`; in any case
    those that led to this one, or the first and the nearest of them where they are more than `depth_max`.
    """
    tracer = _Tracer(stores, depth_max, nodes_max)
    return tracer.trace(seq)


_Place: TypeAlias = tuple[int, int]
"""The position of a store, and the number of a message."""


class _Conversation:
    """The messages of one store that have one origin."""

    def __init__(self, store: Store, origin: int) -> None:
        self.origin = origin
        self.children: dict[int, list[int]] = {}
        """The messages that each one caused. Unstored ones are below the origin if what caused them is gone."""
        self.gaps: set[int] = set()
        """Unstored messages of which it is not known what caused them."""
        pairs = store.conversation(origin, EXAMINED_MAX)
        self.stored = {seq for seq, _ in pairs}
        for seq, cause in pairs:
            if seq != origin and cause is not None:
                self.add(seq, cause)

    def add(self, seq: int, cause: int) -> None:
        if cause not in self.stored and cause != self.origin and cause not in self.gaps:
            self.gaps.add(cause)
            self.children.setdefault(self.origin, []).append(cause)
        if seq not in self.children.setdefault(cause, []):
            self.children[cause].append(seq)


class _Tracer:
    def __init__(self, stores: Sequence[TracedStore], depth_max: int, nodes_max: int) -> None:
        self.stores = stores
        self.depth_max = depth_max
        self.nodes_max = nodes_max
        self.epochs = [each.store.epochs() for each in stores]
        self.parts: dict[_Place, _Conversation] = {}
        self.is_examined_whole = True
        self.skipped: dict[_Place, int] = {}

    def trace(self, seq: int) -> Trace:
        asked = (0, seq)
        path = self._find_path(asked)
        top = path[-1]
        # Breadth first, so that the bounds leave out what is deep; those on the way to the message come in any case.
        chosen: dict[_Place, tuple[_Place | None, int]] = {top: (None, 0)}
        origins = {top: self._origin_of(top)}
        left_out: dict[_Place, int] = {}
        nearest = path[: max(min(self.depth_max, self.nodes_max) // 2, 1)]
        on_path = set(path)
        if len(path) > len(nearest) + 1 and len(path) > self.depth_max:
            # Too long to be shown: the first, and the nearest ones below it.
            self.skipped[nearest[-1]] = len(path) - len(nearest) - 1
            on_path = {*nearest}
            chosen[nearest[-1]] = (top, 1)
            origins[nearest[-1]] = self._origin_of(nearest[-1])
        waiting = deque(chosen)
        while waiting:
            place = waiting.popleft()
            depth = chosen[place][1]
            for child, origin in self._children(place, origins[place]):
                if child in chosen:
                    continue
                is_wanted = depth < self.depth_max and len(chosen) < self.nodes_max
                if child in on_path or is_wanted:
                    chosen[child] = (place, depth + 1)
                    origins[child] = origin
                    waiting.append(child)
                else:
                    left_out[place] = left_out.get(place, 0) + 1
        total = sum([len(part.stored | part.gaps) for part in self.parts.values()])
        nodes = self._make_nodes(chosen, origins, left_out, asked)
        hidden = max(total - len([n for n in nodes if n.state != "unstored" or n.link == "unknown"]), 0)
        return Trace(
            nodes=nodes, left_out=max(hidden, sum(left_out.values())), is_examined_whole=self.is_examined_whole
        )

    # --- upwards -----------------------------------------------------------------------------------------------------

    def _find_path(self, place: _Place) -> list[_Place]:
        """Return the message and those that led to it, the nearest first, across stores."""
        path = [place]
        number, seq = place
        store = self.stores[number].store
        known = store.message(seq) is not None or store.caused_by(seq) or store.conversation(seq, EXAMINED_MAX)
        if not known and store.request_of(seq) is None:
            raise OperatorError(f"nothing is known of message {seq}: it never was, or all that it led to is gone, too")
        for _ in range(NODES_CROSSED_MAX):
            number, seq = path[-1]
            store = self.stores[number].store
            while (message := store.message(seq)) is not None and message.trigger is not None:
                path.append((number, message.trigger))
                seq = message.trigger
            origin = self._origin_of((number, seq))
            if origin != seq:
                path.append((number, origin))
            sender = self._find_sender((number, origin))
            if sender is None or sender in path:
                return path
            path.append(sender)
        return path

    def _origin_of(self, place: _Place) -> int:
        """Return the first message of a message's store. Of an unstored one it is known by what it caused."""
        number, seq = place
        store = self.stores[number].store
        message = store.message(seq)
        while message is None:
            caused = store.caused_by(seq)
            if not caused:
                return seq
            message = store.message(caused[0])
            seq = caused[0] if message is None else seq
        return message.origin

    def _find_sender(self, place: _Place) -> _Place | None:
        """Return the message of another store that a message is the delivery of."""
        name = read_sender_name(self.stores[place[0]].store.request_of(place[1]))
        if name is None:
            return None
        for number, epochs in enumerate(self.epochs):
            if epochs.epoch_name(name.seq) == name.epoch:
                return number, name.seq
        return None

    # --- downwards ---------------------------------------------------------------------------------------------------

    def _children(self, place: _Place, origin: int) -> list[tuple[_Place, int]]:
        """Return the messages that one has caused, each with its first message in its store."""
        number, seq = place
        part = self._read_part(number, origin)
        for caused in self.stores[number].store.caused_by(seq):
            part.stored.add(caused)
            part.add(caused, seq)
        found = [((number, child), origin) for child in sorted(part.children.get(seq, ()))]
        return found + [(received, received[1]) for received in self._find_received(place)]

    def _read_part(self, number: int, origin: int) -> _Conversation:
        key = (number, origin)
        if key not in self.parts:
            store = self.stores[number].store
            self.parts[key] = _Conversation(store, origin)
            if store.snapshot() - origin > EXAMINED_MAX:
                self.is_examined_whole = False
        return self.parts[key]

    def _find_received(self, place: _Place) -> list[_Place]:
        """Return the messages of all stores that a message of an outgoing gateway became there."""
        number, seq = place
        here = self.stores[number]
        if here.program is not None:
            message = here.store.message(seq)
            known = None if message is None else here.program.queues.get(message.queue)
            if known is not None and known.kind != "outgoingGateway":
                return []
        name = name_message(self.epochs[number], seq)
        found: list[_Place] = []
        for other, there in enumerate(self.stores):
            queues = [] if there.program is None else there.program.queues.values()
            incoming = [queue.name for queue in queues if queue.kind == "incomingGateway"]
            found += [(other, received) for received in find_received(there.store, incoming, name)]
        return found

    # --- nodes -------------------------------------------------------------------------------------------------------

    def _make_nodes(
        self,
        chosen: dict[_Place, tuple[_Place | None, int]],
        origins: dict[_Place, int],
        left_out: dict[_Place, int],
        asked: _Place,
    ) -> tuple[TraceNode, ...]:
        stored: dict[_Place, StoredMessage] = {}
        for number, traced in enumerate(self.stores):
            wanted = [seq for store, seq in chosen if store == number]
            stored |= {(number, message.seq): message for message in traced.store.messages(wanted)}
        below: dict[_Place, list[_Place]] = {}
        for place, (parent, _) in chosen.items():
            if parent is not None:
                below.setdefault(parent, []).append(place)
        nodes: list[TraceNode] = []
        positions: dict[_Place, int] = {}
        stack = [next(iter(chosen))]
        while stack:
            place = stack.pop()
            parent, depth = chosen[place]
            positions[place] = len(nodes)
            node = self._make_node(place, stored.get(place), parent, stored, below.get(place, ()), origins[place])
            nodes.append(
                replace(
                    node,
                    parent=None if parent is None else positions[parent],
                    depth=depth,
                    is_asked=place == asked,
                    left_out=left_out.get(place, 0),
                )
            )
            stack += reversed(below.get(place, ()))
        return tuple(nodes)

    def _make_node(
        self,
        place: _Place,
        message: StoredMessage | None,
        parent: _Place | None,
        stored: dict[_Place, StoredMessage],
        children: Sequence[_Place],
        origin: int,
    ) -> TraceNode:
        number, seq = place
        traced = self.stores[number]
        is_first = seq == origin
        request = traced.store.request_of(seq) if is_first else None
        sender = read_sender_name(request)
        queue: str | None
        if message is not None:
            queue = message.queue
            attempts = traced.store.attempts(None, seq, ATTEMPTS_MAX)[::-1]
        else:
            rules = [
                known.rule for child in children if child[0] == number and (known := stored.get(child)) is not None
            ]
            queue = read_request_queue(request) or _conclude_queue(traced.program, rules)
            attempts = []
        replay = None if message is None else message.properties.get(REPLAY_OF)
        return TraceNode(
            store=traced.name,
            seq=seq,
            name=str(name_message(self.epochs[number], seq)),
            parent=None,
            depth=0,
            link="unknown" if place in self.skipped else _link(message, parent, stored, place, is_first=is_first),
            rule=None if message is None else message.rule,
            queue=queue,
            state="unstored" if message is None else _state(message, traced.program),
            created=None if message is None else message.created,
            text="" if message is None else " ".join(message.body[: 2 * TEXT_MAX].split())[:TEXT_MAX],
            timer=None if message is None else message.timer,
            attempts=tuple(attempts),
            replay_of=None if replay is None else replay.text,
            came_from=str(sender) if sender is not None and parent is None else None,
            is_asked=False,
            skipped=self.skipped.get(place, 0),
            left_out=0,
        )


def _link(
    message: StoredMessage | None,
    parent: _Place | None,
    stored: dict[_Place, StoredMessage],
    place: _Place,
    *,
    is_first: bool,
) -> TraceLink:
    if parent is None:
        return "outside"
    if parent[0] != place[0] or is_first:
        return "node"
    if message is None:
        return "unknown"
    if ERROR_LEVEL in message.properties:
        return "error"
    if message.rule is not None:
        return "rule"
    cause = stored.get(parent)
    if cause is None:
        return "timer"  # of an unstored message only a timer is the effect that no rule has made
    return "timer" if cause.timer is not None else "reply"


def _state(message: StoredMessage, program: Program | None) -> TraceState:
    if message.undelivered:
        return "to send"
    if message.processed is not None:
        return "unmatched" if message.unmatched else "processed"
    if message.timer is not None:
        return "timer"
    if program is None or message.queue not in program.queues:
        return "waits"
    slicings = {slicing.name for slicing in program.slicings_of(message.queue)}
    targets = {(rule.on_slicing, rule.target) for rule in program.rules}
    has_rules = (False, message.queue) in targets or any([(True, slicing) in targets for slicing in slicings])
    is_sent = program.queues[message.queue].kind == "outgoingGateway"
    return "waits" if has_rules or is_sent else "not taken"


def _conclude_queue(program: Program | None, rules: Sequence[str | None]) -> str | None:
    """Return the queue of a message by the rules that have reacted to it: a rule for a queue says which."""
    if program is None:
        return None
    known = {rule.name: rule for rule in program.rules}
    for name in rules:
        rule = known.get(name) if name is not None else None
        if rule is not None and not rule.on_slicing:
            return rule.target
        if rule is not None:
            queues = list(program.properties[program.slicings[rule.target].property].values)
            if len(queues) == 1:
                return queues[0]
    return None
