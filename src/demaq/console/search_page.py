"""Search, and the list of messages, which is a search in one queue."""

from __future__ import annotations

from typing import Any

from demaq.console.selection_form import expect_fields, expect_names, read_selection
from demaq.console.store_pool import ConsoleBusy
from demaq.console.visits import Answer, BadRequest, Data, Rendered, Visit
from demaq.control.message_json import encode_for_listing
from demaq.errors import OperatorError
from demaq.operations.search import MatchedMessage, MessageSelection, SearchPage, check_selection, search
from demaq.store.message_scan import STATE_BITS

ROWS_MAX = 200_000
TEXTS_MAX = 10_000
TEXTS_BY_EXPRESSION_MAX = 2_000
"""How many texts are read for a page, and if an expression is evaluated on them."""
WORDS = ("queue", "state", "rule", "error", "since", "until", "property", "slicing", "key")
"""Names that a word in the search box may begin with."""
STATES = {
    "waits": "waits to be processed or sent",
    "new": "waits to be taken",
    "timer": "comes back later",
    "done": "processed, still in a slice",
    "kept": "done with, kept for a while",
    "unmatched": "processed, and no rule fired",
}


def run_search(visit: Visit, selection: MessageSelection, limit: int) -> SearchPage:
    """Return a page of what is found, newest first unless `order` says otherwise."""
    program = visit.application.program if visit.application is not None else None
    try:
        check_selection(selection, program)
    except OperatorError as error:
        raise BadRequest(str(error).replace("--", "")) from None
    start, backwards = visit.number("start"), visit.choice("order", ("newest", "oldest")) != "oldest"
    if selection.xpath is not None:
        bounds = ROWS_MAX, TEXTS_BY_EXPRESSION_MAX
        given = visit.place, selection, start, limit, backwards, bounds
        try:
            found: SearchPage = visit.worker.run("search_by_expression", *given)
        except ConsoleBusy:
            raise
        except OperatorError as error:
            raise BadRequest(str(error)) from None
        return found
    return search(
        visit.store,
        selection,
        start=start,
        limit=limit,
        backwards=backwards,
        rows_max=ROWS_MAX,
        texts_max=TEXTS_MAX,
    )


def show_messages(visit: Visit) -> Answer:
    return _show(visit, "messages.html")


def show_search(visit: Visit) -> Answer:
    return _show(visit, "search.html")


def _show(visit: Visit, template: str) -> Answer:
    words = visit.text("q")
    given = {**visit.query, **_read_words(words)} if words is not None else visit.query
    selection = read_selection(visit, given)
    has_asked = template == "messages.html" or not selection.is_empty
    page = run_search(visit, selection, visit.limit()) if has_asked else None
    program = visit.application.program if visit.application is not None else None
    return Rendered(
        template=template,
        values={
            "page": page,
            "has_asked": has_asked,
            "query": {name: value for name, value in given.items() if name != "q"},
            "words": words or "",
            "states": STATES,
            "queues": sorted(program.queues) if program is not None else [],
            "slicings": sorted(program.slicings) if program is not None else [],
            "rules": sorted([rule.name for rule in program.rules]) if program is not None else [],
            "queue": selection.queues[0] if len(selection.queues) == 1 else None,
            "paused": _find_pause(visit, selection),
            "next": None
            if page is None or page.next_start is None
            else visit.address(start=page.next_start, q=None, **_read_words(words)),
            "first": visit.address(start=None) if visit.number("start") is not None else None,
        },
    )


def _find_pause(visit: Visit, selection: MessageSelection) -> object | None:
    if len(selection.queues) != 1:
        return None
    wanted = (("queue", selection.queues[0]), ("gateway", selection.queues[0]))
    return next(iter([pause for pause in visit.store.pauses() if (pause.kind, pause.name) in wanted]), None)


def _read_words(words: str | None) -> dict[str, str]:
    """Return what the search box says as parameters: `queue:orders state:waits 17 text`."""
    found: dict[str, str] = {}
    texts: list[str] = []
    for word in (words or "").split():
        name, colon, value = word.partition(":")
        if (
            colon
            and value
            and name in ("queue", "state", "rule", "error", "since", "until", "property", "slicing", "key")
        ):
            found[name] = value
        else:
            texts.append(word)
    if len(texts) == 1 and texts[0].isascii() and texts[0].isdigit() and not found:
        return {"id": texts[0]}
    if texts:
        found["text"] = " ".join(texts)
    return found


def read_search(visit: Visit) -> Answer:
    expect_fields(visit.query, ("limit", "order", "start"))
    selection = read_selection(visit, visit.query)
    expect_names(visit, selection)
    page = run_search(visit, selection, visit.limit())
    return Data(
        {
            "messages": [_match_json(each) for each in page.found],
            "scanned": page.scanned,
            "texts": page.texts,
            "next": page.next_start,
        }
    )


def _match_json(each: MatchedMessage) -> dict[str, Any]:
    return {**encode_for_listing(each.message), "state": each.state, "unmatched": each.head.unmatched}


assert set(STATES) == set(STATE_BITS), "each state has its words"
