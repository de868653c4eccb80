"""Parse YAML into values with locations.

Scalars stay text as it is written: `17`, `1.20` and `no` become numbers or flags only if the reader asks for them, so
that XML and properties in a file of scenarios do not change on the way.
"""

from __future__ import annotations

import yaml

from demaq.configuration import ConfigurationReader, Value
from demaq.source import Source, SourceLocation

_NULL = "tag:yaml.org,2002:null"


def parse_yaml(reader: ConfigurationReader) -> Value | None:
    """Return the value of a whole file; None if it is empty or not YAML, which is reported."""
    source = reader.source
    try:
        node = yaml.compose(source.text, Loader=yaml.SafeLoader)
        return None if node is None else _YamlConverter(reader).value(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        start = min(mark.index if mark is not None else 0, len(source.text))
        reason = error.problem or error.context
        reader.report(SourceLocation(source, start, start + 1), f"not YAML: {reason}", _advice(source, start))
    except yaml.reader.ReaderError as error:
        letter = source.text[error.position : error.position + 1]
        at = SourceLocation(source, error.position, error.position + 1)
        reader.report(at, f"not YAML: character U+{ord(letter):04X} is not allowed")
    except yaml.YAMLError as error:
        reader.report(SourceLocation(source, 0, 0), f"not YAML: {error}")
    except RecursionError:
        reader.report(SourceLocation(source, 0, 0), "not YAML: nested too deeply")
    return None


class _YamlConverter:
    def __init__(self, reader: ConfigurationReader) -> None:
        self._reader = reader
        self._contents: dict[yaml.Node, object] = {}
        """Of nodes with several aliases, which may contain themselves."""

    def value(self, node: yaml.Node, key_at: SourceLocation | None = None) -> Value:
        at = self._location(node)
        if node not in self._contents:
            self._convert(node)
        return Value(self._contents[node], at, key_at or at)

    def _convert(self, node: yaml.Node) -> None:
        if isinstance(node, yaml.ScalarNode):
            self._contents[node] = None if node.tag == _NULL else str(node.value)
        elif isinstance(node, yaml.SequenceNode):
            items: list[Value] = []
            self._contents[node] = items
            items += [self.value(item) for item in node.value]
        else:
            table: dict[str, Value] = {}
            self._contents[node] = table
            for key, value in node.value:
                at = self._location(key)
                if not isinstance(key, yaml.ScalarNode):
                    self._reader.report(at, "a key must be text")
                elif key.value in table:
                    self._reader.report(at, f'the key "{key.value}" occurs twice')
                else:
                    table[key.value] = self.value(value, at)

    def _location(self, node: yaml.Node) -> SourceLocation:
        """Return the location of a scalar, or of the first character of anything else."""
        start, end = node.start_mark.index, node.end_mark.index
        if not isinstance(node, yaml.ScalarNode):
            end = min(end, start + 1)
        return SourceLocation(self._reader.source, start, max(end, start))


def _advice(source: Source, offset: int) -> str | None:
    """Return what is usually wrong where XML is written in YAML."""
    line = source.line_text(source.line_of(offset))
    if "<" in line:
        return 'put XML that has ": ", " #", or in braces "," "{" "[" into quotes, or below a "|"'
    return 'write "*" in quotes, or …' if "*" in line else None
