"""An application in a test: messages go in, the test moves the clock, and all state can be read.

with Lab("orders.dmq") as lab:
    lab.enqueue("orders", "<order id='1'/>")
    lab.run_until_idle()
    assert [message.body for message in lab.read_created("customer")] == ["<confirmation order='1'/>"]
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from types import TracebackType
from typing import Literal

from demaq.engine.collection_documents import collection_texts
from demaq.engine.engine import HOPS_MAX, Engine
from demaq.engine.intake import expect_queue
from demaq.engine.migration.migrate_store import migrate_store
from demaq.errors import DemaqError, MessageError, StillBusy, SystemFault
from demaq.evaluation.local_evaluator import LocalEvaluator
from demaq.evaluation.native.native_settings import EvaluatorName, native_settings
from demaq.evaluation.round_request import RoundEvaluator
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.slice_keys import SliceKeys
from demaq.evaluation.state.snapshot_reader import system_properties
from demaq.evaluation.workers.child import Start
from demaq.evaluation.workers.process import RULE_TIMEOUT_SECONDS
from demaq.language.loader import load_program, load_program_texts
from demaq.language.program.program import Program
from demaq.operations.why.idle_rules import explain_idle_rules
from demaq.operations.why.verdicts import MessageVerdict
from demaq.operations.why.why_message import why_message
from demaq.store.protocol import Committed, Step, Store, StoredMessage
from demaq.store.sqlite import SqliteStore
from demaq.store.sqlite_database import FILE_NAME
from demaq.suggestions import describe_unknown

START = datetime(2026, 1, 1, tzinfo=UTC)
"""What the laboratory's clock says in the beginning."""
TEXT_NAME = "<application>"
"""What a program that is no file is called where a place in it is named."""
END_OF_TIME = datetime.max.replace(tzinfo=UTC)
GARBAGE_STEP = 1000
"""How many messages are removed in one transaction."""
PIPELINES = ("serial", "inline", "spark")
ROUNDS_MAX = 1_000_000
"""After so many rounds an application that is still not idle never will be."""


@dataclass(frozen=True, slots=True)
class LabMessage:
    """A message as a test looks at it. Properties are the strings of their values."""

    id: str
    queue: str
    body: str
    properties: Mapping[str, str]
    rule: str | None
    trigger: str | None
    processed: bool


