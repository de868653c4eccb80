"""How generated XQuery names things. Names carry their namespace, so that the author's never get in the way."""

from __future__ import annotations

from dataclasses import dataclass, field

from demaq.language.namespaces import FN, XS
from demaq.source import SourceLocation

RUNTIME = "demaq:runtime"

MESSAGE = f"$Q{{{RUNTIME}}}message"
"""The message a rule is evaluated on: its document, or the element that stands for it inside a batch."""
NODE = f"$Q{{{RUNTIME}}}node"
"""The same as it came."""
RECORD = f"$Q{{{RUNTIME}}}record"
"""What is known about the message: queue, time and properties, as an element."""
STATE = f"$Q{{{RUNTIME}}}state"
"""What was read for the rule, and the functions that make properties of new messages."""
RULE = f"$Q{{{RUNTIME}}}rule"
"""The number of the rule that is evaluated, for what functions do in its name."""
KNOWN = f"$Q{{{RUNTIME}}}known"
"""Properties of a message in the making, by name."""

SITE = "demaq.site."
"""How the value of an error begins that tells its place by a number."""

SEPARATOR = "\x1e"
"""Between the fields of a result. No XML document and so no string of XQuery can hold it."""


@dataclass(slots=True)
class Sites:
    """Places of actions in the source, by the number that generated text gives them in errors."""

    places: list[SourceLocation] = field(default_factory=list)

    def number(self, at: SourceLocation) -> str:
        self.places.append(at)
        return str(len(self.places) - 1)


def runtime(name: str) -> str:
    """A function of ours. Compiled once and handed in with the state: every block would compile it again."""
    return f"{STATE}?d?{name}"


def declared(name: str) -> str:
    """The same, where a query declares our functions itself."""
    return f"Q{{{RUNTIME}}}{name}"


def fn(name: str) -> str:
    return f"Q{{{FN}}}{name}"


def xs(name: str) -> str:
    return f"Q{{{XS}}}{name}"


def literal(text: str) -> str:
    """A string literal of XQuery."""
    return '"' + text.replace("&", "&amp;").replace('"', '""').replace("\r", "&#xD;") + '"'


def full_name(uri: str, local: str) -> str:
    """A name with its namespace, whatever characters that has."""
    escaped = uri.replace("&", "&amp;").replace("{", "&#x7B;").replace("}", "&#x7D;")
    return f"Q{{{escaped}}}{local}"
