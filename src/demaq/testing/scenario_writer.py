"""Write a scenario as YAML. Texts are quoted, so that nothing in them has a meaning of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

_PLAIN = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]*")


class ScenarioText:
    """The text of a file with one scenario, step by step."""

    def __init__(self, name: str, begins: datetime, collections: Mapping[str, Sequence[str]]) -> None:
        self._lines: list[str] = []
        if collections:
            self._lines.append("collections:")
            for collection, documents in collections.items():
                self._lines.append(f"  {quote_text(collection)}:")
                self._lines += [f"    - {write_text(document, 6)}" for document in documents]
        time = begins.astimezone(UTC).replace(tzinfo=None).isoformat()
        self._lines += ["scenarios:", f"  - name: {quote_text(name)}", f"    begins: {time}Z", "    steps:"]
        self._expectations: list[str] = []

    def add_pause(self, seconds: float) -> None:
        shown = f"{seconds:.6f}".rstrip("0").rstrip(".")
        if shown != "0":
            self._lines.append(f"      - passes: {shown} seconds")

    def add_arrivals(self, messages: Sequence[tuple[str, str, Mapping[str, str]]]) -> None:
        """Add messages with queue, body and properties that are all there before the first is processed."""
        self._lines.append("      - arrives:")
        for queue, body, properties in messages:
            self._lines += [f"          - queue: {quote_text(queue)}", f"            body: {write_text(body, 14)}"]
            if properties:
                given = ", ".join([f"{quote_text(name)}: {quote_text(value)}" for name, value in properties.items()])
                self._lines.append(f"            properties: {{{given}}}")

    def add_error(self, said: Mapping[str, str]) -> None:
        shown = ", ".join([f"{name}: {quote_text(value)}" for name, value in said.items()])
        self._expectations.append(f"          - error: {{{shown}}}")

    def add_made(self, queue: str, bodies: Sequence[str]) -> None:
        self._expectations += [f"          - queue: {quote_text(queue)}", "            made:"]
        self._expectations += [f"              - {write_text(body, 16)}" for body in bodies]

    def finish(self) -> str:
        if self._expectations:
            self._lines += ["      - expect:", *self._expectations]
        return "\n".join(self._lines) + "\n"


def write_text(text: str, indent: int) -> str:
    """Return a text as a block of lines if it has several, and nothing in it makes that ambiguous; otherwise quoted."""
    lines = text.split("\n")
    is_block = len(lines) > 1 and all([_PLAIN.fullmatch(line) for line in lines])
    if not is_block or not lines[0].strip() or lines[0][0] == " " or not lines[-1].strip():
        return quote_text(text)
    return "\n".join(["|-", *[f"{' ' * indent}{line}" if line else "" for line in lines]])


def quote_text(text: str) -> str:
    """Return a text as YAML quotes it: in single quotes, or with escapes if it has characters of control."""
    if _PLAIN.fullmatch(text):
        return "'" + text.replace("'", "''") + "'"
    return json.dumps(text)