class Lab:
    """An application for tests. Messages are processed by `run_until_idle` and `step`, time passes by `advance`."""

    def __init__(
        self,
        application: Program | str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        store: str | os.PathLike[str] | Store | None = None,
        collections: Mapping[str, Sequence[str | bytes]] | None = None,
        pipeline: Literal["serial", "inline", "spark"] = "serial",
        hops_max: int = HOPS_MAX,
        discard: Sequence[str] = (),
        evaluator: EvaluatorName = "auto",
    ) -> None:
        """`application` is a file, a folder, several of them, a program or its text; `store` a folder or a store.

        A store that another application ran on is brought under this one; `discard` names queues whose messages may be
        given up with it. Raises QueueNotEmpty if others would be.

        With the pipeline `serial` messages are processed one at a time, in the order that the language defines. With
        `inline` and `spark` they are processed in rounds, as by a node, with the same result.

        With the evaluator `saxon` no rule is evaluated natively.
        """
        if pipeline not in PIPELINES:
            known = ", ".join([repr(name) for name in PIPELINES])
            raise ValueError(f"pipeline {pipeline!r} is not known here; there are {known}")
        self._native = native_settings(evaluator)
        self._pipeline = pipeline
        self.now = START
        self._hops_max = hops_max
        self._discard = discard
        self._own_folder: Path | None = None
        self.program = _program(application)
        self._compiled = compile_program(self.program)
        self._folder: Path | None = None
        if store is None:
            self._own_folder = Path(tempfile.mkdtemp(prefix="demaq-lab-"))
            store = self._own_folder
        if isinstance(store, (str, os.PathLike)):
            self._folder = Path(store)
            try:
                store = SqliteStore(self._folder, now=self._clock)
            except BaseException:
                self._remove_own_folder()
                raise
        self.store: Store = store
        self._is_closed = False
        self._on_spark = ExitStack()
        """The evaluator, if it is on Spark."""
        self._made: list[LabMessage] = []
        self._processed: list[int] = []
        """The messages that were processed, in order."""
        self._looked_at: frozenset[str] | None = None
        """The queues that the test has looked at last."""
        self._keys = SliceKeys(self.program, self._compiled.saxon)
        try:
            self._engine = self._start()
            self._load(collections or {})
        except BaseException:
            self.close()
            raise

    def _clock(self) -> datetime:
        return self.now

    def _start(self) -> Engine:
        native = self._native.is_native
        rules = self._rules = SaxonEvaluator(self._compiled, native=native)
        migrate_store(self._compiled.plan, rules, self.store, self._clock, self._discard)
        engine = Engine(
            self._compiled.plan,
            self._round_evaluator(rules),
            self.store,
            self._clock,
            self._hops_max,
            self._note,
            receiver=rules,
            native=native,
        )
        engine.round_messages_max = self._round_messages_max
        return engine

    @property
    def _round_messages_max(self) -> int | None:
        return 1 if self._pipeline == "serial" else None

    def _round_evaluator(self, rules: SaxonEvaluator) -> RoundEvaluator:
        local = LocalEvaluator(rules, self.store)
        if self._pipeline != "spark":
            return local
        if self._folder is None:
            raise ValueError("Spark's workers read a store in a folder; this one is in memory")
        from demaq.spark.evaluator_tasks import evaluator_on
        from demaq.spark.session import shared_session

        start = Start(
            files=self.program.files(),
            store=self._folder.resolve(),
            orphan_seconds=RULE_TIMEOUT_SECONDS,
            native=self._native,
        )
        return self._on_spark.enter_context(evaluator_on(shared_session(), start))

    def _load(self, collections: Mapping[str, Sequence[str | bytes]]) -> None:
        """Load all collections, or none where one of them is refused."""
        for name, found in collections.items():
            if isinstance(found, (str, bytes)):
                raise TypeError(f"collection {name} is a list of documents, not one of them")
        checked = {name: collection_texts(self.program, name, found) for name, found in collections.items()}
        for name, texts in checked.items():
            self.store.load_collection(name, texts)

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, AssertionError) or self._is_closed:
            self.close()
            return
        try:
            for line in self.explain_idle_rules(self._looked_at):
                error.add_note(line)
        except DemaqError as failure:  # the assertion is what matters
            error.add_note(f"why rules did not fire could not be found out: {failure}")
        finally:
            self.close()

    def close(self) -> None:
        """Close the store, and remove it if it is the laboratory's own."""
        self._is_closed = True
        self._on_spark.close()
        self.store.close()
        self._remove_own_folder()

    def _remove_own_folder(self) -> None:
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)

    # doing

    def enqueue(self, queue: str, body: bytes | str, properties: Mapping[str, object] | None = None) -> str:
        """Let a message arrive. Return its id. Raises a MessageError if intake would refuse it."""
        given = {name: _text(value) for name, value in (properties or {}).items()}
        return str(self._engine.enqueue(queue, body, given))

    def run_until_idle(self) -> int:
        """Process everything that can be processed without time passing. Return how many messages that were.

        Raises StillBusy for an application that goes on and on.
        """
        processed = 0
        for _ in range(ROUNDS_MAX):
            try:
                done = self._engine.run_round() or self._engine.fire_timers()
            except SystemFault:
                continue  # a node would wait before it tries again
            if not done:
                return processed
            processed += done
        priority = self._engine.factory.priority  # None for mailboxes and echo queues, whose messages are not processed
        counts = self.store.counts().items()
        waiting = {name: count for name, (_, count) in counts if count and priority(name) is not None}
        found = ", ".join([f"{count:,} in {name}" for name, count in waiting.items()])
        said = f"; messages wait: {found}" if found else ""
        raise StillBusy(f"still not idle after {ROUNDS_MAX:,} rounds{said}", waiting)

    def step(self) -> LabMessage | None:
        """Process the one message whose turn it is. Return that message, or None if nothing is to be done.

        Timers whose time has come fire when no message is left, as in `run_until_idle`.
        """
        waiting = self.store.pending(1)
        if not waiting and self._engine.fire_timers():
            waiting = self.store.pending(1)
        if not waiting:
            return None
        self._engine.round_messages_max = 1
        try:
            self._engine.run_round()
        finally:
            self._engine.round_messages_max = self._round_messages_max
        return _lab_message(self.store.message(waiting[0].seq) or waiting[0])

    def advance(self, seconds: float) -> None:
        """Let time pass: timers fire when it is their time, and what follows is processed then."""
        if seconds < 0:
            raise ValueError(f"time does not go back, not even by {-seconds} seconds")
        try:
            end = self.now + timedelta(seconds=seconds)
        except (OverflowError, ValueError):
            raise ValueError(f"no clock is {seconds} seconds after {self.now:%Y-%m-%d}: it ends with 9999") from None
        self.run_until_idle()
        while (due := self.store.next_due()) is not None and due <= end:
            self.now = max(self.now, due)
            self.run_until_idle()
        self.now = end
        self.run_until_idle()

    def take(self, queue: str, limit: int = 1) -> list[LabMessage]:
        """Take messages from a mailbox, as a client would, and return them."""
        self._looked_at = frozenset([queue])
        return [_lab_message(stored) for stored in self._engine.take(queue, limit)]

    def collect_garbage(self) -> int:
        """Remove what may be removed, even what retired at this very moment. Return how many messages that were.

        A store that was handed in notes by its own clock when messages retire, so the laboratory's does not matter.
        """
        removed = 0
        while found := self.store.collect_garbage(END_OF_TIME, GARBAGE_STEP):
            removed += found
        return removed

    def crash(self) -> None:
        """As kill -9: what was not committed is lost, and everything is opened again from the disk.

        A store that is closed is tidied up: its log goes into its file. A kill leaves both as they are. So they are
        copied as they lie on the disk at this moment, and put back when the store has been closed; then it has to
        recover from its log, as after a kill.
        """
        if self._folder is None:
            raise RuntimeError("only a store in a folder survives a crash")
        if self._is_closed:
            raise RuntimeError("this laboratory is closed")
        with tempfile.TemporaryDirectory(prefix="crash-", dir=self._folder) as kept:
            files = [self._folder / name for name in (FILE_NAME, f"{FILE_NAME}-wal")]
            for file in files:
                if file.exists():
                    shutil.copyfile(file, Path(kept, file.name))
            self._on_spark.close()
            self.store.close()
            (self._folder / f"{FILE_NAME}-shm").unlink(missing_ok=True)
            for file in files:
                file.unlink(missing_ok=True)
                if Path(kept, file.name).exists():
                    Path(kept, file.name).replace(file)
        self.store = SqliteStore(self._folder, now=self._clock)
        self._engine = self._start()

    # looking

    def read_queue(self, queue: str) -> list[LabMessage]:
        """Return what rules see in a queue."""
        expect_queue(self.program, queue)
        self._looked_at = frozenset([queue])
        return [_lab_message(stored) for stored in self.store.queue(queue, self.store.snapshot())]

    def read_stored(self, queue: str) -> list[LabMessage]:
        """Return all messages of a queue that are still stored, visible to rules or not."""
        self._looked_at = frozenset([queue])
        found: list[LabMessage] = []
        after = 0
        while page := self.store.stored(queue, after, 1000):
            found += [_lab_message(stored) for stored in page]
            after = page[-1].seq
        if not found:
            expect_queue(self.program, queue)
        return found

    def read_created(self, queue: str) -> list[LabMessage]:
        """Return all messages that rules and timers have put into a queue, in order, also removed ones."""
        expect_queue(self.program, queue)
        self._looked_at = frozenset([queue])
        return [message for message in self._made if message.queue == queue]

    def read_slice(self, slicing: str, key: object) -> list[LabMessage]:
        """Return the messages of a slice's current lifetime. A key may be written in any way that its type allows."""
        if slicing not in self.program.slicings:
            raise MessageError("propertyError", describe_unknown("slicing", slicing, self.program.slicings))
        known = self._keys.key(slicing, _text(key))
        self._looked_at = frozenset(self.program.properties[self.program.slicings[slicing].property].values)
        return [_lab_message(stored) for stored in self.store.slice(slicing, known, self.store.snapshot())]

    def explain_message(self, message: str, rule: str | None = None) -> MessageVerdict:
        """Return what became of a message by its id, and of its rules or of one: which fired, and why others did not.

        Raises OperatorError if there is no such message or rule.
        """
        return why_message(self.store, self._rules, int(message), self.now, rule, self._hops_max)

    def explain_idle_rules(self, queues: Collection[str] | None = None) -> list[str]:
        """Return in words why rules that enqueue into these queues did not fire for the last message they were given.

        The note of an assertion that fails inside `with Lab(…)` is this, about the queue that was looked at last.
        """
        return explain_idle_rules(self.store, self._rules, self._processed, queues, self.now)

    # the same by the name of what is returned, for assertions
    messages = read_queue
    stored = read_stored
    made = read_created
    slice = read_slice
    why = explain_message

    # helpers

    def _note(self, steps: Sequence[Step], committed: Sequence[Committed]) -> None:
        self._processed += [step.processed for step in steps if step.processed is not None]
        for done in committed:
            for seq in done.created:
                stored = self.store.message(seq)
                if stored is not None:
                    self._made.append(_lab_message(stored))


def load_text(application: str) -> Program:
    """Return the program of a text. Files that it names are looked for in the current folder."""
    return load_program_texts({TEXT_NAME: application})


def _program(application: Program | str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Program:
    if isinstance(application, Program):
        return application
    if isinstance(application, str) and "create " in application:
        return load_text(application)
    return load_program(application)


def _text(value: object) -> str:
    """Return a value of Python's as XML Schema writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, timedelta):
        return f"{'-' if value < timedelta(0) else ''}PT{abs(value).total_seconds():f}S"
    return value.isoformat() if isinstance(value, (date, time)) else str(value)


def _lab_message(stored: StoredMessage) -> LabMessage:
    properties = {**system_properties(stored), **stored.properties}
    return LabMessage(
        id=str(stored.seq),
        queue=stored.queue,
        body=stored.body,
        properties={name: value.text for name, value in properties.items()},
        rule=stored.rule,
        trigger=str(stored.trigger) if stored.trigger is not None else None,
        processed=stored.processed is not None,
    )
