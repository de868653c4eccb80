"""The page of all errors and warnings, written from the registry of codes."""

from __future__ import annotations

from demaq.language.codes import CODES, DiagnosticCode

AREAS = {
    "1": "Syntax",
    "2": "Names",
    "3": "Functions and types",
    "4": "Rules and properties",
    "5": "Queues and gateways",
    "6": "Files",
    "7": "Compiling",
}

HEAD = """# Errors and warnings

`demaq check` gives every problem a code. The code keeps its meaning; the words around it may get better. The first
digit says how bad it is: `DQ0…` is an error, and an application with errors does not run. `DQ1…` is a warning. The
second digit says what it is about.

A problem is reported with its place, the line, and often a hint:

```dmq file=orders.dmq
create queue orders
create queue shipping kind outgoingGateway
create rule ship for orders
  if (/order) then do enqueue <parcel/> into shiping
```

```console
$ demaq check orders.dmq
```

All problems of an application are reported together, errors before warnings. While a statement cannot even be read,
warnings are left out, and so are errors that would vanish with the syntax error.

Below, each code comes with what it means and with an example of what to write instead.

## Silence a warning

A comment on the line of the warning silences it. It names the codes; without one it silences all warnings of its line.
Errors cannot be silenced.

```dmq
create queue orders
create property customer as xs:string queue orders value /order/@customer
create slicing customers on customer  (: orders are kept for ever; demaq:ignore DQ1402 :)
create rule welcome for customers
  if (count(qs:slice()) = 1) then do enqueue <welcome/> into letters
create queue letters kind outgoingGateway endpoint "mailto:letters@example.org"
```
"""


def diagnostics_page() -> str:
    """The whole page, but for the answers of its commands."""
    parts = [HEAD]
    for kind, digit in (("errors", "0"), ("warnings", "1")):
        for area, title in AREAS.items():
            codes = sorted([code for code in CODES if code.startswith(f"DQ{digit}{area}")])
            if codes:
                parts.append(f"## {title}: {kind}\n")
                parts += [_entry(code, CODES[code]) for code in codes]
    return "\n".join(parts)


def _entry(code: str, entry: DiagnosticCode) -> str:
    text = _wrapped(f"**{entry.title.capitalize()}.** {entry.explanation}")
    return f"### {code}\n\n{text}\n\n```text\n{entry.mending}\n```\n"


def _wrapped(text: str) -> str:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > 120:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
