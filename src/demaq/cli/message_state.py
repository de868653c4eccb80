"""What becomes of a message next, in a word: it waits to be processed, stays for who takes it, or comes back later."""

from __future__ import annotations

from collections.abc import Iterable

from demaq.cli.stores import program_of
from demaq.store.message_scan import State as State
from demaq.store.protocol import StoredMessage
from demaq.store.sql_store import SqlStore


def states(store: SqlStore, messages: Iterable[StoredMessage]) -> dict[int, State]:
    """Return the states of messages by their numbers: `waits` only where rules or a gateway will process one."""
    found: dict[int, State] = {}
    open_messages: list[StoredMessage] = []
    for message in messages:
        if message.processed is not None:
            found[message.seq] = "done"
        elif message.timer is not None:
            found[message.seq] = "timer"
        elif message.undelivered:
            found[message.seq] = "waits"
        else:
            open_messages.append(message)
    if open_messages:  # only for these the application has to be read
        processed = processed_queues(store, {message.queue for message in open_messages})
        found |= {m.seq: "waits" if m.queue in processed else "new" for m in open_messages}
    return found


def processed_queues(store: SqlStore, queues: Iterable[str]) -> frozenset[str]:
    """Return the queues whose messages the system processes, without being asked and without waiting for a time.

    Of queues that the application does not have, or where it is not known any more, nothing else can be said.
    """
    from demaq.compiler.planner import make_plan  # not needed by most

    program = program_of(store)
    if program is None:
        return frozenset(queues)
    plan = make_plan(program)
    return frozenset(
        [
            queue
            for queue in queues
            if queue not in program.queues
            or program.queues[queue].kind == "outgoingGateway"
            or (program.queues[queue].kind != "echo" and plan.queues[queue].rules)
        ]
    )
