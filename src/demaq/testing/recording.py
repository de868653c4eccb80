"""Make a scenario out of recorded traffic: inputs with their times, and what they lead to.

The inputs are run in a laboratory, as `demaq test` runs them. What they lead to there is expected, and compared with
what was really made: values that differ, such as times and ids, are expected as `…`; where more differs, because rules
have read what is not recorded, that is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from demaq.documents import Document
from demaq.errors import MessageError, OperatorError
from demaq.evaluation.round_request import PropertyRequest, compute_one
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.language.program.program import Program
from demaq.operations.recorded_traffic import RecordedTraffic
from demaq.operations.value_masks import MaskStep, ValueMasks
from demaq.store.memory_store import MemoryStore
from demaq.store.protocol import StoredMessage
from demaq.system_properties import ERROR_LEVEL, transport_properties
from demaq.testing.lab import Lab, LabMessage
from demaq.testing.scenario_writer import ScenarioText
from demaq.testing.scenarios_layout import layout, prefixes_of
from demaq.testing.scenarios_xml import Element, Node, matches, read_body

WILDCARD = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedScenario:
    text: str
    """The file of scenarios, in YAML."""
    inputs: int
    notices: tuple[str, ...]
    """What its author should know: what differs from what really happened, and why."""


@dataclass(frozen=True, slots=True)
class _Input:
    queue: str
    body: str
    properties: Mapping[str, str]


@dataclass(slots=True)
class _Group:
    """Inputs that were all there before the first was processed, and how long after the group before they came."""

    pause: float
    inputs: list[_Input] = field(default_factory=list)


def record_scenario(
    program: Program, traffic: RecordedTraffic, name: str, paths: Sequence[tuple[MaskStep, ...]], secret: bytes
) -> RecordedScenario:
    """Return the scenario of some traffic. Raises an OperatorError if a masked message is refused."""
    groups, rest = _group(program, traffic)
    begins = traffic.inputs[0].created
    notices: list[str] = []
    made = _run(program, traffic.collections, begins, groups, rest)
    if traffic.is_cut:
        notices.append("there is more traffic that belongs together than is recorded")
    if traffic.is_complete:
        expected, differing = _compare(made, traffic.made)
        notices += [f"what was made in queue {queue} differs from what the scenario leads to" for queue in differing]
    else:
        expected = {queue: [read_body(each.body).root for each in messages] for queue, messages in made.items()}
        notices.append("not all messages are stored any more, so the results are those of the scenario, not compared")
    collections = traffic.collections
    if paths:
        masks = ValueMasks(secret)
        groups, collections = _mask(masks, paths, groups, collections)
        masked = _run(program, collections, begins, groups, rest)
        expected, changed = _transfer(expected, masked)
        made = masked
        notices += [f"with the masks something else is made in queue {queue}" for queue in changed]
        notices += [f"nothing is at {path}: nothing is masked for it" for path in masks.list_unused(paths)]
    text = _write(name, begins, collections, groups, rest, made, expected)
    return RecordedScenario(text=text, inputs=len(traffic.inputs), notices=tuple(notices))


# --- inputs ----------------------------------------------------------------------------------------------------------


def _group(program: Program, traffic: RecordedTraffic) -> tuple[list[_Group], float]:
    """Return the inputs in groups, and how long after the last one the last message was made."""
    rules = SaxonEvaluator(compile_program(program))
    groups: list[_Group] = []
    before: datetime | None = None
    end: int | None = None
    """The number that the processing of the first message of the group took."""
    for message in traffic.inputs:
        at = max(message.created, before or message.created)
        if not groups or (end is not None and message.seq > end):
            groups.append(_Group(0.0 if before is None else (at - before).total_seconds()))
            before, end = at, message.processed
        groups[-1].inputs.append(_Input(message.queue, message.body, _find_explicit(program, rules, message)))
    last = max([message.created for message in (*traffic.inputs, *traffic.made)])
    assert before is not None
    return groups, max((last - before).total_seconds(), 0.0)


def _find_explicit(program: Program, rules: SaxonEvaluator, message: StoredMessage) -> dict[str, str]:
    """Return the properties of a message that its sender, or what it inherited from, has set."""
    settable = {p.name for p in program.properties_of(message.queue) if p.decl is not None and p.variant != "fixed"}
    settable |= {*transport_properties(program.queues[message.queue].kind)}
    candidates = {name: value for name, value in message.properties.items() if name in settable}
    if not candidates:
        return {}
    request = PropertyRequest(
        queue=message.queue, document=Document(message.body), explicit={}, now=message.created, inherited={}
    )
    try:
        computed = compute_one(rules, request).properties
    except MessageError:
        computed = {}
    return {name: value.text for name, value in candidates.items() if computed.get(name) != value}


def _mask(
    masks: ValueMasks,
    paths: Sequence[tuple[MaskStep, ...]],
    groups: Sequence[_Group],
    collections: Mapping[str, Sequence[str]],
) -> tuple[list[_Group], dict[str, list[str]]]:
    documents = [each.body for group in groups for each in group.inputs]
    for text in [*documents, *[text for texts in collections.values() for text in texts]]:
        masks.find_values(text, paths)
    masked: list[_Group] = []
    for group in groups:
        inputs = [
            _Input(
                each.queue,
                masks.mask_document(each.body),
                {name: masks.mask_value(value) for name, value in each.properties.items()},
            )
            for each in group.inputs
        ]
        masked.append(_Group(group.pause, inputs))
    return masked, {name: [masks.mask_document(text) for text in texts] for name, texts in collections.items()}


# --- results ---------------------------------------------------------------------------------------------------------


def _run(
    program: Program,
    collections: Mapping[str, Sequence[str]],
    begins: datetime,
    groups: Sequence[_Group],
    rest: float,
) -> dict[str, list[LabMessage]]:
    """Return what the inputs lead to in a laboratory, by queue."""
    lab: Lab | None = None

    def now() -> datetime:
        return lab.now if lab is not None else begins

    lab = Lab(program, MemoryStore(now=now), collections)
    with lab:
        lab.now = begins
        for group in groups:
            if group.pause:
                lab.advance(group.pause)
            for each in group.inputs:
                try:
                    lab.enqueue(each.queue, each.body, each.properties)
                except MessageError as error:
                    raise OperatorError(f"a message for queue {each.queue} is refused: {error.message}") from None
            lab.run_until_idle()
        if rest:
            lab.advance(rest)
        found = {queue: lab.read_created(queue) for queue in program.queues}
    return {queue: messages for queue, messages in found.items() if messages}


def _compare(
    made: Mapping[str, Sequence[LabMessage]], real: Sequence[StoredMessage]
) -> tuple[dict[str, list[Element]], list[str]]:
    """Return what is expected in each queue, with wildcards where values differ from the real ones.

    Return the queues where more differs, too.
    """
    expected: dict[str, list[Element]] = {}
    differing: list[str] = []
    for queue in dict.fromkeys([*made, *[message.queue for message in real]]):
        mine = [read_body(each.body).root for each in made.get(queue, ())]
        theirs = [read_body(each.body).root for each in real if each.queue == queue]
        merged = [_take(each, theirs) for each in mine]
        has_all = not theirs and all([each is not None for each in merged])
        expected[queue] = [each or own for each, own in zip(merged, mine, strict=True)]
        if not has_all:
            differing.append(queue)
    return {queue: elements for queue, elements in expected.items() if elements}, differing


def _take(mine: Element, theirs: list[Element]) -> Element | None:
    """Remove the first real message that is the same from a list, or else one of the same form. Return the former with
    wildcards."""
    for position, other in enumerate(theirs):
        if matches(mine, other):
            del theirs[position]
            return mine
    for position, other in enumerate(theirs):
        merged = _merge(mine, other)
        if isinstance(merged, Element):
            del theirs[position]
            return merged
    return None


def _merge(mine: Node, other: Node) -> Node | None:
    """Return a node with wildcards for the values that differ; None if more differs."""
    if not isinstance(mine, Element) or not isinstance(other, Element):
        return mine if mine == other else WILDCARD if isinstance(mine, str) and isinstance(other, str) else None
    if mine.name != other.name or mine.attributes.keys() != other.attributes.keys():
        return None
    if len(mine.children) != len(other.children):
        return None
    children = [_merge(a, b) for a, b in zip(mine.children, other.children, strict=True)]
    if any([child is None for child in children]):
        return None
    attributes = {n: value if other.attributes[n] == value else WILDCARD for n, value in mine.attributes.items()}
    return Element(mine.name, attributes, tuple([child for child in children if child is not None]))


def _transfer(
    expected: Mapping[str, Sequence[Element]], masked: Mapping[str, Sequence[LabMessage]]
) -> tuple[dict[str, list[Element]], list[str]]:
    """Return what is made of masked inputs, with the wildcards of what is expected without masks."""
    found: dict[str, list[Element]] = {}
    changed: list[str] = [queue for queue in expected if queue not in masked]
    for queue, messages in masked.items():
        elements = [read_body(each.body).root for each in messages]
        templates = expected.get(queue, ())
        if len(templates) != len(elements):
            changed.append(queue)
            found[queue] = elements
            continue
        copied = [_copy_wildcards(template, each) for template, each in zip(templates, elements, strict=True)]
        found[queue] = [each or own for each, own in zip(copied, elements, strict=True)]
        changed += [queue] * any([each is None for each in copied])
    return found, changed


def _copy_wildcards(template: Element, element: Element) -> Element | None:
    if template.name != element.name or template.attributes.keys() != element.attributes.keys():
        return None
    if len(template.children) != len(element.children):
        return None
    children: list[Node] = []
    for wanted, child in zip(template.children, element.children, strict=True):
        if isinstance(wanted, Element) != isinstance(child, Element):
            return None
        copied = _copy_wildcards(wanted, child) if isinstance(wanted, Element) and isinstance(child, Element) else child
        if copied is None:
            return None
        children.append(WILDCARD if wanted == WILDCARD else copied)
    attributes = {n: WILDCARD if template.attributes[n] == WILDCARD else v for n, v in element.attributes.items()}
    return Element(element.name, attributes, tuple(children))


# --- text ------------------------------------------------------------------------------------------------------------


def _write(
    name: str,
    begins: datetime,
    collections: Mapping[str, Sequence[str]],
    groups: Sequence[_Group],
    rest: float,
    made: Mapping[str, Sequence[LabMessage]],
    expected: Mapping[str, Sequence[Element]],
) -> str:
    text = ScenarioText(name, begins, collections)
    for group in groups:
        text.add_pause(group.pause)
        text.add_arrivals([(each.queue, each.body, each.properties) for each in group.inputs])
    text.add_pause(rest)
    errors = [each for messages in made.values() for each in messages if ERROR_LEVEL in each.properties]
    for error in sorted(errors, key=lambda each: int(each.id)):
        tree = Document(error.body).tree.getroot()
        parts = {name: tree.findtext(name) for name in ("rule", "code")}
        said = {"queue": error.queue, "kind": str(tree[0].tag), **parts}
        text.add_error({key: value for key, value in said.items() if value})
    for queue, messages in made.items():
        if all([ERROR_LEVEL in each.properties for each in messages]):
            continue
        bodies = [
            WILDCARD if ERROR_LEVEL in each.properties else _serialize(each.body, element)
            for each, element in zip(messages, expected[queue], strict=True)
        ]
        text.add_made(queue, bodies)
    return text.finish()


def _serialize(body: str, element: Element) -> str:
    read = read_body(body)
    return body if read.root == element else "\n".join(layout(element, prefixes_of([read])))
