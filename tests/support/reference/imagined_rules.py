"""How the interpreter puts its questions to the oracle, which knows rules and nothing else.

What no rule of a program makes (an arrival, an error message, an echo) is taken for the work of a rule that we imagine,
so that properties are computed in one place. And a message is in a slice as long as the oracle is shown a property for
it, so lifetimes need nothing in the oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from demaq.documents import parse_document
from demaq.language.program.program import Program, Property, Rule
from demaq.messages import Message, PropertyValue
from demaq.testing.lab import load_text
from tests.support.reference.rule_oracle import RuleOracle

if TYPE_CHECKING:
    from tests.support.reference.interpreter import Kept


@lru_cache(maxsize=4)
def oracles(text: str) -> tuple[RuleOracle, RuleOracle]:
    """One for the rules of a program, one for those that we imagine."""
    program = load_text(text)
    with_more = as_the_oracle_sees_it(load_text(text + imagined_rules(program)))
    imagined = replace(with_more, rules=with_more.rules[len(program.rules) :])
    return RuleOracle(as_the_oracle_sees_it(program)), RuleOracle(imagined)


def arrival(queue: str) -> str:
    return "arrival-" + queue.replace(":", "_")


def consequence(queue: str) -> str:
    return "consequence-" + queue.replace(":", "_")


def imagined_rules(program: Program) -> str:
    """For every queue a rule for what arrives with explicit properties, and one for errors and echoes."""
    text = ""
    for queue in program.queues.values():
        names = [prop.name for prop in program.properties_of(queue.name) if prop.variant != "fixed"]
        given = "".join([f' with {name} value qs:property("{name}")' for name in names])
        for name, with_ in ((arrival(queue.name), given), (consequence(queue.name), "")):
            text += f"\ncreate queue {name} create rule {name} for {name} if (true()) then "
            text += f"do enqueue /* into {queue.name}{with_}"
    return text


def error_text(rule: Rule | None, error: tuple[str, ...], message: Kept) -> str:
    """As the published schema has it, without what only a reader cares for: description, place and time."""
    named = f"<rule>{escape(rule.name)}</rule>" if rule else ""
    code = error[1] if len(error) > 1 else f"demaq:{error[0]}"
    return (
        f"<error><{error[0]}/>{named}<queue>{escape(message.queue)}</queue><messageId>{message.number}</messageId>"
        f"<code>{code}</code><attempt>1</attempt><initialMessage>{message.body}</initialMessage></error>"
    )


def as_the_oracle_sees_it(program: Program) -> Program:
    """Timers are properties of echo queues; each slicing is on a property that a message has while it is in a slice."""
    properties = dict(program.properties)
    echoes = dict.fromkeys([queue.name for queue in program.queues.values() if queue.kind == "echo"])
    for name in ("timeout", "target"):
        properties[name] = Property(name=name, type="string", variant=None, values=echoes, module=None, decl=None)
    slicings = {}
    for slicing in program.slicings.values():
        name = membership(slicing.name)
        on = program.properties[slicing.property]
        properties[name] = replace(on, name=name, variant=None, values=dict.fromkeys(on.values))
        slicings[slicing.name] = replace(slicing, property=name)
    return replace(program, properties=properties, slicings=slicings)


def shown(kept: Kept) -> Message:
    """A message as rules see it."""
    properties = {**kept.properties, "demaq:queue": PropertyValue.string(kept.queue)}
    properties["demaq:id"] = PropertyValue.string(str(kept.number))
    if kept.rule is not None:
        properties["demaq:rule"] = PropertyValue.string(kept.rule)
    for (slicing, _), value in kept.slices.items():
        properties[membership(slicing)] = value
    return Message(
        id=str(kept.number),
        queue=kept.queue,
        document=parse_document(kept.body),
        properties=properties,
        created=kept.created,
        seq=kept.number,
    )


def membership(slicing: str) -> str:
    """The property that a message is shown with while it is in a slice."""
    return f"slice {slicing}"


def properties_of(action: Sequence[Any]) -> dict[str, PropertyValue]:
    """The properties of a message that a verdict enqueues."""
    return {name: PropertyValue(type_, text, key) for name, type_, text, key in action[3]}
