"""`demaq try`: it says what a node would do."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from demaq import Node
from demaq.cli import main as cli
from demaq.language.system_properties import SYSTEM_PROPERTIES
from demaq.rounds.simple.settings import EvaluatorName
from demaq.testing import Lab

WAIT_SECONDS_MAX = 60.0


def tell_all(names: list[str]) -> str:
    """The text of a program whose rules write down what they are told about a message, and when that is."""
    queues = "create queue in create queue out\n"
    when = "create property when as xs:dateTime queue in value current-dateTime()\n"
    values = "".join([f'<p n="{name}">{{qs:property("{name}")}}</p>' for name in names])
    tell = f"create rule tell for in if (true()) then do enqueue <seen>{values}</seen> into out\n"
    time = "create rule time for in if (true()) then do enqueue <t>{current-dateTime(), qs:property('when')}</t> into out\n"
    slicings = [
        f"create slicing by{number} on {name}\n"
        f"create rule slice{number} for by{number} if (/m) then"
        "  do enqueue <key><n>{count(qs:slice())}</n>{qs:slicekey()}</key> into out\n"
        for number, name in enumerate(names)
    ]
    return queues + when + tell + time + "".join(slicings)


class Tried:
    """Runs `demaq try` in one folder; keeps what it said."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *words: str) -> int:
        self._capsys.readouterr()
        code = cli.run(cli.demaq, ["try", *words])
        self.out, self.err = self._capsys.readouterr()
        return code


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tried:
    monkeypatch.chdir(tmp_path)
    return Tried(capsys)


# --- the same as elsewhere -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("now", ["2026-05-01T12:30:00+02:00", "2026-05-01T12:30:00.250000Z", "2026-05-01T12:30:00"])
@pytest.mark.parametrize("evaluator", ["auto", "saxon"])
def test_the_system_says_the_same_about_a_message_here_in_a_laboratory_and_in_a_node(
    tried: Tried, evaluator: EvaluatorName, now: str
):
    Path("app.dmq").write_text(tell_all(list(SYSTEM_PROPERTIES)))
    body = '<?xml version="1.0" encoding="ISO-8859-1"?>\n<m>f\u00fcnf</m>\n'.encode("iso-8859-1")
    Path("m.xml").write_bytes(body)
    at = datetime.fromisoformat(now)
    at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    assert tried("app.dmq", "m.xml", "--queue", "in", "--now", now, "--json", "--evaluator", evaluator) == 0, tried.err
    by_try = [action["enqueue"] for action in json.loads(tried.out)["actions"]]
    with Lab("app.dmq", evaluator=evaluator) as lab:
        lab.now = at
        lab.enqueue("in", body)
        lab.run_until_idle()
        in_lab = [message.body for message in lab.made("out")]
    node = Node("app.dmq", "store", clock=lambda: at, evaluator=evaluator)
    node.start()
    try:
        node.enqueue("in", body)
        until = time.monotonic() + WAIT_SECONDS_MAX
        while not (found := node.store.stored("out", 0, 99)) and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        node.stop()
    assert by_try == in_lab == [message.body for message in found]
    assert f'<p n="demaq:created">{at:%Y-%m-%dT%H:%M:%S}' in by_try[0]
    assert len(by_try) > 5, "it is in slices"
