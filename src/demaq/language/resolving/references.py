"""Resolve single references: prefixes, variables, functions, types and parts; report those that are unknown."""

from __future__ import annotations

from enum import Enum

from demaq.language import ast, function_library
from demaq.language.diagnostics import error, warning
from demaq.language.namespaces import ARRAY, FN, MAP, MATH, QS, XS, make_part_name
from demaq.language.resolving.names import NamesBuilder
from demaq.language.resolving.scope import DEFAULT_ELEMENT, Key, Scope
from demaq.source import SourceLocation
from demaq.suggestions import Suggestions

_NAMES_A_PART = {(QS, "queue"), (QS, "property"), (FN, "collection")}
_WRITTEN = {FN: "", XS: "xs:", QS: "qs:", MAP: "map:", ARRAY: "array:", MATH: "math:"}


class Focus(Enum):
    """What `.` refers to: nothing, the message's document node, or an item that a path or predicate has reached."""

    ABSENT = "absent"
    DOCUMENT = "document"
    INNER = "inner"


class References:
    """Resolves references in the current scope and focus. The result is built in `names`."""

    def __init__(self, names: NamesBuilder, scope: Scope, suggestions: Suggestions) -> None:
        self.names = names
        self.scope = scope
        self.suggestions = suggestions
        self.focus = Focus.ABSENT
        self.default_function = FN
        self.unloaded: set[str] = set()
        """Namespaces of imports whose module could not be read: their names are unknown, which is not reported."""
        self.arities: dict[tuple[str, str], list[int]] = {}
        self._hint_without_focus = ""

    def error(self, code: str, message: str, at: SourceLocation, hint: str | None = None) -> None:
        self.names.problems.append(error(code, message, at, hint))

    def warn(self, code: str, message: str, at: SourceLocation, hint: str | None = None) -> None:
        self.names.problems.append(warning(code, message, at, hint))

    def uri_of(self, name: ast.Name | ast.NameTest, default: str) -> str | None:
        """Return the namespace of a name, or None (and report it) if its prefix is not declared."""
        if name.uri is not None:
            return name.uri
        if not name.prefix:
            return default
        uri = self.scope.prefixes.get(name.prefix)
        if uri is None:
            self._unknown_prefix(name.prefix, name.at)
        return uri

    def _unknown_prefix(self, prefix: str, at: SourceLocation) -> None:
        known = (known for known in self.scope.prefixes if known != DEFAULT_ELEMENT)
        hint = self.suggestions.did_you_mean(prefix, known, "`{}:`")
        self.error(
            "DQ0202",
            f"prefix `{prefix}` is not declared",
            at,
            hint or f'declare namespace {prefix} = "…"; in front of the statements',
        )

    def part(self, name: ast.Name) -> None:
        """Resolve the name of a queue, property, slicing, collection or rule."""
        uri = self.uri_of(name, "")
        if uri is not None:
            self.names.parts[name] = make_part_name(uri, name.local)

    def type_name(self, name: ast.Name) -> None:
        uri = self.uri_of(name, self.scope.prefixes[DEFAULT_ELEMENT])
        if uri is None:
            return
        self.names.types[name] = (uri, name.local)
        if uri == XS and name.local in function_library.TYPES:
            return
        hint = self.suggestions.did_you_mean(name.local, function_library.TYPES, "xs:{}")
        if name.local in function_library.TYPES:
            hint = f"did you mean xs:{name.local}?"
        self.error("DQ0304", f"type {name} is not known", name.at, hint)

    def _key(self, name: ast.Name) -> Key | None:
        uri = self.uri_of(name, "")
        return None if uri is None else (uri, name.local)

    def _bind(self, name: ast.Name | None, binder: ast.Node | None) -> None:
        if name is None:
            return
        key = self._key(name)
        if key is not None:
            self.scope.bind(key, binder)

    def _unknown_variable(self, name: ast.Name, at: SourceLocation) -> None:
        known = (local for _, local in self.scope.variables)
        prefix = f"{name.prefix}:" if name.prefix else ""
        hint = self.suggestions.did_you_mean(name.local, known, f"${prefix}{{}}")
        self.error("DQ0201", f"variable ${name} is not bound here", at, hint)

    def _needs_focus(self, node: ast.Node) -> None:
        if self.focus is not Focus.ABSENT:
            return
        text = node.at.text if len(node.at.text) <= 30 else node.at.text[:27] + "…"
        self.error("DQ0305", f"`{text}` asks for the context item, and here is none", node.at, self._hint_without_focus)

    def _name_test(self, test: ast.NameTest, table: dict[ast.Node, tuple[str | None, str]], default: str) -> None:
        if test.prefix == "*":
            table[test] = (None, test.local)
            return
        uri = self.uri_of(test, default)
        if uri is not None:
            table[test] = (uri, test.local)

    def _resolve_function(self, node: ast.Node, name: ast.Name, arity: int, first: ast.Expr | None) -> None:
        uri = self.uri_of(name, self.default_function)
        if uri is None:
            return
        key = (uri, name.local, arity)
        if key in self.names.declared:
            self.names.functions[node] = key
        elif function_library.takes(uri, name.local, arity):
            self.names.functions[node] = key
            self._check_known_function(node, key, first)
        elif uri not in self.unloaded:
            self._unknown_function(name, uri, arity)

    def _check_known_function(self, node: ast.Node, key: tuple[str, str, int], first: ast.Expr | None) -> None:
        plain = key[:2]
        if key in function_library.FOCUS_FUNCTIONS:
            self._needs_focus(node)
        if plain in function_library.REFUSED:
            reason = function_library.REFUSED[plain]
            hint = function_library.REFUSED_HINTS.get(plain)
            self.error("DQ0303", f"{key[1]}() may not be used: {reason}", node.at, hint)
        elif plain in _NAMES_A_PART and isinstance(first, ast.StringLiteral):
            self._literal_part(first, plain == (FN, "collection"))

    def _literal_part(self, literal: ast.StringLiteral, is_collection: bool) -> None:
        text = literal.value.strip()
        prefix, colon, local = text.partition(":")
        if text.startswith("Q{"):
            uri, _, local = text[2:].partition("}")
            self.names.parts[literal] = make_part_name(uri, local)
        elif not colon:
            self.names.parts[literal] = text
        elif prefix in self.names.prefixes and prefix:
            self.names.parts[literal] = make_part_name(self.names.prefixes[prefix], local)
        elif is_collection:  # an undeclared collection may have any name, such as a URI
            self.names.parts[literal] = text
        else:
            self._unknown_prefix(prefix, literal.at)

    def _unknown_function(self, name: ast.Name, uri: str, arity: int) -> None:
        declared = self.arities.get((uri, name.local))
        said = f"{arity} argument{'' if arity == 1 else 's'}"
        if declared or function_library.is_known(uri, name.local):
            allowed = (
                function_library.arity_in_words(tuple(sorted(set(declared))))
                if declared
                else function_library.allowed_in_words(uri, name.local)
            )
            self.error("DQ0302", f"{name}() takes {allowed}, not {said}", name.at)
            return
        self.error("DQ0301", f"function {name}() with {said} is not known", name.at, self._function_hint(name, uri))

    def _function_hint(self, name: ast.Name, uri: str) -> str | None:
        if self.suggestions.exhausted:
            return None
        known: list[tuple[str, str]] = [*function_library.ARITIES, function_library.CONCAT]
        written = {_WRITTEN.get(space, "") + local: local for space, local in known}
        prefixes = {space: prefix for prefix, space in self.names.prefixes.items() if prefix}
        for space, local in self.arities:
            written[f"{prefixes[space]}:{local}" if space in prefixes else local] = local
        for spelling, local in written.items():
            if local == name.local:
                return f"did you mean {spelling}()?"
        if uri == XS:
            return self.suggestions.did_you_mean(name.local, function_library.ATOMIC_TYPES, "xs:{}()")
        return self.suggestions.did_you_mean(str(name), written, "{}()")
