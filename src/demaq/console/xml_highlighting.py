"""A body as markup that shows it: highlighted, indented and folding, and never interpreted.

The text is cut into tokens as it is stored, and each token is escaped. So prefixes, quotes and the order of attributes
are those of the sender; only white space between elements is changed. What cannot be cut into tokens is shown as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from markupsafe import Markup, escape

CHARACTERS_MAX = 200_000
"""So much of a body is highlighted; of a longer one the beginning is shown as text."""
SHOWN_MAX = 100_000
FOLDED_DEPTH_MAX = 40
"""Deeper elements do not fold: browsers nest elements up to some hundred levels."""
LINES_CLOSED = 400
"""In a body of more elements only the outer ones are open."""
OPEN_DEPTH = 2

_TOKEN = re.compile(
    r"<!--(?:(?!-->).)*-->|<!\[CDATA\[(?:(?!\]\]>).)*\]\]>|<\?(?:(?!\?>).)*\?>"
    r"|</[^<>]+>|<[^\s<>/!?](?:[^<>\"']|\"[^\"]*\"|'[^']*')*>|[^<]+",
    re.DOTALL,
)
_TAG = re.compile(r"<([^\s/>]+)(.*?)(/?)>", re.DOTALL)
_ATTRIBUTE = re.compile(r"(\s+)([^\s=]+)(\s*=\s*)(\"[^\"]*\"|'[^']*')", re.DOTALL)


@dataclass(slots=True)
class _Element:
    begin: str
    end: str = ""
    children: list[_Element | str] = field(default_factory=list)
    depth: int = 0

    def has_text(self) -> bool:
        return any([isinstance(child, str) and _is_text(child) for child in self.children])


def highlight(body: str) -> Markup:
    """Return markup that shows a document."""
    if len(body) > CHARACTERS_MAX:
        note = Markup('<p class="note">The first {} of {} characters, as they are stored.</p>').format(
            f"{SHOWN_MAX:,}", f"{len(body):,}"
        )
        return note + Markup('<pre class="xml">{}</pre>').format(body[:SHOWN_MAX])
    root = _parse(body)
    if root is None:
        return Markup('<pre class="xml">{}</pre>').format(body)
    is_long = body.count("<") > LINES_CLOSED
    return Markup('<div class="xml">{}</div>').format(Markup("").join(_write(root, is_long)))


def _parse(body: str) -> _Element | None:
    """Return the tokens of a text as a tree; None if it is no document."""
    root = _Element("")
    open_elements = [root]
    position = 0
    for match in _TOKEN.finditer(body):
        if match.start() != position:
            return None
        position = match.end()
        token = match[0]
        if token.startswith("</"):
            if len(open_elements) == 1:
                return None
            open_elements.pop().end = token
        elif token.startswith("<") and token[1] not in "!?":
            element = _Element(token, depth=len(open_elements) - 1)
            open_elements[-1].children.append(element)
            if not token.endswith("/>"):
                open_elements.append(element)
        else:
            open_elements[-1].children.append(token)
    return root if position == len(body) and len(open_elements) == 1 else None


def _write(root: _Element, is_long: bool) -> Iterator[Markup]:
    """Yield the markup of a tree, without recursion: documents may be deep."""
    todo: list[_Element | Markup] = [*_lines(root)][::-1]
    while todo:
        item = todo.pop()
        if isinstance(item, Markup):
            yield item
            continue
        if not item.children or item.has_text() or item.depth > FOLDED_DEPTH_MAX:
            yield Markup('<div class="line">{}</div>').format(Markup("").join(_inline(item)))
            continue
        is_open = not is_long or item.depth < OPEN_DEPTH
        count = sum([isinstance(child, _Element) for child in item.children])
        yield Markup('<details{}><summary>{}<span class="folded"> … {} {}</span></summary><div class="inner">').format(
            Markup(" open") if is_open else "", _tag(item.begin), f"{count:,}", _end(item.end)
        )
        todo.append(Markup('</div><div class="line">{}</div></details>').format(_end(item.end)))
        todo += [*_lines(item)][::-1]


def _lines(element: _Element) -> Iterator[_Element | Markup]:
    for child in element.children:
        if isinstance(child, _Element):
            yield child
        elif child.strip():
            yield Markup('<div class="line">{}</div>').format(_text(child))


def _inline(element: _Element) -> Iterator[Markup]:
    """Yield an element on one line, with white space as it is."""
    todo: list[_Element | str | Markup] = [element]
    while todo:
        item = todo.pop()
        if isinstance(item, Markup):
            yield item
        elif isinstance(item, str):
            yield _text(item)
        else:
            yield _tag(item.begin)
            if item.end:
                todo.append(_end(item.end))
            todo += item.children[::-1]


def _tag(tag: str) -> Markup:
    match = _TAG.fullmatch(tag)
    if match is None:
        return escape(tag)
    name, attributes, slash = match.groups()
    parts = [Markup('<span class="tag">&lt;{}</span>').format(name)]
    position = 0
    for found in _ATTRIBUTE.finditer(attributes):
        parts.append(escape(attributes[position : found.start()]))
        position = found.end()
        parts.append(
            Markup('{}<span class="name">{}</span>{}<span class="value">{}</span>').format(
                " " if "\n" in found[1] else found[1], found[2], found[3], found[4]
            )
        )
    parts.append(escape(attributes[position:]))
    parts.append(Markup('<span class="tag">{}&gt;</span>').format(slash))
    return Markup("").join(parts)


def _end(tag: str) -> Markup:
    return Markup('<span class="tag">{}</span>').format(tag)


def _text(token: str) -> Markup:
    kind = "comment" if token.startswith(("<!--", "<?")) else "cdata" if token.startswith("<![") else "text"
    return Markup('<span class="{}">{}</span>').format(kind, token)


def _is_text(token: str) -> bool:
    """Return whether a child is text of a mixed content, where white space matters."""
    return bool(token.strip()) and not token.startswith(("<!--", "<?"))
