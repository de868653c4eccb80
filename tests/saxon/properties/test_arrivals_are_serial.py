"""However messages arrive and are evaluated, and whatever comes meanwhile, what is committed is a serial execution.

Applications are drawn anew in each run. Messages come alone, in groups of one sender, and together with those of others.
The node evaluates them itself, workers do, or both; now and then there is no worker, or one does not return. An
evaluation may be left open while rounds run, timers fire, and others come and are committed. An interpreter follows in
the serial order: whatever waits comes before what arrives.

    DEMAQ_TEST_SEED=1 ARRIVAL_PROGRAMS=1000 ./test tests/saxon/properties/test_arrivals_are_serial.py -s
"""

from __future__ import annotations

import pickle
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from demaq.engine import arrivals as arrivals_module
from demaq.engine.arrivals import EvaluatedArrivals, _Changed, _Overtaken, _Passing
from demaq.engine.engine import Engine
from demaq.engine.intake import IncomingMessage
from demaq.engine.round import RoundPolicy
from demaq.engine.sampling import Sampler
from demaq.errors import EvaluatorUnavailable, MessageError, ProgramError, StoreError
from demaq.evaluation import quick_evaluator
from demaq.evaluation.arrival_evaluator import ArrivalEvaluator
from demaq.evaluation.arrival_request import ArrivalRequest, ArrivalResult, Arriving
from demaq.evaluation.cascade.cascade import Cascades
from demaq.evaluation.local_evaluator import LocalEvaluator
from demaq.evaluation.native.ledger import NativeLedger
from demaq.evaluation.native.native_settings import NativeSettings
from demaq.evaluation.quick_evaluator import QuickEvaluator
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.snapshot_reader import Documents, SnapshotReader
from demaq.quantities import SampleRate
from demaq.store.operator_records import AuditRecord, Pause
from demaq.store.protocol import Elision, NewMessage, Step
from demaq.store.request_names import SEPARATOR, digest_of, make_request, name_of
from demaq.system_properties import SAMPLED
from demaq.testing.lab import load_text
from tests.support.drawing import draw_until, example_count, run_seed
from tests.support.native import saxon
from tests.support.properties.arriving import ArrivingApplication, draw_arriving, draw_incoming
from tests.support.reference.arrival_run import ArrivalRun, RecordingStore
from tests.support.reference.comparing import TooMany

START = datetime(2026, 3, 1, tzinfo=UTC)
HOPS_MAX = 6
MESSAGES_MAX = 150
USUAL = 7
PROGRAMS = example_count(USUAL, "ARRIVAL_PROGRAMS")
HISTORIES = 6
"""For each program: compiling one takes its time."""
NEEDED = (
    *("passed", "folded", "evaluated by the node", "shared with the node", "several workers", "committed after others"),
    *("stored first", "changed", "errors", "resets", "passed by priority", "refused", "backlog", "hops", "in doubt"),
)
"""What must have happened for the run to say anything."""
NEEDED_AMONG_MANY = (
    *(
        "overtaken",
        "processed before others that wait",
        "known requests",
        "timers",
        "no worker",
        "given up by the node",
    ),
    *("kept", "sampled", "paused", "taken meanwhile"),
)
SETTINGS = (
    (quick_evaluator, "MESSAGES_MAX", 1),  # so that a few are many
    (quick_evaluator, "ASKING_MESSAGES", 0),
    (arrivals_module, "WORKER_MESSAGES_LEAST", 1),
    (arrivals_module, "QUICK_SECONDS", 1e9),  # nothing depends on how fast this machine is
    (quick_evaluator, "SLOW_SECONDS", 1e9),
    (quick_evaluator, "SLOW_SHARE_SECONDS", 1e9),
)
MANY = 100
"""These are seldom: only among so many applications they are sure to happen."""


