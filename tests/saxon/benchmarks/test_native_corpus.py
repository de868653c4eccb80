"""The corpus of realistic rules: large enough, all of it evaluated, and native answers are Saxon's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from demaq_bench.native_corpus import CORPUS, CorpusRule, count_reasons, find_applications, measure

from demaq.cli import main as cli
from demaq.compiler.emit.python.reasons import HINTS
from demaq.evaluation.outcomes import Outcome
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.language.loader import check_application

RULES_MIN = 300
NATIVE_MIN = 0.9
"""The share of rules that are native."""
FALLBACKS_MAX = 0.02
"""The share of answers that native rules leave to Saxon."""


@pytest.fixture(scope="module")
def rules() -> list[CorpusRule]:
    return list(measure(find_applications()))


def test_the_corpus_is_large_and_without_errors(rules: list[CorpusRule]):
    assert len(rules) >= RULES_MIN
    for name in find_applications():
        checked = check_application(CORPUS / name / "rules.dmq")
        assert not checked.errors, [error.render() for error in checked.errors]


def test_every_rule_of_the_corpus_fires_and_none_fails(rules: list[CorpusRule]):
    assert [f"{rule.application}: {rule.name}" for rule in rules if not rule.fired] == []
    assert [f"{rule.application}: {rule.name}" for rule in rules if rule.failed] == []


def test_native_answers_in_the_corpus_are_saxons(rules: list[CorpusRule]):
    assert [(rule.name, rule.differences) for rule in rules if rule.differences] == []
    answers, fallbacks = sum([rule.answers for rule in rules]), sum([rule.fallbacks for rule in rules])
    assert answers > 5 * len([rule for rule in rules if rule.reason is None])
    assert fallbacks <= FALLBACKS_MAX * answers
    fired, natively = sum([rule.fired for rule in rules]), sum([rule.fired_natively for rule in rules])
    assert natively >= NATIVE_MIN * fired


def test_most_rules_are_native_and_all_others_have_a_reason(rules: list[CorpusRule]):
    native = [rule for rule in rules if rule.reason is None]
    assert len(native) >= NATIVE_MIN * len(rules), [(each.text, len(each.rules)) for each in count_reasons(rules)]
    for rule in rules:
        if rule.reason is not None:
            assert rule.reason.code in HINTS
            assert rule.reason.at is not None
            assert rule.reason.at.file.endswith(".dmq")


def test_the_command_shows_applications_reasons_and_data(capsys: pytest.CaptureFixture[str]):
    assert cli.run(cli.demaq, ["bench", "native", "--application", "feeds", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["rules"] == len(shown["each"]) >= 30
    left = [rule["reason"]["text"] for rule in shown["each"] if not rule["native"]]
    assert sum([reason["rules"] for reason in shown["reasons"]]) == len(left) == shown["rules"] - shown["native"]
    assert cli.run(cli.demaq, ["bench", "native", "--application", "feeds"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("application")
    assert lines[1].split()[:3] == ["feeds", str(shown["rules"]), str(shown["native"])]
    assert cli.run(cli.demaq, ["bench", "native", "--application", "nobody"]) == 2


def test_an_answer_that_differs_is_shown_and_ends_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    evaluate = SaxonEvaluator.evaluate_natively

    def forget_actions(*args: Any) -> tuple[Outcome, list[str] | None]:
        outcome, left = evaluate(*args)
        outcome.actions.clear()
        return outcome, left

    monkeypatch.setattr(SaxonEvaluator, "evaluate_natively", forget_actions)
    assert cli.run(cli.demaq, ["bench", "native", "--application", "feeds"]) == 1
    assert "not Saxon's answer" in capsys.readouterr().out
