"""Errors by rule and code with their trend, and one error beside its original: edit, try, run again."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from demaq.console.evaluation_results import TriedMessage
from demaq.console.message_page import find_message
from demaq.console.selection_form import FIELDS, expect_fields, expect_names, read_selection
from demaq.console.visits import Answer, BadRequest, Data, NotThere, Redirect, Rendered, Visit, link_to
from demaq.console.xml_highlighting import highlight
from demaq.engine.error_routing import read_error
from demaq.errors import OperatorError
from demaq.operations.audit import expect_words
from demaq.operations.error_groups import ErrorOverview, group_errors, list_errors, read_item
from demaq.system_properties import ERROR_LEVEL

BAR_WIDTH, BAR_HEIGHT = 5, 24
KNOWN_MAX = 10_000
"""Of so many errors it is remembered what they say."""


def show_errors(visit: Visit) -> Answer:
    queue = visit.text("queue")
    overview = find_overview(visit, queue)
    rule, code, text = visit.text("rule"), visit.text("code"), visit.text("filter")
    groups = [
        group
        for group in overview.groups
        if (rule is None or group.rule == rule)
        and (code is None or group.code == code)
        and (text is None or text.lower() in f"{group.rule} {group.code} {group.about_queue} {group.kind}".lower())
    ]
    items = []
    if rule is not None or code is not None or text is not None or len(groups) == 1:
        wanted = {(group.rule, group.about_queue, group.code) for group in groups}
        found, _ = list_errors(visit.store, _queues(visit, queue), known=visit.known_errors)
        items = [item for item in found if (item.rule, item.about_queue, item.code) in wanted]
    limit = visit.limit()
    return Rendered(
        template="errors.html",
        values={
            "overview": overview,
            "groups": [(group, draw_trend(group.trend)) for group in groups],
            "items": items[:limit],
            "more": visit.address(limit=2 * limit) if len(items) > limit else None,
            "queues": _queues(visit, None),
            "queue": queue,
            "rule": rule,
            "code": code,
            "text": text or "",
        },
    )


def find_overview(visit: Visit, queue: str | None) -> ErrorOverview:
    while len(visit.known_errors) > KNOWN_MAX:
        visit.known_errors.pop(next(iter(visit.known_errors)), None)
    return group_errors(visit.store, _queues(visit, queue), visit.now, known=visit.known_errors)


def _queues(visit: Visit, queue: str | None) -> list[str]:
    if queue is not None:
        return [queue]
    return visit.application.error_queues if visit.application is not None else ["demaq:errors"]


def draw_trend(counts: Sequence[int]) -> Markup:
    """Return bars, one for each part of the time."""
    most = max([*counts, 1])
    bars = [
        Markup('<rect x="{}" y="{}" width="{}" height="{}"/>').format(
            number * BAR_WIDTH, f"{BAR_HEIGHT - height:.1f}", BAR_WIDTH - 1, f"{height:.1f}"
        )
        for number, count in enumerate(counts)
        if (height := max(count / most * BAR_HEIGHT, 1.5 if count else 0.0))
    ]
    width = BAR_WIDTH * len(counts)
    return Markup(
        '<svg class="trend" viewBox="0 0 {0} {1}" width="{0}" height="{1}" aria-hidden="true">{2}</svg>'
    ).format(width, BAR_HEIGHT, Markup("").join(bars))


def show_error(visit: Visit) -> Answer:
    return _show_error(visit, None, None)


def try_error(visit: Visit) -> Answer:
    """Return the page with what would become of an edited text. Nothing is stored."""
    message = find_message(visit)
    text = read_text(visit)
    tried = visit.worker.run("try_text", visit.place, message.seq, text)
    return _show_error(visit, tried, text)


def _show_error(visit: Visit, tried: TriedMessage | None, text: str | None) -> Rendered:
    message = find_message(visit)
    report = read_error(message.body) if ERROR_LEVEL in message.properties else None
    item = read_item(message)
    if report is None or item is None:
        raise NotThere(f"message {message.seq} is no error message")
    stored = visit.store.message(report.message) if report.message is not None else None
    original = stored.body if stored is not None else report.initial
    return Rendered(
        template="error.html",
        values={
            "message": message,
            "item": item,
            "error_body": highlight(message.body),
            "original": original,
            "original_shown": None if original is None else highlight(original),
            "is_stored": stored is not None,
            "text": text if text is not None else original,
            "tried": tried,
        },
    )


def run_error_again(visit: Visit) -> Answer:
    """Requeue the message that an error is about, perhaps with another text."""
    message = find_message(visit)
    report = read_error(message.body) if ERROR_LEVEL in message.properties else None
    if report is None:
        raise NotThere(f"message {message.seq} is no error message")
    body = None
    if "text" in visit.form:
        stored = visit.store.message(report.message) if report.message is not None else None
        original = stored.body if stored is not None else report.initial
        text = read_text(visit)
        body = text if text != (original or "").replace("\r\n", "\n") else None
    selection = read_selection(visit, {"id": str(message.seq)})
    who, why = visit.user.name, read_reason(visit)
    all_rules, again = visit.is_ticked("all_rules"), visit.is_ticked("again")
    done = visit.worker.run("requeue", visit.place, selection, who, why, body, all_rules, again)
    first = done.requeued[0] if done.requeued else None
    if first is None or first.message is None:
        raise BadRequest(f"it was not requeued: {first.reason if first is not None else 'nothing was found'}")
    if not first.is_new:
        raise BadRequest(f"{first.reason}, as message {first.message}; tick “again” to do so once more")
    return Redirect(link_to("messages", first.message, done="requeued"))


def plan_bulk(visit: Visit) -> Answer:
    """Return what would be requeued of a group: the dry run before the action."""
    selection = read_selection(visit, _wanted(visit))
    plan = visit.worker.run("plan_requeue", visit.place, selection)
    return Rendered(template="requeue.html", values={"plan": plan, "query": _wanted(visit), "report": None})


def run_bulk(visit: Visit) -> Answer:
    selection = read_selection(visit, _wanted(visit))
    who, why = visit.user.name, read_reason(visit)
    report = visit.worker.run("requeue", visit.place, selection, who, why)
    return Rendered(template="requeue.html", values={"plan": None, "query": _wanted(visit), "report": report})


def _wanted(visit: Visit) -> dict[str, str]:
    given = visit.form if visit.form else visit.query
    wanted = {name: given[name] for name in FIELDS if given.get(name)}
    if "error" not in wanted and "id" not in wanted:
        wanted["error"] = "*"
    return wanted


def read_text(visit: Visit) -> str:
    """Return the text of a form as it was typed. Browsers send lines that end with carriage return and line feed."""
    text = visit.form.get("text", "").replace("\r\n", "\n")
    if not text.strip():
        raise BadRequest("the text is empty")
    return text


def read_reason(visit: Visit, is_needed: bool = True) -> str:
    why = visit.form.get("why", "").strip()
    if not why and is_needed:
        raise BadRequest("say why: it is kept in the audit trail")
    try:
        expect_words(why)
    except OperatorError as error:
        raise BadRequest(str(error)) from None
    return why


def read_errors(visit: Visit) -> Answer:
    overview = find_overview(visit, visit.text("queue"))
    return Data(overview)


def requeue_by_api(visit: Visit) -> Answer:
    expect_fields(visit.form, ("why", "dry_run", "body", "all_rules", "again", "csrf"))
    selection = read_selection(visit, visit.form)
    if selection.is_empty:
        raise BadRequest("say which errors: their ids, or a condition such as error: *")
    expect_names(visit, selection)
    if visit.is_ticked("dry_run"):
        return Data(visit.worker.run("plan_requeue", visit.place, selection))
    body = visit.form.get("body")
    flags = visit.is_ticked("all_rules"), visit.is_ticked("again")
    return Data(visit.worker.run("requeue", visit.place, selection, visit.user.name, read_reason(visit), body, *flags))
