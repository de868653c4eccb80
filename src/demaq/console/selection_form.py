"""The parameters of a page or request that say which messages are meant."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from demaq.console.store_pool import ConsoleBusy
from demaq.console.visits import TEXT_MAX, BadRequest, Visit, parse_whole_number
from demaq.errors import OperatorError
from demaq.operations.search import MessageSelection, check_names
from demaq.operations.selected_values import has_typed_values
from demaq.store.message_scan import STATE_BITS
from demaq.suggestions import describe_unknown

SEQS_MAX = 1_000
DURATIONS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
FIELDS = (
    "queue",
    "state",
    "since",
    "until",
    "slicing",
    "key",
    "property",
    "value",
    "text",
    "xpath",
    "error",
    "rule",
    "id",
)
"""Names of all parameters of a selection."""


def expect_fields(given: Mapping[str, str], others: tuple[str, ...]) -> None:
    """Raises BadRequest if a field is neither a condition nor one of `others`: what is misspelt selects too much."""
    known = (*FIELDS, *others)
    unknown = [name for name in given if name not in known]
    if unknown:
        raise BadRequest(describe_unknown("field", unknown[0], known))
    for part, whole in (("value", "property"), ("key", "slicing")):
        if given.get(part) and not given.get(whole):
            raise BadRequest(f"{part} is of a {whole}, and no {whole} is named")


def expect_names(visit: Visit, selection: MessageSelection) -> None:
    """Raises BadRequest if there is no such queue or rule. A page shows then that it finds nothing."""
    try:
        check_names(visit.store, selection, visit.application.program if visit.application is not None else None)
    except OperatorError as error:
        raise BadRequest(str(error)) from None


def read_selection(visit: Visit, given: Mapping[str, str]) -> MessageSelection:
    """Return which messages are meant, with values as the store has them. Raises BadRequest."""
    selection = _read_fields(given, visit.now)
    program = visit.application.program if visit.application is not None else None
    if program is None or not has_typed_values(selection, program):
        return selection
    try:
        converted: MessageSelection = visit.worker.run("convert_selection", visit.place, selection)
    except ConsoleBusy:
        raise
    except OperatorError as error:
        raise BadRequest(str(error)) from None
    return converted


def _read_fields(given: Mapping[str, str], now: datetime) -> MessageSelection:

    def get(name: str) -> str | None:
        value = given.get(name, "").strip()
        if len(value) > TEXT_MAX and name != "id":
            raise BadRequest(f"{name} is too long")
        if "\0" in value:
            raise BadRequest(f"{name} has a character that no text has")
        return value or None

    state = get("state")
    if state is not None and state not in STATE_BITS:
        raise BadRequest(f"state is one of {', '.join(STATE_BITS)}")
    name, slicing = get("property"), get("slicing")
    if name is not None and get("value") is None and "=" in name:
        name, _, value = name.partition("=")
    else:
        value = get("value") or ""
    ids = [parse_whole_number(word, "id") for word in (get("id") or "").replace(",", " ").split()]
    if len(ids) > SEQS_MAX:
        raise BadRequest(f"at most {SEQS_MAX:,} messages are named")
    queue, error, text = get("queue"), get("error"), get("text")
    return MessageSelection(
        seqs=tuple(sorted(set(ids))),
        queues=() if queue is None else tuple(queue.split()),
        states=frozenset() if state is None else frozenset([state]),
        since=read_time(get("since"), "since", now),
        until=read_time(get("until"), "until", now),
        slice=None if slicing is None else (slicing, given.get("key", "")),
        properties=() if name is None else ((name, value),),
        texts=() if text is None else (text,),
        xpath=get("xpath"),
        errors=() if error is None else (error,),
        rule=get("rule"),
    )


def read_time(text: str | None, name: str, now: datetime) -> datetime | None:
    """Return a time: `2026-05-01T12:00`, or `15m`, `2h`, `7d` for so long ago."""
    if text is None:
        return None
    number, unit = text[:-1], text[-1]
    try:
        if unit in DURATIONS and number.isascii() and number.isdigit() and len(number) < 7:
            return now - timedelta(seconds=int(number) * DURATIONS[unit])
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadRequest(f"{name} is a time such as 2026-05-01T12:00, or 15m, 2h or 7d for so long ago") from None
