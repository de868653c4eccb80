"""Verdicts as text for people: a line for each rule, and below it the reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap

from demaq.operations.why.shown_values import count_of, cut
from demaq.operations.why.verdicts import (
    Cause,
    HeldState,
    MadeMessage,
    MadeReset,
    MessageState,
    MessageVerdict,
    RuleResult,
    RuleVerdict,
)

INDENT = "  "
WIDTH = 100
CAUSES_SHORT = 3
"""In the short form so many causes of a rule are named, and so many parts of a cause."""

_PAST: dict[RuleResult, str] = {
    "fired": "fired",
    "not-fired": "did not fire",
    "not-asked": "was not asked",
    "failed": "failed",
    "else": "did not fire, and its else acted",
}
_PRESENT: dict[RuleResult, str] = {
    "fired": "fires",
    "not-fired": "does not fire",
    "not-asked": "is not asked",
    "failed": "fails",
    "else": "does not fire, and its else acts",
}


def write_message(verdict: MessageVerdict, width: int = WIDTH) -> list[str]:
    """Return what became of a message, without its rules."""
    if verdict.state == "gone":
        return [f"message {verdict.number} is not stored", *_wrap_all(verdict.notes, INDENT, width)]
    head = f"message {verdict.number} of queue {verdict.queue}"
    if verdict.state == "waits":
        head += " waits" + ("; its rules are evaluated on what is there now" if verdict.rules else "")
    elif verdict.state == "processed":
        head += f", processed by step {verdict.step}"
    lines = [head]
    lines += [f"{INDENT}{name} = {cut(value)}" for name, value in verdict.properties.items() if _is_own(name)]
    if verdict.body:
        lines.append(INDENT + cut(" ".join(verdict.body.split()), width - len(INDENT)))
    return [*lines, *_wrap_all(verdict.notes, INDENT, width)]


def write_headline(verdict: RuleVerdict, state: MessageState) -> str:
    """Return what became of a rule, in one line."""
    words = (_PAST if state == "processed" else _PRESENT)[verdict.result]
    if not verdict.is_certain:
        words = f"{_PRESENT[verdict.result]}, evaluated on what is left"
    where = f' on slice {verdict.slicing} "{cut(verdict.key)}"' if verdict.key is not None else ""
    return f"rule {verdict.rule} {words}{where}"


def write_details(verdict: RuleVerdict, state: MessageState, width: int = WIDTH) -> list[str]:
    """Return why that became of a rule."""
    lines: list[str] = []
    if verdict.failure is not None:
        at = f"{verdict.failure.at}: " if verdict.failure.at is not None else ""
        lines += _wrap(f"{at}{verdict.failure.code}: {verdict.failure.description}", INDENT, width)
    for item in verdict.made:
        lines += _write_made(item, state == "processed", width)
    if verdict.result == "fired" and not verdict.made:
        lines.append(f"{INDENT}it {'made' if state == 'processed' else 'makes'} nothing")
    if verdict.reason is not None:
        lines += _wrap(verdict.reason, INDENT, width)
    lines += [line for hint in verdict.hints for line in _wrap(f"hint: {hint}", INDENT, width)]
    for cause in verdict.causes:
        lines += write_cause(cause, INDENT, width)
    for held in verdict.held:
        lines += _write_held(held, width)
    lines += [line for part in verdict.gone for line in _wrap(f"gone: {part}", INDENT, width)]
    return lines


def write_short(verdict: RuleVerdict, state: MessageState, width: int = WIDTH) -> list[str]:
    """Return in few lines why a rule did not fire: what was false, without what there was beside it."""
    head = f"{write_headline(verdict, state)} ({verdict.at.file}:{verdict.at.line})"
    if verdict.reason is not None:
        lines = _wrap(f"{head}: {verdict.reason}", "", width)
        return [*lines, *[line for hint in verdict.hints for line in _wrap(f"hint: {hint}", INDENT, width)]]
    lines = [head]
    for cause in verdict.causes[:CAUSES_SHORT]:
        lines += write_cause(cause, INDENT, width, is_short=True)
    return lines


def write_cause(cause: Cause, indent: str, width: int, is_short: bool = False) -> list[str]:
    """Return an expression and what it came to, then what in it is the reason."""
    given = f"{cause.given}: " if cause.given is not None else ""
    lines = _wrap(f"{given}{cause.expression} {cause.words}", indent, width)
    inner = indent + INDENT
    lines += [line for hint in cause.hints for line in _wrap(f"hint: {hint}", inner, width)]
    for part in _shorten(cause.parts) if is_short else cause.parts:
        lines += write_cause(part, inner, width, is_short)
    return lines


def _shorten(parts: Sequence[Cause]) -> Sequence[Cause]:
    """Return what is shown in the short form: all that is said about one item, but of several items only the first."""
    return [part for part in parts if part.given == parts[0].given][:CAUSES_SHORT]


def _write_made(item: MadeMessage | MadeReset, is_past: bool, width: int) -> list[str]:
    if isinstance(item, MadeReset):
        return [f'{INDENT}{"reset" if is_past else "resets"} slice {item.slicing} "{cut(item.key)}"']
    number = f"message {item.number}" if item.number is not None else "a message"
    body = cut(" ".join(item.body.split()), width - 2 * len(INDENT))
    return [f"{INDENT}{'enqueued' if is_past else 'enqueues'} {number} into {item.queue}", f"{INDENT * 2}{body}"]


def _write_held(held: HeldState, width: int) -> list[str]:
    word = "document" if held.what.startswith("collection") else "message"
    lines = [f"{INDENT}{held.what} holds {count_of(held.count, word)}"]
    numbers = max([len(str(message.number)) for message in held.messages], default=0)
    queues = max([len(message.queue) for message in held.messages], default=0)
    for message in held.messages:
        head = f"{INDENT * 2}{message.number:>{numbers}} {message.queue:<{queues}} "
        lines.append(head + cut(" ".join(message.body.split()), max(width - len(head), 20)))
    if held.messages and held.count > len(held.messages):
        lines.append(f"{INDENT * 2}… and {held.count - len(held.messages):,} more")
    return lines


def _is_own(name: str) -> bool:
    return not name.startswith("demaq:")


def _wrap_all(texts: Iterable[str], indent: str, width: int) -> list[str]:
    return [line for text in texts for line in _wrap(text, indent, width)]


def _wrap(text: str, indent: str, width: int) -> list[str]:
    further = indent + INDENT * 2
    return wrap(
        text, width, initial_indent=indent, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    )
