"""Evaluate an XPath or XQuery expression on messages, in a worker process with limits of time and memory.

The expression is compiled as a property of an application that has nothing else. So it is checked as the expressions of
authors are: functions that reach outside are refused, and most expressions are evaluated natively.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from demaq.documents import Document
from demaq.errors import OperatorError, ProgramError
from demaq.evaluation.round_request import PropertyRequest, PropertyResult
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.language.loader import load_program_texts
from demaq.store.protocol import StoredMessage

FILE = "expression.dmq"
QUEUE, PROPERTY = "messages", "holds"
SECONDS_MAX = 10.0
"""How long the expression may take for the messages of one piece."""
_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)


class XPathFilter:
    """An expression. Whether it holds for messages is computed by a worker process."""

    def __init__(self, evaluator: ProcessEvaluator) -> None:
        self._evaluator = evaluator
        self.failed = 0
        """For how many messages the expression had an error: it does not hold for them."""

    def __call__(self, messages: Sequence[StoredMessage]) -> list[bool]:
        now = datetime.now(UTC)
        asked = [PropertyRequest(queue=QUEUE, document=Document(message.body), now=now) for message in messages]
        found: list[bool] = []
        for result in self._evaluator.compute_properties(asked):
            is_result = isinstance(result, PropertyResult)
            self.failed += not is_result
            value = result.properties.get(PROPERTY) if isinstance(result, PropertyResult) else None
            found.append(value is not None and value.text == "true")
        return found


@contextmanager
def open_filter(expression: str, namespaces: Mapping[str, str], where: str | Path) -> Iterator[XPathFilter]:
    """Yield the filter of an expression. Raises an OperatorError if it is wrong."""
    files = {FILE: write_program(expression, namespaces)}
    check_expression(files)
    with closing(ProcessEvaluator(files, where, SECONDS_MAX)) as evaluator:
        yield XPathFilter(evaluator)


def write_program(expression: str, namespaces: Mapping[str, str]) -> str:
    """Return the text of an application with the expression as a property."""
    if not expression.strip():
        raise OperatorError("the expression is wrong: it is empty")
    lines: list[str] = []
    for prefix, uri in namespaces.items():
        if _PREFIX.fullmatch(prefix) is None or not uri or any([c.isspace() or c in "{}\"'<>&" for c in uri]):
            given = f"{prefix}={uri}"
            raise OperatorError(f"a namespace is declared such as o=urn:example:orders, not {given}")
        lines.append(f'declare namespace {prefix} = "{uri}";')
    lines.append(f"create queue {QUEUE}")
    lines.append(f"create property {PROPERTY} as xs:boolean fixed queue {QUEUE} value boolean((")
    lines += [expression, "))"]
    return "\n".join(lines) + "\n"


def check_expression(files: Mapping[str, str]) -> None:
    """Raises an OperatorError if the expression is wrong, or is not one expression."""
    try:
        program = load_program_texts(dict(files))
        is_one = list(program.properties_of(QUEUE)) and not program.rules and len(program.modules) == 1
        compile_program(program)
    except ProgramError as error:
        message = error.message
        if error.at is not None and error.at.line == files[FILE].count("\n"):  # where the parentheses around it close
            message = message.replace("found `)`", "found its end")
        raise OperatorError(f"the expression is wrong: {message}") from None
    declared = [queue for queue in program.queues.values() if not queue.name.startswith("demaq:")]
    if not is_one or len(declared) != 1:
        raise OperatorError("the expression is wrong: it is not one expression")
