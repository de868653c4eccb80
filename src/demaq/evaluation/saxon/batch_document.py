"""Write messages as the records of a batch, for Saxon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from demaq.compiler.plan import Plan
from demaq.evaluation.round_request import PropertyRequest
from demaq.evaluation.state.state_builder import property_element
from demaq.language import ast
from demaq.messages import Message, PropertyValue, transport_properties
from demaq.xml_escaping import quoteattr


class RecordWriter:
    """Writes messages as elements: queue, time, slices and the properties that rules may read."""

    def __init__(self, plan: Plan) -> None:
        self.program = plan.program
        self.plan = plan
        self._slicings = {name: number for number, name in enumerate(self.program.slicings)}
        self._asked = {queue: plan.properties_asked_by(queue) for queue in plan.queues}
        self._transporting: dict[str, bool] = {}
        self._quoted = {name: quoteattr(name) for name in self.program.queues}

    def batch(self, messages: Sequence[Message], now: datetime, is_inside: bool) -> str:
        """Return a batch of messages; with `is_inside` the records contain the documents."""
        time = now.isoformat()
        records = [
            f'<r q={self._quoted[message.queue]} t="{time}" s="{self._slices(message)}">{self._own(message)}'
            f"{f'<m>{message.document.text}</m>' if is_inside else ''}</r>"
            for message in messages
        ]
        return f"<b>{''.join(records)}</b>"

    def _own(self, message: Message) -> str:
        return "".join([property_element(name, value) for name, value in self._relevant(message).items()])

    def arriving(self, arrival: PropertyRequest) -> str:
        """Return a new message with its explicit properties, which are marked, and those of its parent."""
        explicit = arrival.explicit
        if self.program.queues[arrival.queue].kind == "echo" and "timeout" in explicit:
            given = explicit["timeout"]
            explicit = {**explicit, "timeout": PropertyValue("timeout", given.text, given.key)}
        written = [property_element(name, value, ' x=""') for name, value in explicit.items()]
        others = [name for name in arrival.inherited if name not in explicit]
        written += [property_element(name, arrival.inherited[name]) for name in others]
        head = f'<r q={self._quoted[arrival.queue]} t="{arrival.now.isoformat()}" s="">'
        return f"{head}{''.join(written)}<m>{arrival.document.text}</m></r>"

    def kept(self, arrival: PropertyRequest) -> str:
        """Return a stored message with the properties it keeps, each marked with its former type if that is another."""
        written: list[str] = []
        for name, value in arrival.explicit.items():
            declared = self.program.properties.get(name)
            if declared is None or declared.type == value.type:
                written.append(property_element(name, value, ' x=""'))
            else:
                typed = PropertyValue(declared.type, value.text, value.key)
                written.append(property_element(name, typed, f' x="" f={quoteattr(value.type)}'))
        inherited = [property_element(name, value) for name, value in arrival.inherited.items()]
        head = f'<r q={quoteattr(arrival.queue)} t="{arrival.now.isoformat()}" s="">'
        return f"{head}{''.join(written + inherited)}<m>{arrival.document.text}</m></r>"

    def _relevant(self, message: Message) -> Mapping[str, PropertyValue]:
        asked = self._asked[message.queue]
        if asked is None:
            return message.properties
        handed_on = transport_properties(message.properties) if self._hands_transport_on(message.queue) else {}
        if not asked:
            return handed_on
        return {**handed_on, **{name: message.properties[name] for name in asked if name in message.properties}}

    def _hands_transport_on(self, queue: str) -> bool:
        """Return whether properties of new messages are computed from transport properties of this queue's messages."""
        if queue not in self._transporting:
            targets = {write.queue for plan in self.plan.queues[queue].rules for write in plan.enqueues}
            values = [prop.values.get(target) for target in targets for prop in self.program.properties_of(target)]
            self._transporting[queue] = any(
                [
                    isinstance(node, ast.StringLiteral) and node.value.startswith("demaq:")
                    for value in values
                    if value is not None
                    for node in ast.walk(value)
                ]
            )
        return self._transporting[queue]

    def _slices(self, message: Message) -> str:
        if not self._slicings:
            return ""
        members = [
            str(number)
            for name, number in self._slicings.items()
            if (name in message.slices if message.slices is not None else self._has_key(message, name))
        ]
        return f"|{'|'.join(members)}|" if members else ""

    def _has_key(self, message: Message, slicing: str) -> bool:
        prop = self.program.properties[self.program.slicings[slicing].property]
        return message.queue in prop.values and prop.name in message.properties
