"""Which queues answer senders: what is sent to a recipient that a message names is no answer, and no sender waits for it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from demaq.cli import main as cli
from demaq.compiler.planner import make_plan
from demaq.gateways.answer_queues import find_answer_queues
from demaq.gateways.settings import IncomingSettings, Settings
from demaq.language.loader import load_program
from tests.support.gateways.nodes import running
from tests.support.soap.policies import SIGNED_BODY

QUEUES = """
create queue a kind incomingGateway
create queue b kind incomingGateway
create queue work create queue came create queue errors
create queue out kind outgoingGateway
create queue partners kind outgoingGateway replyto came
create queue fixed kind outgoingGateway endpoint "http://fixed.invalid/" replyto came
create queue timer kind echo
create queue safe kind outgoingGateway using WS-Security policy "p.xml"
"""
TO = 'with Recipient value "http://x.invalid/"'
RULES = {
    "an enqueue without recipient answers": ("for a if (/m) then do enqueue <x/> into out", {"a": ["out"]}),
    "one with a recipient does not": (f"for a if (/m) then do enqueue <x/> into out {TO}", {}),
    "one of two without is enough": (
        f"for a if (/m) then (if (/m/n) then do enqueue <x/> into out else do enqueue <x/> into out {TO})",
        {"a": ["out"]},
    ),
    "another rule's use of the queue does not count": (
        f"for a if (/m) then do enqueue <x/> into out {TO} create rule s for b if (/m) then do enqueue <x/> into out",
        {"b": ["out"]},
    ),
    "an address of its own never answers": ("for a if (/m) then do enqueue <x/> into fixed", {}),
    "through another queue": (
        "for a if (/m) then do enqueue <x/> into work create rule s for work if (/x) then do enqueue <x/> into out",
        {"a": ["out"]},
    ),
    "what a recipient replies may be answered with": (
        f"for a if (/m) then do enqueue <x/> into partners {TO} create rule s for came if (/x) then do enqueue <x/> into out",
        {"a": ["out"]},
    ),
    "errors may be answered with": ("for a errorqueue out if (/m) then do enqueue <x/> into work", {"a": ["out"]}),
    "a timer leads where it says": (
        'for a if (/m) then do enqueue <x/> into timer with timeout value 1 with target value "work"',
        {},
    ),
    "a timer may answer": (
        'for a if (/m) then do enqueue <x/> into timer with timeout value 1 with target value "out"',
        {"a": ["out"]},
    ),
    "a timer whose target is computed may lead anywhere": (
        "for a if (/m) then do enqueue <x/> into timer with timeout value 1 with target value string(/m)",
        {"a": ["out", "partners"]},
    ),
    "a gateway that is not started answers nobody": ("for a if (/m) then do enqueue <x/> into safe", {}),
    "an updating function is looked into": (
        "for a if (/m) then local:put(/m)",
        {"a": ["out"]},
    ),
}
FUNCTION = "declare updating function local:put($m) { do enqueue $m into out };"


@pytest.mark.parametrize("case", RULES)
def test_a_queue_answers_if_something_comes_there_without_a_recipient(tmp_path: Path, case: str):
    rule, expected = RULES[case]
    (tmp_path / "p.xml").write_text(SIGNED_BODY)
    (tmp_path / "a.dmq").write_text(f"{FUNCTION if 'local:put' in rule else ''}{QUEUES}create rule r {rule}")
    found = find_answer_queues(make_plan(load_program(tmp_path / "a.dmq"))).by_gateway

    assert {gateway: list(queues) for gateway, queues in found.items()} == {"a": [], "b": [], **expected}


APPLICATION = """
create queue orders kind incomingGateway
create queue questions kind incomingGateway
create queue partners kind outgoingGateway
create queue answers kind outgoingGateway
create rule send for orders if (/order) then do enqueue /* into partners with Recipient value string(/order/@to)
create rule both for questions if (/q) then
  (do enqueue <secret/> into partners with Recipient value string(/q/@to), do enqueue <answer/> into answers)
"""


def test_no_sender_waits_where_all_that_is_sent_has_a_recipient(tmp_path: Path):
    settings = Settings(incoming_default=IncomingSettings(reply_seconds_max=20))
    with running(tmp_path, APPLICATION, settings) as here:
        began = time.monotonic()
        answer = here.post("/orders", '<order to="http://127.0.0.1:9/"/>')
        assert answer.status_code == 202
        assert time.monotonic() - began < 10
        # A recipient that is empty makes no answer of what was meant for another recipient.
        here.post("/orders", '<order to=""/>')
        said = here.post("/questions", '<q to=""/>')
        assert (said.status_code, said.text) == (200, "<answer/>")
        errors = here.wait_for("demaq:errors", 3)
        assert ["<routing/>" in error.body for error in errors] == [True, True, True]
        assert "names no recipient" in errors[-1].body


def test_check_and_explain_say_which_queues_answer(tmp_path: Path, capsys):
    (tmp_path / "a.dmq").write_text(APPLICATION)
    assert cli.run(cli.demaq, ["check", str(tmp_path / "a.dmq")]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "orders is not answered: senders get 202 when their messages are stored",
        "questions is answered from answers",
    ]
    assert cli.run(cli.demaq, ["check", "--json", str(tmp_path / "a.dmq")]) == 0
    assert json.loads(capsys.readouterr().out)["answeredFrom"] == {"orders": [], "questions": ["answers"]}
    assert cli.run(cli.demaq, ["explain", str(tmp_path / "a.dmq")]) == 0
    shown = capsys.readouterr().out
    assert "queue questions (incomingGateway, persistent)\n  senders wait for an answer from answers\n" in shown
    assert "  senders get 202 when their messages are stored: no queue answers\n" in shown
    assert cli.run(cli.demaq, ["explain", "--queue", "answers", str(tmp_path / "a.dmq")]) == 0
    assert "  answers senders of questions\n" in capsys.readouterr().out
    assert cli.run(cli.demaq, ["explain", "--json", "--queue", "questions", str(tmp_path / "a.dmq")]) == 0
    assert json.loads(capsys.readouterr().out)["queues"][0]["answeredFrom"] == ["answers"]


def test_an_application_without_gateways_says_nothing_about_answers(tmp_path: Path, capsys):
    (tmp_path / "a.dmq").write_text("create queue a create rule r for a if (/m) then do enqueue <x/> into a")
    assert cli.run(cli.demaq, ["check", str(tmp_path / "a.dmq")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
