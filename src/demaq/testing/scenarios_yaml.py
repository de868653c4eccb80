"""Read YAML strictly, and know the place of everything.

Values are taken as they are written: `17`, `1.20` and `no` stay text unless a number or a yes is asked for, so that
nothing an author wrote into a message changes on the way. Mistakes are collected, not raised: an author sees them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import yaml

from demaq.errors import ProgramError
from demaq.language.resolving.suggestions import Suggestions
from demaq.source import Source, SourceLocation

_NULL = "tag:yaml.org,2002:null"


class ScenarioError(ProgramError):
    """A file of scenarios is not what the format asks for."""

    code = "DQ9301"


@dataclass(frozen=True, slots=True)
class YamlKey:
    """A key of a mapping: where it stands, and what follows it."""

    at: SourceLocation
    value: yaml.Node


Table: TypeAlias = Mapping[str, YamlKey]


class YamlReader:
    """One file. What is not as it should be is noted in `mistakes`, and reading goes on with None."""

    def __init__(self, text: str, file: str) -> None:
        self.source = Source(text.removeprefix("\ufeff"), file)
        self.mistakes: list[ScenarioError] = []
        self._suggestions = Suggestions()

    def root(self) -> yaml.Node | None:
        try:
            node: yaml.Node | None = yaml.compose(self.source.text, Loader=yaml.SafeLoader)
            return node
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            start = min(mark.index if mark is not None else 0, len(self.source.text))
            reason = error.problem or error.context
            self.mistake(
                SourceLocation(self.source, start, start + 1), f"not YAML: {reason}", _advice(self.source, start)
            )
        except yaml.reader.ReaderError as error:
            letter = self.source.text[error.position : error.position + 1]
            place = SourceLocation(self.source, error.position, error.position + 1)
            self.mistake(place, f"not YAML: character U+{ord(letter):04X} is not allowed")
        except yaml.YAMLError as error:
            self.mistake(SourceLocation(self.source, 0, 0), f"not YAML: {error}")
        except RecursionError:
            self.mistake(SourceLocation(self.source, 0, 0), "nested too deeply")
        return None

    def mistake(self, at: SourceLocation, message: str, hint: str | None = None) -> None:
        self.mistakes.append(ScenarioError(message, at, hint))

    def unknown(self, at: SourceLocation, message: str, name: str, known: Iterable[str], kind: str) -> None:
        """A name that is not known: what was meant, or what there is."""
        names = sorted(known)
        hint = self._suggestions.did_you_mean(name, names, '"{}"')
        if hint is None:
            hint = f"{kind}: {', '.join(names)}" if names else f"there are no {kind}"
        self.mistake(at, message, hint)

    def place(self, node: yaml.Node) -> SourceLocation:
        start, end = node.start_mark.index, node.end_mark.index
        if not isinstance(node, yaml.ScalarNode):
            end = min(end, start + 1)
        return SourceLocation(self.source, start, max(end, start))

    # shapes

    def table(self, node: yaml.Node, what: str, required: Iterable[str] = (), optional: Iterable[str] = ()) -> Table:
        """Return the keys of a mapping, of which some must be there, and no others may."""
        known = (*required, *optional)
        found = self.any_table(node, what)
        if found is None:
            return {}
        for name, key in found.items():
            if name not in known:
                self.unknown(key.at, f'"{name}" is not a key of {what}', name, known, "keys")
        for name in required:
            if name not in found:
                self.mistake(self.place(node), f'{what} needs the key "{name}"')
        return {name: key for name, key in found.items() if name in known}

    def any_table(self, node: yaml.Node, what: str) -> dict[str, YamlKey] | None:
        """Return the keys of a mapping, whatever they are; None if it is no mapping."""
        if not isinstance(node, yaml.MappingNode):
            self.mistake(self.place(node), f"{what} must be keys with values, not {_shape(node)}")
            return None
        found: dict[str, YamlKey] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.mistake(self.place(key), f"a key of {what} must be text")
            elif key.value in found:
                self.mistake(self.place(key), f'"{key.value}" is there twice in {what}')
            else:
                found[key.value] = YamlKey(self.place(key), value)
        return found

    def items(self, node: yaml.Node) -> list[yaml.Node]:
        """Return the items of a list; something else is the only item."""
        return list(node.value) if isinstance(node, yaml.SequenceNode) else [node]

    def list(self, node: yaml.Node, what: str) -> list[yaml.Node]:
        if isinstance(node, yaml.SequenceNode) and node.value:
            return list(node.value)
        wrong = "empty" if isinstance(node, yaml.SequenceNode) else _shape(node)
        self.mistake(self.place(node), f"{what} must be a list (lines that start with -), not {wrong}")
        return []

    # scalars

    def text(self, key: YamlKey, what: str) -> str | None:
        return self.scalar(key.value, what)

    def scalar(self, node: yaml.Node, what: str) -> str | None:
        """Return text as it is written. Nothing at all is a mistake; "" is not."""
        if not isinstance(node, yaml.ScalarNode):
            self.mistake(self.place(node), f"{what} must be text, not {_shape(node)}")
        elif node.tag == _NULL:
            self.mistake(self.place(node), f"{what} is missing")
        else:
            return str(node.value)
        return None

    def text_or_null(self, key: YamlKey, what: str) -> tuple[bool, str | None]:
        """Return whether it could be read, and the text, or None for null."""
        if isinstance(key.value, yaml.ScalarNode) and key.value.tag == _NULL:
            return True, None
        found = self.text(key, what)
        return found is not None, found

    def one_of(self, key: YamlKey, what: str, known: Iterable[str], kind: str) -> str | None:
        """Return a name out of those that are known."""
        name = self.text(key, what)
        names = list(known)
        if name is None or name in names:
            return name
        self.unknown(self.place(key.value), f'there is no {what} "{name}"', name, names, kind)
        return None

    def count(self, key: YamlKey, what: str) -> int | None:
        text = self.text(key, what)
        if text is None:
            return None
        if text.isascii() and text.isdigit() and len(text) < 10:
            return int(text)
        self.mistake(self.place(key.value), f'{what} must be a number such as 2, not "{text}"')
        return None

    def flag(self, key: YamlKey, what: str) -> bool | None:
        text = self.text(key, what)
        if text is None:
            return None
        if text in ("true", "false"):
            return text == "true"
        self.mistake(self.place(key.value), f'{what} must be true or false, not "{text}"')
        return None


def _shape(node: yaml.Node) -> str:
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if isinstance(node, yaml.MappingNode):
        return "keys with values"
    return "nothing" if node.tag == _NULL else f'"{_shorten(str(node.value))}"'


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 40 else line[:39] + "…"


def _advice(source: Source, offset: int) -> str | None:
    """Return what usually went wrong where XML stands in YAML."""
    line = source.line_text(source.line_of(offset))
    if "<" in line:
        return 'put XML that has ": ", " #", or in braces "," "{" "[" into quotes, or below a "|"'
    return 'write "*" in quotes, or …' if "*" in line else None
