"""Lines of the log: one for each event, whatever it says."""

from __future__ import annotations

import json
import logging
import random
import sys

import pytest

from demaq.log_format import TEXT_CHARACTERS_MAX, JsonFormatter, LineFormatter
from demaq.trace_context import CURRENT_TRACE, TraceContext

ALPHABET = [*"ab \"'\\{}%s\n\r\t\0\x1b\x7f\x85", "\u2028", "\u2029", "\ud800", "é", "🙂"]


def make_record(message: str, *arguments: object, level: int = logging.WARNING, **extra: str) -> logging.LogRecord:
    record = logging.LogRecord("demaq.node", level, "file", 1, message, arguments, None)
    for name, value in extra.items():
        setattr(record, name, value)
    return record


def test_any_text_is_one_line_and_valid_json(chance: random.Random):
    for _ in range(200):
        text = "".join(chance.choices(ALPHABET, k=chance.randint(0, 60)))
        found = json.loads(JsonFormatter().format(make_record("%s", text)))
        assert found["message"] == text
        for line in (JsonFormatter().format(make_record("%s", text)), LineFormatter().format(make_record("%s", text))):
            assert len(line.splitlines()) == 1
            assert line.isprintable()


def test_an_exception_is_part_of_its_event():
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = make_record("it failed")
        record.exc_info = sys.exc_info()
    found = json.loads(JsonFormatter().format(record))
    assert "ValueError: two\nlines" in found["exception"]
    assert len(LineFormatter().format(record).splitlines()) == 1


def test_what_is_too_long_is_cut():
    assert len(json.loads(JsonFormatter().format(make_record("x" * 100_000)))["message"]) == TEXT_CHARACTERS_MAX + 1


@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_the_trace_is_that_of_the_event_or_of_its_task(formatter: logging.Formatter):
    assert "trace" not in formatter.format(make_record("a"))
    assert "0af7" in formatter.format(make_record("a", trace_id="0af7"))
    token = CURRENT_TRACE.set((TraceContext("b" * 32, None, False), "c" * 16))
    try:
        assert "b" * 32 in formatter.format(make_record("a"))
    finally:
        CURRENT_TRACE.reset(token)
