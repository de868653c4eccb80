"""Encode state for Saxon: all documents of some jobs in one array, and for each job which of them it sees.

Documents are passed together and parsed together. Positions are numbers, each a character of one string: Saxon decodes
that ten times as fast as anything it has to parse. The numbers are

    how many lists and jobs there are
    for each list where it begins, and how many places of documents it has
    for each job where it begins
    the lists, and the jobs: message, rule, place of its document, slice, how many found and each of them, how many
    queues and each with its name and list, the same for collections, how many others and each with its record

where everything is counted from 1, a set of documents is the number of a list of places, a name is its place among all
names, and 0 stands for what a job does not have. Others are messages, each with the record of its properties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from demaq.documents import Document
from demaq.evaluation.saxon.processor import Saxon
from demaq.evaluation.state.state_builder import Job, property_element
from demaq.messages import Message

FIRST_CHARACTER = 0x10000
NUMBER_MAX = 0x10FFFF - FIRST_CHARACTER
"""How many documents, lists and jobs can be encoded in one call."""


def without_state(saxon: Saxon, jobs: Sequence[tuple[int, int]]) -> tuple[Any, ...]:
    """Return the arguments for jobs without state: positions of messages and rules, both from 1."""
    return _arguments(saxon, [], [], [[message, rule, 0, 0, 0, 0, 0, 0] for message, rule in jobs], [])


def with_state(saxon: Saxon, jobs: Sequence[Job], positions: Mapping[int, int]) -> tuple[Any, ...]:
    """Return the arguments for jobs. `positions` has the positions of rules by number.

    Raises ValueError if a document cannot be parsed, or if there are too many.
    """
    state = _ArgumentBuilder(_Shelf(saxon))
    encoded = [state.job(job, positions[job.rule.rule.number]) for job in jobs]
    return _arguments(saxon, state.shelf.nodes(), list(state.lists), encoded, list(state.names))


def _arguments(
    saxon: Saxon, nodes: list[Any], lists: list[tuple[int, ...]], jobs: list[list[int]], names: list[str]
) -> tuple[Any, ...]:
    numbers = saxon.string(_encode(lists, jobs))
    return saxon.array(nodes), numbers, saxon.array([saxon.string(name) for name in names])


def _encode(lists: Sequence[Sequence[int]], jobs: Sequence[Sequence[int]]) -> str:
    numbers = [len(lists), len(jobs)]
    at = len(numbers) + 2 * len(lists) + len(jobs) + 1
    for each in lists:
        numbers += (at, len(each))
        at += len(each)
    for job in jobs:
        numbers.append(at)
        at += len(job)
    if at > NUMBER_MAX:
        raise ValueError(f"the rules are shown {at:,} documents, which are too many at once")
    for each in (*lists, *jobs):
        numbers += each
    return "".join([chr(FIRST_CHARACTER + number) for number in numbers])


class _ArgumentBuilder:
    def __init__(self, shelf: _Shelf) -> None:
        self.shelf = shelf
        self.lists: dict[tuple[int, ...], int] = {}
        """Numbers of lists of positions. Jobs often see the same documents."""
        self.names: dict[str, int] = {}
        self._records: dict[str, int] = {}

    def job(self, job: Job, position: int) -> list[int]:
        collections: list[int] = []
        last = 0
        for name, documents in job.collections.items():
            listed, number = self._collection(documents)
            collections += (self._name(name), listed)
            last = max(last, number)
        if not job.rule.reads_other_messages:
            return [job.message_number + 1, position, 0, 0, 0, 0, len(job.collections), *collections, 0]
        messages = job.messages()
        places = self._places(messages, last)

        def numbered(messages: Sequence[Message]) -> int:
            return self._list([places[message.id] for message in messages])

        queues = [number for name, queue in job.queues.items() for number in (self._name(name), numbered(queue))]
        others: list[int] = []
        if job.rule.other_properties:
            for message in messages:
                if message.id != job.message.id:
                    others += (places[message.id], self._record(message))
        return [
            job.message_number + 1,
            position,
            places[job.message.id],
            numbered(job.slice),
            len(job.found),
            *[numbered(found) for found in job.found],
            len(job.queues),
            *queues,
            len(job.collections),
            *collections,
            len(others) // 2,
            *others,
        ]

    def _collection(self, documents: Sequence[Document]) -> tuple[int, int]:
        """Return the number of the list, and that of its last document in document order."""
        places: list[int] = []
        number = 0
        for document in documents:
            place, number = self.shelf.place(document, number)
            places.append(place)
        return self._list(places), number

    def _places(self, messages: Sequence[Message], number: int) -> dict[str, int]:
        """Return the positions of documents, by message. In document order they come after number `number`."""
        places: dict[str, int] = {}
        for message in messages:
            places[message.id], number = self.shelf.place(message.document, number)
        return places

    def _list(self, places: list[int]) -> int:
        return self.lists.setdefault(tuple(places), len(self.lists) + 1)

    def _name(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names) + 1)

    def _record(self, message: Message) -> int:
        """Return the position of the record with the properties of a message."""
        if message.id not in self._records:
            properties = [property_element(name, value) for name, value in message.properties.items()]
            record = Document(f'<r t="{message.created.isoformat()}">{"".join(properties)}</r>')
            self._records[message.id], _ = self.shelf.place(record, 0)
        return self._records[message.id]


class _Shelf:
    """Documents for Saxon, each at a position. Those that are not nodes yet are parsed at the end, all together.

    Saxon orders documents as they were made; one that must come after another is made again if necessary.
    """

    def __init__(self, saxon: Saxon) -> None:
        self._saxon = saxon
        self._nodes: list[Any] = []
        self._known: dict[Document, tuple[int, int]] = {}
        self._to_parse: list[tuple[Document, int, int]] = []
        self._next_number = saxon.parsed + 1

    def place(self, document: Document, after: int) -> tuple[int, int]:
        """Return the position of a document, from 1, and its number in document order, greater than `after`."""
        known = self._known.get(document)
        if known is not None and known[1] > after:
            return known
        kept = document.node(self._saxon) if known is None else None
        if kept is not None and kept[1] > after:
            node, number = kept
        else:
            node, number = None, self._next_number
            self._next_number += 1
            self._to_parse.append((document, len(self._nodes), number))
        self._nodes.append(node)
        found = self._known[document] = (len(self._nodes), number)
        return found

    def nodes(self) -> list[Any]:
        parsed = self._saxon.documents([document.text for document, _, _ in self._to_parse])
        for node, (document, index, number) in zip(parsed, self._to_parse, strict=True):
            self._nodes[index] = node
            document.keep_node(self._saxon, node, number)
        return self._nodes
