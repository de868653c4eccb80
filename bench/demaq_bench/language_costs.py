"""What the language half costs: reading an application, compiling it, and evaluating rules on a message.

Figures are ratios of one machine at one time. Each says what it was measured on.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from demaq.documents import Document, parse_document
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.memory_state import MemoryState
from demaq.language.loader import check_application
from demaq.language.parser import parse_module
from demaq.language.program.program import Program
from demaq.messages import Message
from demaq_bench.figures import Figure, resident_megabytes

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def measure(rules: tuple[int, ...], messages: int, say: Callable[[str], None]) -> Iterator[Figure]:
    """Yield all figures of the language, one after the other. `say` gets what is going on."""
    for count in rules:
        say(f"an application of {count:,} rules")
        yield from _reading(count, paper_application(count), "like the paper's")
        yield from _reading(count, application_of(count), "with more in them")
    say("1,000 rules on one queue against 10")
    yield from _choosing()
    say(f"4 rules on {messages:,} messages of 1 KB")
    yield from _evaluating(messages)
    say("updates on copies")
    yield from _changing_copies()


# --- reading an application ------------------------------------------------------------------------------------------


def application_of(rules: int, per_queue: int = 10) -> str:
    """Rules of eight lines each, spread over queues, one in ten reading its slice and one in ten another queue."""
    queues = max(1, rules // per_queue)
    lines = ["declare namespace o = 'http://example.org/orders';"]
    lines += [f"create queue q{n}" for n in range(queues)]
    lines.append("create queue done")
    every = ", ".join([f"q{n}" for n in range(queues)])
    lines.append(f"create property orderID as xs:string queue {every} value //orderID")
    lines.append("create slicing orders on orderID")
    lines.append("create rule finish for orders if (qs:slice()/finished) then do reset")
    for n in range(rules - 1):
        lines.append(_rule(n, n % queues))
    return "\n".join(lines)


def _rule(n: int, queue: int) -> str:
    extra = ""
    if n % 10 == 3:
        extra = f' and not(qs:queue("q{queue}")[/confirmation/orderID = qs:message()//orderID])'
    return f"""
