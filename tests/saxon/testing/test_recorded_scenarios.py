"""Scenarios of real traffic: one that is recorded passes with the same application, and expects what really happened."""

from __future__ import annotations

import random
import re
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from demaq.engine.intake import IncomingMessage
from demaq.errors import OperatorError
from demaq.operations.recorded_traffic import find_traffic
from demaq.operations.value_masks import parse_mask_path
from demaq.store.memory_store import MemoryStore
from demaq.store.protocol import Step
from demaq.system_properties import ERROR_LEVEL
from demaq.testing.lab import START, Lab
from demaq.testing.recording import RecordedScenario, record_scenario
from demaq.testing.scenario_writer import write_text
from demaq.testing.scenarios import read_scenarios, run_scenarios
from tests.support.drawing import draw_until

BODIES = ("plain", "it's", "a: b # c", "zwei\nZeilen", " leading", "tab\there", "…", "*", "日本", "<&>", "x\n\n  y\n")


def draw_program(chance: random.Random) -> str:
    """Return an application in which messages flow from lower to higher queues, so that every conversation ends."""
    queues = [f"q{n}" for n in range(chance.randint(2, 5))]
    lines = [
        "create queue out kind outgoingGateway endpoint 'http://x.invalid/' replyto replies",
        "create queue replies",
    ]
    lines += ["create queue later kind echo", "create queue late", "create queue failed kind mailbox"]
    lines += [f"create queue {name}" for name in queues]
    lines += ["create queue end kind mailbox"]
    everywhere = ", ".join([*queues, "replies", "late"])
    lines += [f"create property id as xs:string queue {everywhere} value string((//@id)[1])"]
    lines += [f"create property colour as xs:string inherited queue {everywhere}, out, later"]
    lines += ["create slicing byId on id"]
    for n, name in enumerate(queues):
        targets = [*queues[n + 1 :], "end", "out", "later"]
        for r in range(chance.randint(1, 2)):
            actions = [_draw_action(chance, chance.choice(targets)) for _ in range(chance.randint(1, 2))]
            condition = chance.choice(("/*", "/*/@n = '1'", "qs:property('colour') = 'red'", "exists(//text())"))
            lines.append(
                f"create rule r{n}x{r} for {name} errorqueue failed if ({condition}) then ({', '.join(actions)})"
            )
    if chance.random() < 0.5:
        lines.append(
            "create rule broken for q1 errorqueue failed if (/*/@n = '2') then do enqueue <x>{1 idiv 0}</x> into end"
        )
    if chance.random() < 0.6:
        count = chance.randint(2, 3)
        lines.append(
            f"create rule join for byId if (count(qs:slice()) ge {count}) then "
            "(do enqueue <joined id='{qs:slicekey()}' count='{count(qs:slice())}'/> into end, do reset)"
        )
    lines += ["create rule reply for replies if (/*) then do enqueue <got>{/*/@id}</got> into end"]
    lines += ["create rule late for late if (/*) then do enqueue <waited>{/*/@id}</waited> into end"]
    return "\n".join(lines)


def _draw_action(chance: random.Random, target: str) -> str:
    content = chance.choice(
        ("{string(/*)}", "<a>{string(/*)}</a>", "{current-dateTime()}", "{qs:property('demaq:id')}")
    )
    action = f"do enqueue <m id='{{/*/@id}}' n='{{/*/@n}}'>{content}</m> into {target}"
    if target == "later":
        length = chance.choice(("PT5S", "PT90S", "P2D"))
        action += f" with timeout value xs:dayTimeDuration('{length}') with target value 'late'"
    return action


