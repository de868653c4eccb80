"""Messages that meet all conditions of a search that follows them, and are not in the state that it asks for yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from demaq.operations.search import MatchedMessage, MessageSelection
from demaq.store.message_scan import MessageHead, Scan, matches_scan
from demaq.store.protocol import Store

WATCHED_MAX = 2_000
"""So many messages are looked at again, the newest of them."""


class WatchedMessages:
    """Messages that meet all conditions but the state, and may come into it: they are shown once they are in it."""

    def __init__(self, selection: MessageSelection) -> None:
        self._states = selection.states
        self.selection = replace(selection, states=frozenset())
        """The same without states."""
        self._waiting: dict[int, None] = {}

    def take(self, found: Sequence[MatchedMessage]) -> list[MatchedMessage]:
        """Return those of new messages that are in the state. Others are watched, the last WATCHED_MAX of them."""
        shown = [each for each in found if self._is_in_state(each.head)]
        if self._states:
            known = {each.head.seq for each in shown}
            self._waiting |= {each.head.seq: None for each in found if each.head.seq not in known}
            for seq in list(self._waiting)[: len(self._waiting) - WATCHED_MAX]:
                del self._waiting[seq]
        return shown

    def look_again(self, store: Store) -> list[MatchedMessage]:
        """Return what has come into the state since. What is gone is not watched any more."""
        if not self._waiting:
            return []
        heads = {head.seq: head for head in store.heads(list(self._waiting))}
        ready = [seq for seq, head in heads.items() if self._is_in_state(head)]
        self._waiting = {seq: None for seq in self._waiting if seq in heads and seq not in set(ready)}
        return [MatchedMessage(head=heads[message.seq], message=message) for message in store.messages(ready)]

    def _is_in_state(self, head: MessageHead) -> bool:
        return matches_scan(head, Scan(states=self._states))
