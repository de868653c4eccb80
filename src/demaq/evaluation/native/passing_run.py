"""Native rules on a message from outside that only leads to others: straight from its body to what is stored.

Such a message is in no slice, and neither it nor what it leads to is read by any rule, or processed at once
(`Cascades.may_pass`). So there is no conversation: its rules see the snapshot, and what they have read is all that has
to be validated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from demaq.documents import Document, parse_document
from demaq.evaluation.arrival_request import Arriving, Created, Passed
from demaq.evaluation.native.native_properties import Explicit, NativeProperties
from demaq.evaluation.native.native_run import NativeRun
from demaq.evaluation.native.values import NeedsSaxon
from demaq.evaluation.outcomes import StateReader
from demaq.evaluation.queue_schemas import QueueSchemas
from demaq.evaluation.state.snapshot_reader import NO_SLICES
from demaq.messages import KEY_BYTES_MAX, Message, PropertyValue, transport_properties


class PassingRun(NativeRun):
    """What rules enqueue is kept as it is returned to the node."""

    __slots__ = ("_created",)

    def __init__(
        self,
        message: Message,
        state: StateReader,
        intakes: Mapping[str, NativeProperties],
        schemas: QueueSchemas,
        now: datetime,
    ) -> None:
        # Not that of a run that fills in an outcome, or leaves rules to Saxon.
        self.message = message
        self.fired = []
        self.state = state
        self.now = now
        self._created: list[Created] = []
        self._intakes = intakes
        self._schemas = schemas
        self._roots = None

    def enqueue(self, rule: str, queue: str, text: str, given: Sequence[tuple[str, Explicit]]) -> tuple[()]:
        properties, entries = self._compute_properties(queue, Document(text), given)
        self._created.append(Created(rule, queue, text, properties, entries))
        return ()

    def reset(self, rule: str, slicing: str, key: str) -> tuple[()]:
        raise NeedsSaxon("a reset, which is more than a message that passes can do")

    def take_effects(self, order: Mapping[str, int]) -> Passed:
        """Return the effects, in the order of the rules."""
        if self._roots is None:
            return Passed(tuple(self._created), tuple(self.fired))
        created = sorted(self._created, key=lambda made: order[made.rule])
        return Passed(tuple(created), tuple(sorted(self.fired, key=lambda rule: order[rule])), self.reads())


def read_passing(sent: Arriving, intake: NativeProperties, now: datetime) -> Message | None:
    """Return a message as its rules see it; None if its properties are not native. Raises a MessageError."""
    document = sent.document or parse_document(sent.body)
    properties: Mapping[str, PropertyValue] = {}
    if intake.computes:
        found = intake.compute(document, sent.inherited)
        if found is None or any([len(value.text) > KEY_BYTES_MAX // 4 for value in found[0].values()]):
            return None
        properties = found[0]
    if sent.inherited:
        properties = {**transport_properties(sent.inherited), **properties}
    return Message(id="", queue=sent.queue, document=document, properties=properties, created=now, slices=NO_SLICES)