class Traffic:
    """An application that has run on random messages, of which all are kept."""

    def __init__(self, chance: random.Random, text: str) -> None:
        self.lab: Lab | None = None
        self.store = MemoryStore(now=lambda: START)
        self.lab = Lab(text, self.store)
        self.lab.now = START + timedelta(seconds=chance.uniform(0, 1e6))
        for _ in range(chance.randint(2, 8)):
            for _ in range(chance.choice((1, 1, 2, 3))):
                self._send(chance)
            self.lab.run_until_idle()
            if chance.random() < 0.7:
                self._reply(chance)
            self.lab.advance(chance.choice((0, 0.25, 3, 100, 200_000)))

    def _send(self, chance: random.Random) -> None:
        assert self.lab is not None
        content = chance.choice(BODIES).replace("&", "&amp;").replace("<", "&lt;")
        body = f'<m id="{chance.choice("abc")}" n="{chance.randint(0, 3)}">{content}</m>'
        properties = {"colour": chance.choice(("red", "it's: blue"))} if chance.random() < 0.4 else {}
        self.lab.enqueue(chance.choice(("q0", "q1")), body, properties)

    def _reply(self, chance: random.Random) -> None:
        """Let the receiver of a message reply, as the outbox would note it."""
        assert self.lab is not None
        waiting = [message for message in self.store.stored("out", 0, 10_000) if message.undelivered]
        if not waiting:
            return
        sent = chance.choice(waiting)
        incoming = IncomingMessage(
            f'<ok id="{chance.choice("abc")}"/>', inherited=sent.properties, hops=sent.hops + 1, trigger=sent
        )
        reply = self.lab._engine.factory.receive("replies", incoming, self.lab.now)
        processed = sent.seq if sent.processed is None else None
        self.store.commit([Step(processed=processed, delivered=sent.seq, created=(reply,))])
        self.lab.run_until_idle()


def record(traffic: Traffic, seqs: list[int], *masked: str) -> RecordedScenario:
    assert traffic.lab is not None
    program = traffic.lab.program
    found = find_traffic(traffic.store, program, seqs)
    return record_scenario(program, found, "recorded", [parse_mask_path(path) for path in masked], b"secret")


def check(folder: Path, text: str, scenario: str) -> None:
    file, application = folder / "scenario.yaml", folder / "app.dmq"
    file.write_text(scenario, encoding="utf-8")
    application.write_text(text, encoding="utf-8")
    with Lab(application) as lab:
        read = read_scenarios(file, lab.program)
    for result in run_scenarios(application, read.scenarios):
        assert result.failure is None, f"{result.failure}\n{scenario}\n{text}"


def test_what_is_recorded_passes_with_the_same_application(chance: random.Random, tmp_path: Path):
    met: Counter[str] = Counter(
        {"passes": 0, "error:": 0, "properties:": 0, "…": 0, "late": 0, "replies": 0, "joined": 0}
    )
    for _ in draw_until(lambda: all(met.values()), 25, "RECORDINGS"):
        text = draw_program(chance)
        traffic = Traffic(chance, text)
        seq = chance.choice(traffic.store.stored(None, 0, 10_000)).seq

        found = record(traffic, [seq])

        check(tmp_path, text, found.text)
        assert found.notices == (), found.text  # no rule reads what is not recorded
        for feature in met:
            met[feature] += feature in found.text
        masked = record(traffic, [seq], "//@id", "//a")
        check(tmp_path, text, masked.text)
    assert all(met.values()), met


def test_what_depends_on_messages_that_are_not_recorded_is_said(tmp_path: Path):
    text = """
    create queue a create queue b kind mailbox
    create property id as xs:string queue a value string(/m/@id)
    create slicing byId on id
    create rule count for a if (/m) then do enqueue <before>{for $m in qs:queue("a") return <m/>}</before> into b
    """
    store = MemoryStore(now=lambda: START)
    with Lab(text, store) as lab:
        for number in (1, 2):
            lab.enqueue("a", f'<m id="{number}"/>')
            lab.run_until_idle()
        last = store.stored("b", 0, 9)[-1].seq
        found = record_scenario(lab.program, find_traffic(store, lab.program, [last]), "recorded", [], b"")

    assert found.notices == ("what was made in queue b differs from what the scenario leads to",)
    check(tmp_path, text, found.text)


