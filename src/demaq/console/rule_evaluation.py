"""What pages ask of the process that evaluates rules (`WorkerProcess`). All of it runs in its main thread.

Only this module of the console may use Saxon, or make an engine.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime

from demaq.bulk.message_search import FoundMessage
from demaq.bulk.replay import Copier
from demaq.console.evaluation_results import CanonicalKey, RequeuePlan, TriedAction, TriedMessage
from demaq.console.store_pool import STATEMENT_SECONDS_MAX
from demaq.documents import parse_document
from demaq.engine.message_factory import MessageFactory
from demaq.errors import MessageError, OperatorError
from demaq.evaluation.outcomes import Enqueued
from demaq.evaluation.saxon.compiled import CompiledProgram, compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.slice_keys import SliceKeys
from demaq.evaluation.state.snapshot_reader import Documents, SnapshotReader, make_message
from demaq.language.loader import load_program_texts
from demaq.operations.requeue import Requeuer, RequeueReport
from demaq.operations.search import MessageSelection, SearchPage, search
from demaq.operations.selected_values import convert_values
from demaq.operations.why.verdicts import MessageVerdict
from demaq.operations.why.why_message import why_message
from demaq.operations.xpath_filter import open_filter
from demaq.server.offline_node import open_writable
from demaq.store.location import StoreLocation
from demaq.store.opening import open_store_readonly, program_on
from demaq.store.protocol import as_stored
from demaq.store.sql_store import SqlStore

_compiled: dict[str, CompiledProgram] = {}
"""The application that was compiled last, by its digest."""


def prepare(place: StoreLocation) -> None:
    """Compile the application, so that what follows is quick."""
    with _open(place):
        pass


def explain_message(place: StoreLocation, number: int, rule: str | None) -> MessageVerdict:
    """Return why rules fired on a message, or did not."""
    with _open(place) as (store, evaluator, _):
        return why_message(store, evaluator, number, datetime.now(UTC), rule)


def search_by_expression(
    place: StoreLocation,
    selection: MessageSelection,
    start: int | None,
    limit: int,
    backwards: bool,
    bounds: tuple[int, int],
) -> SearchPage:
    """Return a page of messages for which an expression holds."""
    assert selection.xpath is not None, "others are searched for without this process"
    with closing(open_store_readonly(place.where)) as store:
        store.limit_statements(STATEMENT_SECONDS_MAX)
        with open_filter(selection.xpath, selection.namespaces, place.where) as matches:
            return search(
                store,
                selection,
                start=start,
                limit=limit,
                backwards=backwards,
                matches=matches,
                rows_max=bounds[0],
                texts_max=bounds[1],
            )


def convert_selection(place: StoreLocation, selection: MessageSelection) -> MessageSelection:
    """Return a selection with values as the store has them, in whatever form someone has written them."""
    with _open(place) as (_, evaluator, _):
        compiled = evaluator.compiled
        program = compiled.plan.program
        return convert_values(selection, program, SliceKeys(program, compiled.saxon))


def find_slice_key(place: StoreLocation, slicing: str, text: str) -> CanonicalKey:
    """Return the key of a slice, of whatever form of it someone has written."""
    with _open(place) as (_, evaluator, _):
        compiled = evaluator.compiled
        try:
            return CanonicalKey(key=SliceKeys(compiled.plan.program, compiled.saxon).key(slicing, text))
        except MessageError as error:
            return CanonicalKey(key=text, refused=error.message)


def try_text(place: StoreLocation, number: int, text: str) -> TriedMessage:
    """Return what rules would do with another text of a message, on the state of now. Nothing is stored."""
    with _open(place) as (store, evaluator, _):
        requeuer = _make_requeuer(store, evaluator, place)
        found, impossible = requeuer.find(MessageSelection(seqs=(number,)))
        if not found:
            raise OperatorError(next(iter(impossible), f"message {number} is no error message"))
        queue = found[0].queue
        try:
            parse_document(text.encode())
        except MessageError as error:
            return TriedMessage(queue=queue, refused=error.message)
        now = datetime.now(UTC)
        factory = MessageFactory(evaluator.compiled.plan, evaluator)
        made = Copier(factory, evaluator, store).make_copies(found[:1], "try", now, text)[0]
        if isinstance(made, MessageError):
            return TriedMessage(queue=queue, refused=f"{made.kind}: {made.message}")
        snapshot = store.snapshot()
        stored = as_stored(made, snapshot + 1)
        message = make_message(stored, parse_document(made.body))
        outcome = evaluator.evaluate([message], SnapshotReader(store, snapshot, Documents()), now)[0]
    return TriedMessage(
        queue=queue,
        refused=None,
        fired=tuple(outcome.fired),
        actions=tuple(
            [
                TriedAction(rule=action.rule, queue=action.queue, text=action.document.text)
                if isinstance(action, Enqueued)
                else TriedAction(rule=action.rule, queue=None, text=f'reset {action.slicing}, key "{action.key}"')
                for action in outcome.actions
            ]
        ),
        errors=tuple([f"rule {error.rule}: {error.code}: {error.description}" for error in outcome.errors]),
    )


def plan_requeue(place: StoreLocation, selection: MessageSelection) -> RequeuePlan:
    """Return what would be requeued."""
    with _open(place) as (store, evaluator, _):
        found, impossible = _find_errors(_make_requeuer(store, evaluator, place), selection, place)
        return RequeuePlan(
            messages=len(found),
            examples=tuple([(item.seq, item.first, item.queue) for item in found[:10]]),
            impossible=tuple(sorted(impossible.items())),
        )


def requeue(
    place: StoreLocation,
    selection: MessageSelection,
    who: str,
    why: str,
    body: str | None = None,
    all_rules: bool = False,
    again: bool = False,
) -> RequeueReport:
    """Requeue what errors are about, by the node that runs, or offline."""
    with _open(place) as (store, evaluator, _):
        requeuer = _make_requeuer(store, evaluator, place)
        found, impossible = _find_errors(requeuer, selection, place)
        if not found:
            said = "; ".join(sorted(impossible)) or "there is no such error, or it has been removed"
            raise OperatorError(f"nothing can be requeued: {said}")
        with closing(open_writable(place)) as node:
            return requeuer.requeue(
                node,
                selection,
                found,
                impossible,
                who=who,
                why=why,
                body=None if body is None else body.encode(),
                all_rules=all_rules,
                again=again,
                now=datetime.now(UTC),
            )


def _find_errors(
    requeuer: Requeuer, selection: MessageSelection, place: StoreLocation
) -> tuple[list[FoundMessage], dict[str, int]]:
    """Return what can be requeued, and how many errors cannot be, by the reason."""
    if selection.xpath is None:
        return requeuer.find(selection)
    with open_filter(selection.xpath, selection.namespaces, place.where) as matches:
        return requeuer.find(selection, matches)


def _make_requeuer(store: SqlStore, evaluator: SaxonEvaluator, place: StoreLocation) -> Requeuer:
    _, digest, _ = program_on(store, place)
    return Requeuer(store, evaluator.compiled.plan, digest, evaluator)


@contextmanager
def _open(place: StoreLocation) -> Iterator[tuple[SqlStore, SaxonEvaluator, str]]:
    with closing(open_store_readonly(place.where)) as store:
        store.limit_statements(STATEMENT_SECONDS_MAX)
        _, digest, files = program_on(store, place)
        if digest not in _compiled:
            _compiled.clear()
            gc.unfreeze()
            gc.collect()
            _compiled[digest] = compile_program(load_program_texts(files))
            gc.collect()
            gc.freeze()  # garbage is collected after every answer
        yield store, SaxonEvaluator(_compiled[digest]), digest
