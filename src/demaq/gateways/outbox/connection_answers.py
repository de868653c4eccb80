"""Answers to requests: each request is answered once, whichever messages would answer it."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from dataclasses import replace

from demaq.batching import AsyncBatcher
from demaq.engine.delivery import Ended
from demaq.errors import AlreadyProcessed, MessageError
from demaq.gateways.connections import KEYED, Connections, Reply
from demaq.gateways.http.responses import refusal_text
from demaq.gateways.outbox.outcome_store import OutcomeNote
from demaq.store.protocol import Attempt, Store, StoredAnswer, StoredMessage
from demaq.system_properties import ERROR_LEVEL

XML = "application/xml"


class ConnectionAnswers:
    """Belongs to one event loop."""

    def __init__(
        self, store: Store, connections: Connections, notes: AsyncBatcher[OutcomeNote, None], executor: Executor
    ) -> None:
        self._store = store
        self._connections = connections
        self._notes = notes
        self._executor = executor
        self._answering: set[str] = set()
        """Connections whose answers are being stored."""
        self._claims: dict[str, int] = {}
        """Connections whose answers go to other addresses, with the messages that answer."""
        self._in_doubt: dict[int, tuple[str, Reply]] = {}
        """Messages whose commit has failed and may have taken place, with their connections and what they answer."""

    async def is_answered(self, message: StoredMessage) -> bool:
        """Return whether another message answers the same request. The first one that is tried does."""
        connection = message.properties["demaq:connection"].text
        if self._claims.setdefault(connection, message.seq) != message.seq:
            return True
        return await self._find(connection) is not None

    def end_elsewhere(self, ended: Ended) -> Ended:
        """Return the end of an answer to another address, by which a second answer is recognised."""
        connection = ended.message.properties["demaq:connection"].text
        if self._claims.get(connection) == ended.message.seq:
            del self._claims[connection]
        if ended.failure is not None:
            return ended
        status = 500 if ERROR_LEVEL in ended.message.properties else 200
        body = ended.message.body
        return replace(ended, answer=StoredAnswer(connection=connection, status=status, content_type=XML, body=body))

    async def answer(self, message: StoredMessage, attempt: Attempt, connection: str) -> Ended:
        """Store the answer, then send it to the waiting connection. Return the result.

        If it raises, it is in doubt whether the answer was stored, and it is called again, or `note_known`.
        """
        reply = Reply(body=message.body, is_error=ERROR_LEVEL in message.properties)
        answer = None
        if connection.startswith(KEYED):
            status = 500 if reply.is_error else 200
            answer = StoredAnswer(connection=connection, status=status, content_type=XML, body=reply.body)
            is_taken = await self._find(connection) is not None
        else:
            is_taken = self._connections.queue_of(connection) is None
        if is_taken or connection in self._answering:
            failure = ("connectionClosed", "the request was answered before, or its sender does not wait any more")
            failed = replace(attempt, result="failed", kind=failure[0], reason=failure[1])
            ended = Ended(message=message, attempt=failed, failure=failure)
            await self._notes.submit(OutcomeNote(ended))
            return ended
        self._answering.add(connection)
        ended = Ended(message=message, attempt=attempt, answer=answer)
        try:
            if not reply.is_error:
                self._connections.check(connection, reply.body)
        except MessageError as error:
            said = f"the response violates the interface: {error.message}"
            failed = replace(attempt, result="failed", kind=error.kind, reason=said)
            reply = Reply(body=refusal_text(error.kind, "the response violates the interface"), is_error=True)
            if answer is not None:
                answer = replace(answer, status=500, body=reply.body)
            ended = Ended(message=message, attempt=failed, answer=answer, failure=(error.kind, said))
        try:
            await self._notes.submit(OutcomeNote(ended))
            self._connections.answer(connection, reply)
        except AlreadyProcessed:
            raise
        except Exception:
            self._in_doubt[message.seq] = connection, reply
            raise
        finally:
            self._answering.discard(connection)
        self._in_doubt.pop(message.seq, None)
        return ended

    def note_known(self, message: StoredMessage) -> None:
        """What became of a message is stored already: if an answer was in doubt, its sender gets it now."""
        found = self._in_doubt.pop(message.seq, None)
        if found is not None:
            self._connections.answer(*found)

    async def _find(self, connection: str) -> StoredAnswer | None:
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._store.answer, connection)
