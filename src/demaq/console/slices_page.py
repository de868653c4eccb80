"""Slices: the oldest and largest ones, all of them by key, and one with its lifetimes on a time line."""

from __future__ import annotations

from datetime import datetime

from demaq.console.evaluation_results import CanonicalKey
from demaq.console.timeline import draw_timeline
from demaq.console.visits import Answer, Data, NotThere, Rendered, Visit
from demaq.errors import MessageError
from demaq.evaluation.state.slice_keys import has_text_keys
from demaq.operations.slice_history import SliceHistory, read_slice_history
from demaq.records import record

ROWS_MAX = 100_000
"""Of how many memberships the largest and oldest slices are found."""
NOTABLE = 8


@record
class NotableSlice:
    key: str
    messages: int
    first: int
    since: datetime | None


def show_slices(visit: Visit) -> Answer:
    program = visit.application.program if visit.application is not None else None
    known = list(program.slicings) if program is not None else visit.store.slicings()
    slicing = visit.text("slicing") or (known[0] if known else None)
    if slicing is not None and slicing not in known:
        raise NotThere(f"there is no slicing {slicing}")
    after, limit, text = visit.query.get("after"), visit.limit(), visit.text("filter")
    keys: list[tuple[str, int]] = []
    if slicing is not None:
        begin = after if after is not None else text
        keys = visit.store.slice_keys(slicing, begin, limit + 1)
        if after is None and text is not None:
            exact = visit.store.members(slicing, text, 0, 1)
            own = [(text, len(visit.store.members(slicing, text, 0, limit)))] if exact else []
            keys = [*own, *[item for item in keys if item[0].startswith(text)]]
        elif text is not None:
            keys = [item for item in keys if item[0].startswith(text)]
    more = visit.address(after=keys[limit - 1][0]) if len(keys) > limit else None
    return Rendered(
        template="slices.html",
        values={
            "slicings": known,
            "slicing": slicing,
            "property": program.slicings[slicing].property if program is not None and slicing is not None else None,
            "keys": keys[:limit],
            "text": text or "",
            "more": more,
        },
    )


def show_notable(visit: Visit) -> Answer:
    """Return the largest and oldest slices, as a part of the page or as a page of its own: that may take a while."""
    slicing = visit.text("slicing")
    if slicing is None:
        raise NotThere("no slicing is named")
    return Rendered(
        template="notable_part.html" if visit.flag("part") else "notable.html",
        values={
            "slicing": slicing,
            "slicings": list(visit.application.program.slicings) if visit.application is not None else [slicing],
            "largest": find_notable(visit, slicing, "size"),
            "oldest": find_notable(visit, slicing, "age"),
            "of": ROWS_MAX if sum([messages for messages, _ in visit.store.counts().values()]) > ROWS_MAX else None,
        },
    )


def find_notable(visit: Visit, slicing: str, by: str) -> list[NotableSlice]:
    order = "size" if by == "size" else "age"
    found = visit.store.notable_slices(slicing, "size" if order == "size" else "age", ROWS_MAX, NOTABLE)
    heads = {head.seq: head for head in visit.store.heads([first for _, _, first in found])}
    return [
        NotableSlice(key=key, messages=count, first=first, since=heads[first].created if first in heads else None)
        for key, count, first in found
    ]


def show_slice(visit: Visit) -> Answer:
    history, text = find_history(visit), (visit.text("filter") or "").lower()
    return Rendered(
        template="slice.html",
        values={
            "history": history,
            "timeline": draw_timeline(history, visit.now),
            "text": visit.text("filter") or "",
            "timers": [each for each in history.timers if text in each.queue.lower()],
            "lifetimes": [
                (lifetime, [each for each in lifetime.members if text in f"{each.queue} {each.rule or ''}".lower()])
                for lifetime in reversed(history.lifetimes)
            ],
        },
    )


def find_history(visit: Visit) -> SliceHistory:
    slicing, key = visit.parts["slicing"], visit.query.get("key", "")
    if "\0" in slicing or "\0" in key:
        raise NotThere("no key has such a character")
    program = visit.application.program if visit.application is not None else None
    if program is not None and slicing not in program.slicings:
        raise NotThere(f"there is no slicing {slicing}")
    history = read_slice_history(visit.store, slicing, key)
    is_unknown = len(history.lifetimes) == 1 and not history.lifetimes[0].members
    if is_unknown and program is not None and not has_text_keys(program, slicing):
        history = read_slice_history(visit.store, slicing, _find_key(visit, slicing, key))
    return history


def _find_key(visit: Visit, slicing: str, text: str) -> str:
    """Return the key as the store has it. Raises a MessageError if the text is no key of the slicing."""
    found: CanonicalKey = visit.worker.run("find_slice_key", visit.place, slicing, text)
    if found.refused is not None:
        raise MessageError("propertyError", found.refused)
    return found.key


def read_slices(visit: Visit) -> Answer:
    slicing = visit.text("slicing")
    if slicing is None:
        return Data(visit.store.slicings())
    if visit.application is not None and slicing not in visit.application.program.slicings:
        raise NotThere(f"there is no slicing {slicing}")
    keys = visit.store.slice_keys(slicing, visit.query.get("after"), visit.limit())
    return Data(
        {
            "slices": [{"key": key, "messages": count} for key, count in keys],
            "largest": find_notable(visit, slicing, "size"),
            "oldest": find_notable(visit, slicing, "age"),
        }
    )


def read_slice(visit: Visit) -> Answer:
    return Data(find_history(visit))