create rule r{n} for q{queue}
  if (/order[@type = "t{n}"] and not(//cancelled){extra}) then
    let $lines := //line[quantity > 0]
    let $total := sum(for $line in $lines return $line/quantity * $line/price)
    let $confirmation :=
      <confirmation rule="r{n}">{{//orderID}} {{//customerID}}<total>{{$total}}</total>
        {{for $line in $lines order by $line/@number return <line>{{$line/@number, $line/article}}</line>}}
      </confirmation>
    return do enqueue $confirmation into done"""


def paper_application(rules: int) -> str:
    """Rules of the paper's size and shape, all on one queue."""
    lines = ["create queue crm create queue finance kind outgoingGateway"]
    lines += [
        f"""
create rule r{n} for crm
if (//offerRequest[@type = "t{n}"] and not(//cancelled)) then
  let $customerInfo :=
    <requestCustomerInfo>
       {{//requestID}} {{//customerID}}
    </requestCustomerInfo>
  return do enqueue $customerInfo into finance with Sender value "http://ws.chem.invalid/\""""
        for n in range(rules)
    ]
    return "\n".join(lines)


def _reading(rules: int, text: str, shape: str) -> Iterator[Figure]:
    with TemporaryDirectory() as folder:
        file = Path(folder, "application.dmq")
        file.write_text(text, encoding="utf-8")
        parse = _seconds(lambda: parse_module(text, str(file)))
        started = time.perf_counter()
        program = check_application(file).program
        checked = time.perf_counter() - started
        assert program is not None, "the generated application is right"
        started = time.perf_counter()
        compiled = compile_program(program)
        compiling = time.perf_counter() - started
        del compiled
    gc.collect()
    size = f"{rules:,} rules {shape}, {len(text) / 1000:,.0f} KB"
    yield Figure(f"parse ({size})", parse, "s")
    yield Figure(f"parse and check ({size})", checked, "s")
    yield Figure(f"plan, emit and compile ({size})", compiling, "s")
    yield Figure(f"all together ({size})", checked + compiling, "s", "< 3 s at 1,000 rules, linear beyond")


# --- choosing among rules --------------------------------------------------------------------------------------------


def _choosing() -> Iterator[Figure]:
    """Yield what a message costs beyond being parsed if one of n rules on a queue fires."""
    few, many = _cost_of_choice(10), _cost_of_choice(1000)
    yield Figure("one of 10 rules fires", few, "µs a message")
    yield Figure("one of 1,000 rules fires", many, "µs a message")
    yield Figure("1,000 rules cost as many times what 10 cost", many / few, "", "< 3")


def _cost_of_choice(rules: int) -> float:
    text = application_of(rules, per_queue=rules).replace("create rule finish", "create rule r_finish")
    evaluator, program = _evaluator(text)
    state = _no_state(evaluator, program)
    messages = [
        Message(id=str(n), queue="q0", document=_order(n % rules, n), properties={}, created=NOW) for n in range(1000)
    ]
    evaluator.evaluate(messages, state, NOW)
    return _seconds(lambda: evaluator.evaluate(messages, state, NOW)) / len(messages) * 1e6


# --- evaluating ------------------------------------------------------------------------------------------------------

FOUR_RULES = """
create queue orders
create queue shipping
create queue finance
create rule ship for orders
  if (/order[@type = "standard"]) then
    do enqueue <parcel>{//orderID}{//line/article}</parcel> into shipping
create rule rush for orders
  if (/order[@type = "rush"]) then
    do enqueue <parcel priority="high">{//orderID}{//line/article}</parcel> into shipping
create rule credit for orders
  if (sum(//line/(quantity * price)) > 100000) then
    do enqueue <check>{//customerID}</check> into finance
create rule cancel for orders
  if (//cancelled) then
    do enqueue <refund>{//orderID}</refund> into finance
"""


def _evaluating(count: int) -> Iterator[Figure]:
    evaluator, program = _evaluator(FOUR_RULES)
    state = _no_state(evaluator, program)
    documents = [_order(-1, n) for n in range(1000)]
    size = statistics.mean([len(document.data) for document in documents])
    times: list[float] = []
    memory: list[float] = []
    batch = 1000
    for start in range(0, count + batch, batch):
        # Bodies arrive as text: a document that was parsed before would flatter us.
        messages = [
            Message(id=str(n), queue="orders", document=Document(document.text), properties={}, created=NOW)
            for n, document in enumerate(documents)
        ]
        started = time.perf_counter()
        outcomes = evaluator.evaluate(messages, state, NOW)
        if start:  # the first is for warming up
            times.append((time.perf_counter() - started) / batch * 1e6)
            memory.append(resident_megabytes())
        assert sum([len(outcome.actions) for outcome in outcomes]) == batch
    yield Figure(f"evaluate 4 rules ({size:.0f} B messages), median", statistics.median(times), "µs a message", "< 150")
    yield Figure("the same, best tenth", sorted(times)[len(times) // 10], "µs a message")
    yield Figure("memory after a tenth of the messages", memory[len(memory) // 10], "MB")
    yield Figure(f"memory after all {count:,}", memory[-1], "MB", "flat")


AS_IT_IS = """
create queue orders
create queue finance
create rule plain for orders if (/order) then do enqueue /order into finance
"""
THREE_CHANGES = """
create queue orders
create queue finance
create rule changed for orders
  if (/order) then
    copy $c := /order
    modify (
      insert node <vip/> into $c,
      replace value of node $c/customerID with "C0",
      delete node $c/address
    )
    return do enqueue $c into finance
"""
MANY_CHANGES = """
create queue orders
create queue finance
create rule changed for orders
  if (/orders) then
    copy $c := /orders
    modify for $line in subsequence($c/order/line, 1, 10000) return replace value of node $line/price with 7
    return do enqueue $c into finance
"""
CHANGES = 10_000
LINES_PER_ORDER = 6


def _changing_copies() -> Iterator[Figure]:
    """Yield what a copy with updates costs more than the message as it is."""
    orders = [_order(-1, n) for n in range(200)]
    plain, changed = [_evaluator(text) for text in (AS_IT_IS, THREE_CHANGES)]
    more: list[float] = []
    for turn in range(6):
        took = [_evaluate_all(evaluator, program, orders) for evaluator, program in (plain, changed)]
        if turn:  # the first is for warming up
            more.append((took[1] - took[0]) / len(orders) * 1e6)
    yield Figure("change three things on a copy of 1 KB", statistics.median(more), "µs", "< 200")
    text = "".join([_order(-1, n).text for n in range(CHANGES // LINES_PER_ORDER + 1)])
    large = parse_document(f"<orders>{text}</orders>")
    seconds = _seconds(lambda: _evaluate_all(*_evaluator(MANY_CHANGES), [large]))
    yield Figure(f"{CHANGES:,} things on one of {len(text) / 1e6:.1f} MB", seconds, "s", "< 5")


def _evaluate_all(evaluator: SaxonEvaluator, program: Program, documents: list[Document]) -> float:
    """Return how many seconds it takes."""
    messages = [
        Message(id=str(n), queue="orders", document=Document(document.text), properties={}, created=NOW)
        for n, document in enumerate(documents)
    ]
    started = time.perf_counter()
    outcomes = evaluator.evaluate(messages, _no_state(evaluator, program), NOW)
    seconds = time.perf_counter() - started
    assert all([len(outcome.actions) == 1 and not outcome.errors for outcome in outcomes])
    return seconds


def _order(kind: int, number: int) -> Document:
    """Return an order of about 1 KB. Kind -1 is a standard one."""
    type_ = "standard" if kind < 0 else f"t{kind}"
    lines = "".join(
        [
            f'<line number="{n}"><article>A-{(number * 7 + n) % 997}</article><quantity>{n + number % 5}</quantity>'
            f"<price>{number % 90 + n}.50</price><text>part {n} of order {number}</text></line>"
            for n in range(1, 7)
        ]
    )
    return parse_document(
        f'<order type="{type_}"><orderID>O{number}</orderID><customerID>C{number % 100}</customerID>'
        f"<address><name>Customer {number % 100}</name><city>Mannheim</city></address>{lines}</order>"
    )


def _evaluator(text: str) -> tuple[SaxonEvaluator, Program]:
    with TemporaryDirectory() as folder:
        file = Path(folder, "application.dmq")
        file.write_text(text, encoding="utf-8")
        program = check_application(file).program
    assert program is not None, "the application is right"
    return SaxonEvaluator(compile_program(program)), program


def _no_state(evaluator: SaxonEvaluator, program: Program) -> MemoryState:
    return MemoryState(evaluator, {s.name: s.property for s in program.slicings.values()}, NOW)


def _seconds(action: Callable[[], object]) -> float:
    """Return the median of three runs."""
    times: list[float] = []
    for _ in range(3):
        gc.collect()
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return statistics.median(times)
