"""A rule that does not end, or takes all memory, costs its own message time, and no other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from demaq.cli.run import run
from demaq.errors import OperatorError
from demaq.server.node import Node
from tests.support.programs import program

PROGRAM = """
declare function local:forever($n) { if ($n < 0) then $n else local:forever($n + 1) };
declare function local:much($n) { count(fold-left(1 to $n, (), function($all, $n) { $all, <a>{$n}</a> })) };
create queue in create queue good create queue urgent priority 7 create queue out create queue failed
create property k as xs:string fixed queue in, good value /*/@k
create slicing s on k
create rule endless for in errorqueue failed if (//endless) then do enqueue <n>{local:forever(1)}</n> into out
create rule pattern for in errorqueue failed
  if (//text) then do enqueue <n>{matches(//text, "^(a+)+$")}</n> into out
create rule large for in errorqueue failed if (//large) then do enqueue <n>{local:much(200000000)}</n> into out
create rule answer for in if (/m) then do enqueue <in n="{/m/@n}"/> into out
create rule fine for good if (/m) then do enqueue <good n="{/m/@n}"/> into out
create rule first for urgent if (/m) then do enqueue <urgent n="{/m/@n}"/> into out
create rule members for s if (qs:slice()/none) then do enqueue <never/> into out
"""
LIMIT_SECONDS = 600.0
"""Longer than any of these tests waits: what is processed has not waited for what does not end."""
SOON_SECONDS = 120.0
"""On a machine that is busy with much else. A second, where it is not."""


@contextmanager
def running(folder: Path, **settings: float) -> Iterator[Node]:
    node = Node(program(folder, PROGRAM), folder / "store", **settings)  # type: ignore[arg-type]
    node.start()
    try:
        yield node
    finally:
        node.stop()


def wait_for(node: Node, *bodies: str, queue: str = "out", seconds: float = SOON_SECONDS) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = [message.body for message in node.store.stored(queue, 0, 1000)]
        if all([any([part in body for body in found]) for part in bodies]):
            return
        time.sleep(0.02)
    raise AssertionError(f"not there after {seconds:g} s: {bodies}, but {found}")


@pytest.mark.parametrize("count", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_other_queues_slices_and_priorities_go_on_while_rules_do_not_end(count: int, tmp_path: Path) -> None:
    with running(tmp_path, rule_timeout_seconds=LIMIT_SECONDS) as node:
        for number in range(count):
            node.enqueue("in", f'<m n="endless" k="{number}"><endless/></m>')
        time.sleep(0.3)
        began = time.monotonic()
        node.enqueue("good", '<m n="1" k="x"/>')
        node.enqueue("urgent", '<m n="2"/>')
        assert time.monotonic() - began < SOON_SECONDS / 4, "senders do not wait for rules"
        wait_for(node, '<good n="1"/>', '<urgent n="2"/>')
        node.enqueue("in", '<m n="3" k="y"/>')  # in the same queue, and another slice
        node.enqueue("good", '<m n="4" k="0"/>')  # after one that does not end
        node.enqueue("good", '<m n="5" k="x"/>')
        wait_for(node, '<good n="5"/>', '<in n="3"/>')
        waiting = [message.body for message in node.store.pending(100)]
        assert '<m n="4" k="0"/>' in waiting, "members of a slice stay in their order"
        assert len([body for body in waiting if "endless" in body]) == count
        assert node.read_status()["apart"]["queues"] == ["in"]
        assert node.read_status()["apart"]["messages"] >= count


@pytest.mark.slow
def test_a_rule_that_does_not_end_fails_alone_and_the_other_rules_act(tmp_path: Path) -> None:
    with running(tmp_path, rule_timeout_seconds=4.0) as node:
        node.enqueue("in", '<m n="1" k="a"><endless/></m>')
        node.enqueue("in", f'<m n="2" k="b"><text>{"a" * 40}b</text></m>')
        node.enqueue("in", '<m n="3" k="a"/>')
        wait_for(node, *[f'<in n="{n}"/>' for n in (1, 2, 3)], seconds=LIMIT_SECONDS)
        wait_for(node, "<rule>endless</rule>", "<rule>pattern</rule>", queue="failed")
        errors = [message.body for message in node.store.stored("failed", 0, 10)]
        assert len(errors) == 2
        assert all([error.startswith("<error><systemError/>") for error in errors])
        assert all(["it did not end within 4 s" in error for error in errors])
        order = [message.body for message in node.store.stored("out", 0, 100)]
        assert order.index('<in n="1"/>') < order.index('<in n="3"/>'), "both are in one slice"


@pytest.mark.slow
def test_a_rule_that_takes_too_much_memory_fails_alone_and_the_other_rules_act(tmp_path: Path) -> None:
    with running(tmp_path, rule_timeout_seconds=LIMIT_SECONDS, rule_memory_bytes=60_000_000) as node:
        node.enqueue("in", '<m n="1"><large/></m>')
        node.enqueue("in", '<m n="2"/>')
        wait_for(node, '<in n="1"/>', '<in n="2"/>', seconds=LIMIT_SECONDS)
        [error] = [message.body for message in node.store.stored("failed", 0, 10)]
        assert error.startswith("<error><systemError/><rule>large</rule>")
        assert "it took more than 60 MB of memory, which --rule-memory allows" in error


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("rule_timeout_seconds", float("nan")),
        ("rule_timeout_seconds", float("inf")),
        ("rule_timeout_seconds", 0.0),
        ("rule_timeout_seconds", -1.0),
        ("rule_memory_bytes", 0),
        ("rule_memory_bytes", -1),
        ("hops_max", 0),
    ],
)
def test_a_limit_that_is_none_is_refused(setting: str, value: float, tmp_path: Path) -> None:
    with pytest.raises(OperatorError), running(tmp_path, **{setting: value}):
        pass
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    "option",
    [
        *[("--rule-timeout", value) for value in ("nan", "inf", "-inf", "0", "-1", "1e300", "x")],
        *[("--rule-memory", value) for value in ("nan", "inf", "0", "-1GB", "1", "9MB", "x")],
        *[("--max-hops", value) for value in ("nan", "inf", "0", "-1", "1.5")],
        *[("--keep", value) for value in ("nan", "inf", "-1s", "1")],
    ],
)
def test_the_command_line_refuses_numbers_that_are_no_limits(option: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "app.dmq").write_text(PROGRAM)
    done = CliRunner().invoke(run, [str(tmp_path / "app.dmq"), "--store", str(tmp_path / "store"), *option])
    assert done.exit_code == 2, done.output
    assert option[0] in done.output
    assert not (tmp_path / "store").exists()