def test_messages_without_stored_inputs_cannot_be_recorded():
    text = "create queue a create queue b kind mailbox\ncreate rule r for a if (/m) then do enqueue <n/> into b"
    store = MemoryStore(now=lambda: START)
    with Lab(text, store) as lab:
        lab.enqueue("a", "<m/>")
        lab.run_until_idle()
        lab.collect_garbage()
        (made,) = [message.seq for message in store.stored("b", 0, 9)]
        with pytest.raises(OperatorError, match="--keep"):
            find_traffic(store, lab.program, [made])


def test_masks_are_consistent_in_inputs_properties_and_results(tmp_path: Path):
    text = """
    create queue orders create queue payments create queue done kind mailbox
    create property customer as xs:string queue orders, payments
    create property order as xs:integer queue orders, payments value xs:integer(/*/@order)
    create slicing byOrder on order
    create rule pay for byOrder if (qs:slice()/order and qs:slice()/payment) then
      (do enqueue <done order="{qs:slicekey()}">{qs:slice()/order/name}</done> into done, do reset)
    """
    store = MemoryStore(now=lambda: START)
    with Lab(text, store) as lab:
        order = '<order order="4711"><name born="1970-02-28">Ada Smith</name><mail>a.smith@example.org</mail></order>'
        lab.enqueue("orders", order, {"customer": "Ada Smith"})
        lab.run_until_idle()
        lab.advance(60)
        lab.enqueue("payments", '<payment order="4711"/>')
        lab.run_until_idle()
        found = find_traffic(store, lab.program, [1])
        paths = [parse_mask_path(path) for path in ("//name", "mail", "@order")]
        recorded = record_scenario(lab.program, found, "recorded", paths, b"key")

    assert recorded.notices == ()
    for secret in ("Ada", "Smith", "smith", "4711", "1970-02-28", "example.org"):
        assert secret not in recorded.text
    assert re.search(r'<name born="\d{4}-\d\d-\d\d">[A-Z][a-z]{2} [A-Z][a-z]{4}</name>', recorded.text)
    assert re.search(r"<mail>[a-z]\.[a-z]{5}@[a-z]{7}\.[a-z]{3}</mail>", recorded.text)
    name = re.search(r"'customer': '([^']+)'", recorded.text)
    assert name is not None
    assert f">{name[1]}</name>" in recorded.text
    assert recorded.text.count(">" + name[1] + "</name>") == 2  # in the order and in what was made of it
    check(tmp_path, text, recorded.text)


def test_errors_are_expected_by_what_is_known_about_them():
    text = "create queue a create queue e kind mailbox\ncreate rule r for a errorqueue e if (1 idiv 0 = 1) then do enqueue <n/> into e"
    store = MemoryStore(now=lambda: START)
    with Lab(text, store) as lab:
        lab.enqueue("a", "<m/>")
        lab.run_until_idle()
        found = record_scenario(lab.program, find_traffic(store, lab.program, [1]), "recorded", [], b"")
        assert any(ERROR_LEVEL in message.properties for message in lab.read_created("e"))

    assert "- error: {queue: 'e', kind: 'dynamicError', rule: 'r', code: 'FOAR0001'}" in found.text


@pytest.mark.parametrize("path", ["", "/", "//", "a/", "@a/b", "a[1]", "//a|//b", "..", "a b"])
def test_what_is_no_path_to_mask_is_refused(path: str):
    with pytest.raises(OperatorError, match="is no path such as"):
        parse_mask_path(path)


@pytest.mark.parametrize(
    "text", [*BODIES, "", "\n", "a\n", "\na", "a\n b\n\nc", "'", '"', "a\r\nb", "\u2028", "- x", "|"]
)
def test_texts_survive_yaml(text: str):
    import yaml

    assert yaml.safe_load(f"a:\n  - {write_text(text, 4)}\n")["a"] == [text]
