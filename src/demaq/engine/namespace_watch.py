"""Report rules that ignore a message only because of its namespace: once for each rule and namespace.

Only messages for which no rule fired are examined, of each queue the first ones and then ever fewer: a permanent
mistake is found at once, and under load it costs nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from lxml import etree

from demaq.compiler.plan import Plan
from demaq.documents import Document, parse_document
from demaq.errors import MessageError
from demaq.language.analysis.message_names import MessageName, find_message_names
from demaq.language.analysis.missed_names import MissedName, Vocabulary, find_missed_names, read_vocabulary
from demaq.language.program.program import Program, Rule

LOOKS_FIRST = 16
"""So many messages of a queue are examined; after them one each time their number has doubled."""
CHARACTERS_MAX = 1_000_000
"""Larger messages are not examined."""
REPORTS_MAX = 100
"""So many reports are made since the start."""

_log = logging.getLogger("demaq.node")


class NamespaceWatch:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.ignored: dict[str, int] = {}
        """How many messages of each queue no rule has reacted to since the node started."""
        self.reports: dict[tuple[str, str], str] = {}
        """What was found, by rule and namespace."""

    def note_ignored(self, queue: str, seq: int, body: str | bytes) -> None:
        """No rule has reacted to a message."""
        count = self.count_ignored(queue)
        if (count <= LOOKS_FIRST or not count & (count - 1)) and len(body) <= CHARACTERS_MAX:
            self._look_at(queue, seq, body)

    def count_ignored(self, queue: str) -> int:
        """Count a message that no rule has reacted to. Return how many there were."""
        count = self.ignored[queue] = self.ignored.get(queue, 0) + 1
        return count

    def _look_at(self, queue: str, seq: int, body: str | bytes) -> None:
        if len(self.reports) >= REPORTS_MAX:
            return
        try:
            document = Document(body) if isinstance(body, str) else parse_document(body)
            vocabulary = read_vocabulary(document.tree.getroot())
        except (etree.XMLSyntaxError, ValueError, MessageError):
            return  # nested more deeply than a message from outside may be
        rules = [plan.rule for plan in self._plan.queues[queue].rules]
        for rule, missed in missed_by_rules(self._plan.program, rules, vocabulary):
            key = rule.name, missed.namespace
            if key not in self.reports:
                self.reports[key] = (
                    f"rule {rule.name} ({missed.asked.at}) does not fire for message {seq} of queue "
                    f"{queue}: {missed.words} the message; {missed.hint}"
                )
                _log.warning("%s", self.reports[key])


def missed_by_rules(program: Program, rules: Iterable[Rule], vocabulary: Vocabulary) -> list[tuple[Rule, MissedName]]:
    """Return the names in the conditions of rules that miss an element of a message for its namespace alone."""
    found: list[tuple[Rule, MissedName]] = []
    for rule in rules:
        names = program.modules[rule.module].names
        asked: list[MessageName] = find_message_names(rule.body.condition, names)
        found += [(rule, missed) for missed in find_missed_names(asked, vocabulary, names.prefixes)]
    return found


def missed_by_properties(
    program: Program, queue: str, absent: Iterable[str], vocabulary: Vocabulary
) -> list[tuple[str, MissedName]]:
    """Return the same for the values of properties that a message of a queue does not have."""
    found: list[tuple[str, MissedName]] = []
    for name in absent:
        prop = program.properties[name]
        value = prop.values.get(queue)
        if value is None or prop.module is None:
            continue
        names = program.modules[prop.module].names
        found += [
            (name, missed) for missed in find_missed_names(find_message_names(value, names), vocabulary, names.prefixes)
        ]
    return found
