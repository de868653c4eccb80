"""Which settings protect Spark, where the secret of a cluster comes from, and what a refusal means."""

from __future__ import annotations

from pathlib import Path

import pytest

from demaq.cli.main import demaq as command
from demaq.cli.main import run
from demaq.errors import OperatorError
from demaq.spark.security import (
    AUTHENTICATE,
    PROTECTED,
    SECRET,
    SECRET_FILE,
    SECRET_VARIABLE,
    explain_refusal,
    is_secret,
    protection_settings,
)

STANDALONE = "spark://127.0.0.1:7077"
LONG = "0123456789abcdef"


@pytest.mark.parametrize("master", ["local", "local[*]", "yarn", "k8s://https://example.org", STANDALONE])
def test_every_master_is_protected_unless_the_operator_says_otherwise(master: str) -> None:
    assert protection_settings(master, {}, {}).items() >= PROTECTED.items()
    assert PROTECTED[AUTHENTICATE] == PROTECTED["spark.network.crypto.enabled"] == "true"
    assert protection_settings(master, {AUTHENTICATE: "False"}, {SECRET_VARIABLE: LONG}) == {}


def test_the_secret_of_a_cluster_comes_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    file.write_text("of the file 1234\n")
    by_file, by_variable = {SECRET_FILE: str(file)}, {SECRET_VARIABLE: "of the variable 1"}
    assert protection_settings(STANDALONE, by_file, by_variable)[SECRET] == "of the file 1234"
    assert protection_settings(STANDALONE, {}, by_variable)[SECRET] == "of the variable 1"
    assert SECRET not in protection_settings("local[2]", by_file, by_variable), "Spark makes one of its own"


@pytest.mark.parametrize("text", ["", "too short", "two lines\nof some length"])
def test_a_secret_that_can_be_guessed_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    file.write_text(text)
    with pytest.raises(OperatorError, match="one line of at least 16 characters") as refusal:
        protection_settings(STANDALONE, {SECRET_FILE: str(file)}, {})
    assert not text or text not in str(refusal.value)


def test_a_file_with_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(LONG)
    file.chmod(0o644)
    with pytest.raises(OperatorError, match="others may read or change it"):
        protection_settings(STANDALONE, {SECRET_FILE: str(file)}, {})


def test_no_command_takes_a_secret_on_its_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["run", "shop.dmq"], ["load", "orders", "."], ["export", "orders", "x"], ["demo"]):
        assert run(command, [*words, "--conf", f"{SECRET}={LONG}"]) == 2
        said = capsys.readouterr().err
        assert f"{SECRET_FILE}=FILE" in said
        assert LONG not in said


def test_settings_that_may_hold_secrets_are_recognised_by_their_names() -> None:
    named = [SECRET, "spark.ssl.keyPassword", "spark.hadoop.fs.s3a.access.key", "spark.kubernetes.oauthToken"]
    assert [is_secret(name) for name in named] == [True] * len(named)
    assert not any([is_secret(name) for name in PROTECTED])


@pytest.mark.parametrize(
    ("log", "meaning"),
    [
        ("Caused by: java.lang.IllegalArgumentException: Unknown challenge message.\n", "asks for a secret"),
        ("ERROR TransportClientFactory: Exception while bootstrapping client after 2 ms\n", "another secret, or none"),
    ],
)
def test_a_refusal_is_recognised_by_what_java_logs(log: str, meaning: str) -> None:
    assert meaning in str(explain_refusal(log))


def test_other_failures_are_no_refusals() -> None:
    assert explain_refusal("Caused by: java.lang.OutOfMemoryError: Java heap space\n") is None
