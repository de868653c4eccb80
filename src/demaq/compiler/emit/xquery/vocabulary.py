"""Names in generated XQuery. They carry their namespace, so that they never clash with the author's."""

from __future__ import annotations

from dataclasses import dataclass, field

from demaq.language.namespaces import FN, XS
from demaq.source import SourceLocation

RUNTIME = "demaq:runtime"

MESSAGE = f"$Q{{{RUNTIME}}}message"
"""The message of a rule: its document, or the element that represents it inside a batch."""
NODE = f"$Q{{{RUNTIME}}}node"
"""The message as parsed."""
RECORD = f"$Q{{{RUNTIME}}}record"
"""Queue, time and properties of the message, as an element."""
STATE = f"$Q{{{RUNTIME}}}state"
"""The state read for the rule, and the functions that compute properties of new messages."""
RULE = f"$Q{{{RUNTIME}}}rule"
"""The number of the evaluated rule, for actions in declared functions."""
KNOWN = f"$Q{{{RUNTIME}}}known"
"""The properties of a message in the making, by name."""

SITE = "demaq.site."
"""The prefix of an error value that gives its site by number."""

SEPARATOR = "\x1e"
"""Separates the fields of a result. No XML document, and so no string of XQuery, can contain it."""


@dataclass(slots=True)
class Sites:
    """Source locations of actions (sites), by the number that generated text gives them in errors."""

    locations: list[SourceLocation] = field(default_factory=list)

    def number(self, at: SourceLocation) -> str:
        self.locations.append(at)
        return str(len(self.locations) - 1)


def runtime(name: str) -> str:
    """Return a function of the runtime.

    It is compiled once and passed in with the state, not compiled again in every block.
    """
    return f"{STATE}?d?{name}"


def runtime_name(name: str) -> str:
    """Return the same for queries that declare the functions of the runtime themselves."""
    return f"Q{{{RUNTIME}}}{name}"


def fn(name: str) -> str:
    return f"Q{{{FN}}}{name}"


def xs(name: str) -> str:
    return f"Q{{{XS}}}{name}"


def literal(text: str) -> str:
    """Return a string literal of XQuery."""
    return '"' + text.replace("&", "&amp;").replace('"', '""').replace("\r", "&#xD;") + '"'


def full_name(uri: str, local: str) -> str:
    """Return a name with its namespace, escaped."""
    escaped = uri.replace("&", "&amp;").replace("{", "&#x7B;").replace("}", "&#x7D;")
    return f"Q{{{escaped}}}{local}"