class Workers:
    """Evaluates in this process as workers do, each on a part. Now and then none is free, or none returns in time."""

    rounds_max = 3

    def __init__(self, rules: SaxonEvaluator, store: RecordingStore, rng: random.Random, counts: Counter[str]) -> None:
        self._evaluator = ArrivalEvaluator(rules)
        self._store = store
        self._documents = Documents()
        self._rng = rng
        self._counts = counts
        self.trouble = rng.choice((0.0, 0.0, 0.1, 0.3))

    def run_arrivals(
        self,
        divide: Callable[[int], Sequence[ArrivalRequest]],
        workers_max: int,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> list[ArrivalResult] | None:
        happens = self._rng.choice(("none is free", "late", "gone")) if self._rng.random() < self.trouble else ""
        if happens == "none is free":
            self._counts["no worker"] += 1
            return []
        requests = divide(self._rng.randint(1, min(workers_max, self.rounds_max)))
        self._counts["several workers"] += len(requests) > 1
        meanwhile()
        if happens == "late":
            return None
        if happens:
            raise EvaluatorUnavailable("it has ended")
        return [self._run(pickle.loads(pickle.dumps(request))) for request in requests]

    def _run(self, request: ArrivalRequest) -> ArrivalResult:
        reader = SnapshotReader(self._store, request.snapshot, self._documents)
        found: ArrivalResult = pickle.loads(pickle.dumps(self._evaluator.run(request, reader)))
        return found


class Run:
    """An engine to which messages come, and the interpreter that follows it."""

    def __init__(
        self,
        application: ArrivingApplication,
        rules: SaxonEvaluator,
        rules_of_saxon: SaxonEvaluator,
        quick: QuickEvaluator | None,
        rng: random.Random,
        counts: Counter[str],
    ) -> None:
        self.now = START
        self._application = application
        self._rng = rng
        self._counts = counts
        self.store = RecordingStore(lambda: self.now)
        local = LocalEvaluator(rules, self.store)
        local.messages_max = size = rng.choice((1, 3, 50, 50))
        self._workers = Workers(rules_of_saxon if rng.random() < 0.1 else rules, self.store, rng, counts)
        kind = rng.choice(("kept", "sampled", "elided", "elided", "elided", "elided"))
        elide: Elision = SAMPLED if kind == "sampled" else kind != "kept"
        policy = RoundPolicy(elide=elide, fold=kind != "kept", exact=rng.random() < 0.5, fuse=True)
        counts[kind] += 1
        if quick is not None:
            quick._store = self.store
        self.engine = Engine(
            *(rules.plan, local, self.store, lambda: self.now, HOPS_MAX),
            receiver=rules,
            policy=policy,
            arrivals=self._workers,
            quick=quick,
        )
        if kind == "sampled":
            self.engine.factory.sampler = Sampler(SampleRate(1, rng.choice((1, 3))))
        self.engine._round_messages = size
        self.engine.round_messages_least = 1
        cascades = Cascades(rules)
        is_possible, facts = cascades.is_possible, cascades._queues
        self._serial = ArrivalRun(
            application.text,
            START,
            HOPS_MAX,
            lambda queue: is_possible(queue) and not self._is_paused(queue),
            MESSAGES_MAX,
            self._is_paused,
            lambda queue: facts[queue].is_silent and not facts[queue].reads_others,
            policy.exact or size >= MESSAGES_MAX,
        )
        self._sent: dict[int, tuple[str, IncomingMessage]] = {}
        self._passing: dict[int, Sequence[_Passing]] = {}
        self._kept_alive: list[object] = []
        self._requests: list[str] = []
        self._asked = 0
        """How many messages are being evaluated."""
        self._open: list[tuple[EvaluatedArrivals, Sequence[tuple[str, IncomingMessage]], bool, int]] = []
        """Evaluations that are neither committed nor dropped: of what, whether of one sender, and since which number."""
        self._record()
        self.happened: list[str] = []
        """What was drawn, to be shown."""
        self.settings = {"policy": policy, "size": size, "quick": quick is not None, "trouble": self._workers.trouble}

    def run(self) -> None:
        if self._rng.random() < 0.8:
            self._drain()  # so that it is known that nothing waits
        for _ in range(self._rng.randint(5, 14)):
            self._act()
            self._follow()
            if self._rng.random() < 0.35:
                self._drain()
        while self._open:
            self._close()
            self._follow()
        self._pause(())
        self._drain()

    # what happens

    def _act(self) -> None:
        acts: list[tuple[int, Callable[[], None]]] = [
            (5, self._send_group),
            (5, self._send_together),
            (4, self._send_one),
            (3 if self._open else 1, self._store_first),
            (8, self._open_evaluation),
            (8 if self._open else 0, self._close),
            (4 if self._open else 0, self._send_known),
            (3, self._run_round),
            (2, self._fire_timers),
            (1, self._take),
            (0 if self._open else 1, self._pause_some),
            (0 if self._open else 1, self._pass_time),
        ]
        [act] = self._rng.choices([act for _, act in acts], [weight for weight, _ in acts])
        if self._rng.random() < 0.04 and act in (self._send_group, self._send_together, self._send_one, self._close):
            self.store.failing = self._rng.choice(("before", "after", "after"))
            self._note(f"fails {self.store.failing}")
            self._counts["in doubt"] += self.store.failing == "after"
        try:
            act()
        except StoreError:
            self._note("has failed")
        self.store.failing = ""
        self.engine.arrivals._slow_until.clear()

    def _send_group(self) -> None:
        queue, sent = self._draw_group()
        self._note(f"group {_shown([(queue, each) for each in sent])}")
        is_name_taken = self._is_name_taken(sent)
        try:
            self._expect_order(sent, self.engine.enqueue_all(queue, sent))
            assert not is_name_taken, "another message has come under the name of a request"
        except MessageError:
            self._follow()
            assert is_name_taken or any([self._serial.is_refused(queue, each) for each in sent]), "it is right"
            self._counts["refused"] += 1

    def _is_name_taken(self, sent: Sequence[IncomingMessage]) -> bool:
        """Return whether a request has the name of another one, in the group or known before, and not its content."""
        named: dict[str, str] = {}
        for each in sent:
            if each.request is not None:
                name = name_of(each.request)
                known = {*self.store.requested(name + SEPARATOR), named.setdefault(name, each.request)}
                if known != {each.request}:
                    return True
        return False

    def _send_together(self) -> None:
        sent = self._draw_several()
        self._note(f"together {_shown(sent)}")
        numbers = self.engine._receive_at_once(sent)
        self._follow()
        for (queue, incoming), number in zip(sent, numbers, strict=True):
            if isinstance(number, MessageError):
                self._expect_refused(queue, incoming)
            elif number is None:
                self._append(queue, incoming)

    def _send_one(self) -> None:
        queue = self._rng.choice(self._application.queues)
        incoming = self._draw_one(queue)._replace(hops=0)
        self._note(f"one {_shown([(queue, incoming)])}")
        try:
            self.engine.enqueue(queue, incoming.body, incoming.properties, incoming.request)
        except MessageError as error:
            self._follow()
            if error.kind != "refused":  # another message was sent under that name
                self._expect_refused(queue, incoming)

    def _send_known(self) -> None:
        """Let something be found by those who have looked it up."""
        if "known" in self._application.queues:
            sought = [body for _, sent, _, _ in self._open for body in sent]
            keys = re.findall(r'[ko]="(.)"', str(self._rng.choice(sought)[1].body))
            incoming = IncomingMessage(f'<m k="{self._rng.choice(keys)}" o="1" n="0" v="x"/>')
            self._note(f"one {_shown([('known', incoming)])}")
            self.engine.enqueue_all("known", [incoming])

    def _store_first(self) -> None:
        for queue, incoming in self._draw_several():
            self._note(f"stored {_shown([(queue, incoming)])}")
            self._append(queue, incoming)
        self._counts["backlog"] += 1

    def _append(self, queue: str, incoming: IncomingMessage) -> None:
        try:
            self.engine.append([self.engine.factory.receive(queue, incoming, self.now)])
        except MessageError:
            self._follow()
            self._expect_refused(queue, incoming)

    def _open_evaluation(self) -> None:
        is_group = self._rng.random() < 0.5
        if is_group:
            queue, group = self._draw_group()
            sent = [(queue, each) for each in group]
        else:
            sent = self._draw_several()
        since = self.store.snapshot()
        self._counts["asked with backlog" if self.engine._rounds.has_backlog else "asked"] += 1
        found = self.engine.arrivals.evaluate(sent, self.now, self._rng.random() < 0.7, is_group)
        self._note(f"{'opened' if found else 'not opened'} {_shown(sent)}{' of one sender' if is_group else ''}")
        if found is not None:
            self._open.append((found, sent, is_group, since))

    def _close(self) -> None:
        evaluated, sent, is_group, since = self._open.pop(self._rng.randrange(len(self._open)))
        refused = [isinstance(each, MessageError) for each in evaluated.results]
        for (queue, incoming), is_refused in zip(sent, refused, strict=True):
            assert self._serial.is_refused(queue, incoming) == is_refused
        if (is_group and any(refused)) or self._rng.random() < 0.1:
            self._note(f"dropped {_shown(sent)}")
            evaluated.drop()
            return
        self._note(f"closed {_shown(sent)}")
        others: dict[int, NewMessage] = {}
        for place, (queue, incoming) in enumerate(sent):
            if refused[place] and self._rng.random() < 0.5:  # another message is stored in its place
                instead = incoming._replace(body='<x k="1" o="1" n="1" v="z"/>', properties={}, request=None)
                with suppress(MessageError):
                    others[place] = self.engine.factory.receive(queue, instead, self.now)
        self._counts["committed after others"] += self.store.snapshot() > since
        found = evaluated.commit(others)
        if is_group:
            self._expect_order([each for _, each in sent], [number for number, _ in found])

    def _run_round(self) -> None:
        self._note("round")
        self.engine.run_round()

    def _fire_timers(self) -> None:
        self._note("timers")
        self.engine.fire_timers()

    def _take(self) -> None:
        queue = self._rng.choice(self._application.boxes)
        if self.engine.factory.priority(queue) is None and not self._is_paused(queue):
            taken = self.engine.take(queue, self._rng.choice((1, 3)))
            self._note(f"took {len(taken)} of {queue}")
            self._counts["taken meanwhile"] += bool(taken and self._open)

    def _pause_some(self) -> None:
        program = self.engine.program
        queues = [("queue", name) for name, queue in program.queues.items() if queue.kind != "echo"]
        parts = [*queues, *[("rule", name) for name in self._application.rules]]
        self._pause(self._rng.sample(parts, self._rng.choice((0, 0, 1, 1, 2))))

    def _pause(self, parts: Sequence[tuple[str, str]]) -> None:
        entry = AuditRecord(at=self.now, who="test", action="pause", subject="")
        pauses = [Pause(kind=kind, name=name, who="test", why="", since=self.now) for kind, name in parts]  # type: ignore[arg-type]
        self._note(f"paused {parts}")
        self._counts["paused"] += bool(parts)
        self.store.change_pauses((), list(self.engine.pauses.by_part), entry)
        self.store.change_pauses(pauses, (), entry)
        self.engine.set_pauses(self.store.pauses())
        self._serial.take_turns()

    def _pass_time(self) -> None:
        self._drain()
        seconds = self._rng.choice((1, 5, 10))
        self._note(f"{seconds} seconds")
        self.now += timedelta(seconds=seconds)
        self._serial.interpreter.now = self.now

    def _drain(self) -> None:
        self._note("drain")
        while self.engine.run_round() or self.engine.fire_timers():
            self._follow()
        self._follow()
        self._serial.assert_nothing_waits()
        self._serial.assert_same_state(self.store)

    # what is sent

    def _draw_one(self, queue: str) -> IncomingMessage:
        return draw_incoming(self._rng, self._application, queue, self._requests)

    def _draw(self, queue: str) -> IncomingMessage:
        """Return a message that a gateway has received: its request has a digest."""
        incoming = self._draw_one(queue)
        self._counts["hops"] += incoming.hops > 0
        request = incoming.request and make_request(incoming.request, digest_of([queue, incoming.body]))
        return incoming._replace(request=request)

    def _draw_group(self) -> tuple[str, list[IncomingMessage]]:
        queue = self._rng.choice(self._application.queues)
        return queue, [self._draw(queue) for _ in range(self._rng.choice((1, 1, 2, 2, 3, 4, 7)))]

    def _draw_several(self) -> list[tuple[str, IncomingMessage]]:
        chosen = self._rng.choices(self._application.queues, k=self._rng.choice((1, 1, 1, 2, 2, 3, 5)))
        return [(queue, self._draw(queue)) for queue in chosen]

    # what is expected

    def _expect_refused(self, queue: str, incoming: IncomingMessage) -> None:
        assert self._serial.is_refused(queue, incoming), f"{incoming} is right"
        self._counts["refused"] += 1

    def _expect_order(self, sent: Sequence[IncomingMessage], numbers: Sequence[int]) -> None:
        """Messages of one sender come in their order, but for those that were known before."""
        new = [number for number, each in zip(numbers, sent, strict=True) if each.request is None and number]
        assert new == sorted(new), f"messages of one sender got the numbers {numbers}"

    def _follow(self) -> None:
        for happened in self.store.happened:
            for step, done in zip(happened.steps, happened.committed, strict=True):
                made = [
                    f"{number} {new.queue} {new.body}" for number, new in zip(done.created, step.created, strict=True)
                ]
                gone = [each.seq for each in self._passing.get(id(step), ())]
                self._note(f"    {step.processed or step.fired or gone}, {step.elided} elided: {', '.join(made)}")
                self._counts["timers"] += step.fired is not None
                self._counts["resets"] += bool(step.resets)
                self._counts["errors"] += any(["<error" in new.body for new in step.created])
            self._serial.follow_commit(happened, self._sent, self._passing)
        self.store.happened.clear()

    def finish(self) -> None:
        self._counts["processed before others that wait"] += self._serial.overtaken
        self._counts["passed by priority"] += self._serial.passed_priorities

    def _is_paused(self, queue: str) -> bool:
        return queue in self.engine.pauses.queues

    def _note(self, what: str) -> None:
        self.happened.append(what)

    def _record(self) -> None:
        """Note what is sent, and what becomes of it on arrival."""
        arrivals, factory, counts = self.engine.arrivals, self.engine.factory, self._counts
        make_step, make_received, store_first = arrivals._pass, factory.make_received, arrivals._store_first
        validate, expect_order, run_here = arrivals._validate, arrivals._expect_order, arrivals._run_here

        def note_passing(passing: Sequence[_Passing], last: int, now: datetime) -> Step:
            step = make_step(passing, last, now)
            self._passing[id(step)] = passing
            self._kept_alive.append(step)
            counts["passed"] += sum([each.passed.folded is None for each in passing])
            counts["folded"] += sum([each.passed.folded is not None for each in passing])
            return step

        def note_received(queue: str, incoming: IncomingMessage, *args: Any) -> NewMessage:
            made = make_received(queue, incoming, *args)
            self._sent[id(made)] = queue, incoming
            self._kept_alive.append(made)
            counts["known requests"] += incoming.request is not None and bool(self.store.requested(incoming.request))
            return made

        def note_stored_first(result: Any, now: datetime) -> Any:
            found = store_first(result, now)
            counts["stored first"] += found is not result
            return found

        def note_changed(passing: Sequence[_Passing]) -> None:
            try:
                validate(passing)
            except _Changed:
                counts["changed"] += 1
                raise

        def note_overtaken(passing: Sequence[_Passing]) -> None:
            try:
                expect_order(passing)
            except _Overtaken:
                counts["overtaken"] += 1
                raise

        def run_here_mostly(request: ArrivalRequest) -> ArrivalResult | None:
            found = run_here(request)
            if found is not None and self._rng.random() < 0.1:
                counts["given up by the node"] += 1
                return None
            counts["evaluated by the node"] += found is not None
            counts["shared with the node"] += found is not None and len(request.messages) < self._asked
            return found

        def run_counted(arriving: Sequence[Arriving], *args: Any) -> list[ArrivalResult] | None:
            self._asked = len(arriving)
            return run(arriving, *args)

        run, arrivals._run = arrivals._run, run_counted  # type: ignore[method-assign, assignment]
        arrivals._pass = note_passing  # type: ignore[method-assign]
        factory.make_received = note_received  # type: ignore[method-assign, assignment]
        arrivals._store_first = note_stored_first  # type: ignore[method-assign]
        arrivals._validate = note_changed  # type: ignore[method-assign]
        arrivals._expect_order = note_overtaken  # type: ignore[method-assign]
        arrivals._run_here = run_here_mostly  # type: ignore[method-assign]


def _shown(sent: Sequence[tuple[str, IncomingMessage]]) -> str:
    return "".join(
        [f"\n  {queue} {each.body!r} {dict(each.properties)} {each.request} {each.hops}" for queue, each in sent]
    )


@pytest.mark.slow
@pytest.mark.draws
def test_what_arrives_is_committed_as_in_a_serial_execution(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in SETTINGS:
        monkeypatch.setattr(module, name, value)
    seed = run_seed()
    print(f"DEMAQ_TEST_SEED={seed}")
    counts: Counter[str] = Counter()
    needed = (*NEEDED, *(NEEDED_AMONG_MANY if PROGRAMS >= MANY else ()))
    for number, _ in enumerate(draw_until(lambda: all([counts[each] for each in needed]), USUAL, "ARRIVAL_PROGRAMS")):
        if number % 100 == 99:
            print(number + 1, dict(counts), flush=True)
        rng = random.Random(f"{seed} {number}")
        application = draw_arriving(rng)
        try:
            compiled = compile_program(load_text(application.text), saxon())
        except ProgramError:
            counts["not compiled"] += 1
            continue
        counts["programs"] += 1
        rules, rules_of_saxon = SaxonEvaluator(compiled), SaxonEvaluator(compiled, native=False)
        native_settings = NativeSettings(check_every=rng.choice((0, 0, 0, 3)))
        quick = QuickEvaluator(rules.plan, RecordingStore(lambda: START), NativeLedger(), native_settings)
        for _ in range(HISTORIES):
            run = Run(application, rules, rules_of_saxon, quick if rng.random() < 0.6 else None, rng, counts)
            try:
                run.run()
            except TooMany:
                counts["cut"] += 1
            except Exception as error:
                repeat = f"DEMAQ_TEST_SEED={seed}, program {number}: {type(error).__name__}"
                happened = "\n".join(run.happened)
                shown = f"{application.text}\n{run.settings}\n{happened}"
                raise AssertionError(f"{repeat}: {error}\n{shown}") from error
            finally:
                run.finish()
    print(dict(counts))
    for each in needed:
        assert counts[each] > 0, f"no {each} among {dict(counts)}"
