"""Lines of the log: one for each event, as text or as JSON, with the trace that the event belongs to.

What is logged never holds a body or a secret. Text of others, such as the reason of another server, may hold line
breaks and control characters; these are escaped, so that an event is one line whatever it says.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Literal

from demaq.trace_context import CURRENT_TRACE

LogFormat = Literal["text", "json"]
LEVELS = ("debug", "info", "warning", "error")
TEXT_CHARACTERS_MAX = 10_000
"""Longer messages of the log are cut."""


class LineFormatter(logging.Formatter):
    """Formats an event as text: time, level unless it is a warning, and the message."""

    def format(self, record: logging.LogRecord) -> str:
        text = escape_lines(self._describe(record))
        level = "" if record.levelno == logging.WARNING else f"{record.levelname.lower()}: "
        trace_id = find_trace_id(record)
        trace = "" if trace_id is None else f" [trace {trace_id}]"
        time = datetime.fromtimestamp(record.created).strftime("%Y-%m-%d %H:%M:%S")
        return f"{time},{int(record.msecs):03d} {level}{text}{trace}"

    def _describe(self, record: logging.LogRecord) -> str:
        """Return the message, with the traceback of a mistake of ours."""
        message = cut(record.getMessage())
        if record.exc_info and record.exc_info[0] is not None:
            message = f"{message}\n{self.formatException(record.exc_info)}"
        return message


class JsonFormatter(LineFormatter):
    """Formats an event as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        found: dict[str, str] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": cut(record.getMessage()),
        }
        trace_id = find_trace_id(record)
        if trace_id is not None:
            found["trace_id"] = trace_id
        if record.exc_info and record.exc_info[0] is not None:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found)  # ASCII, so no character of another line can be in it


def find_trace_id(record: logging.LogRecord) -> str | None:
    """Return the trace that an event names, or that its task is part of."""
    named = getattr(record, "trace_id", None)
    if named is not None:
        return str(named)
    trace = CURRENT_TRACE.get()
    return None if trace is None else trace[0].trace_id


def cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS_MAX else f"{text[:TEXT_CHARACTERS_MAX]}…"


def escape_lines(text: str) -> str:
    """Return text in one line."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() else c.encode("unicode_escape").decode() for c in text])


def log_line(line: str, level: int = logging.INFO) -> None:
    """Log what a command reports to its user, whatever the level of the log."""
    logging.getLogger("demaq.run").log(level, line)


def is_logged_as_json() -> bool:
    """Return whether the log of this process is JSON, so that everything else on stderr has to be, too."""
    return any([isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers])


def configure_logging(log_format: LogFormat, level: str) -> None:
    """Let the log of this process go to stderr, in this format and from this level on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else LineFormatter())
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old.formatter, LineFormatter)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)  # of others' libraries no more than that: what they say may hold anything
    logging.getLogger("demaq").setLevel(level.upper())
    logging.getLogger("demaq.run").setLevel(logging.INFO)
