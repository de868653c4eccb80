"""Calls of functions on strings and regular expressions."""

from __future__ import annotations

import ast as python_ast
from collections.abc import Callable, Mapping
from dataclasses import replace

from demaq.compiler.emit.python.code import (
    NODES,
    NUMERIC_TYPES,
    STRINGS,
    NotTranslatable,
    PythonCode,
    Type,
    atomize_item,
    lift,
    make_list,
    map_values,
    to_double_literal,
    to_string,
    to_string_argument,
    to_strings,
)
from demaq.compiler.emit.python.regex_translation import parse_replacement, translate_regex

Call = Callable[[list[PythonCode]], PythonCode]
_FORMS = ("NFC", "NFD", "NFKC", "NFKD")


def call_string(args: list[PythonCode]) -> PythonCode:
    return PythonCode(to_string(args[0]), Type.STRING)


def concat(args: list[PythonCode]) -> PythonCode:
    return PythonCode(f"({' + '.join([to_string(arg) for arg in args])})", Type.STRING)


def _on_texts(template: str, kind: Type) -> Call:
    """Return a call whose arguments are all of type xs:string?, of which an empty one is the empty string."""
    return lambda args: PythonCode(template.format(*[to_string_argument(arg) for arg in args]), kind)


def _required_text(arg: PythonCode) -> str:
    """Return an argument of type xs:string, which must not be empty."""
    text = to_string_argument(arg)
    if not arg.is_list:
        return text
    if arg.type is Type.ATOMIC:
        return f"expect_text(only({arg.text}))"
    return f"only({to_strings(arg).text})"


def _string_join(args: list[PythonCode]) -> PythonCode:
    separator = _required_text(args[1]) if len(args) > 1 else "''"
    return PythonCode(f"({separator}).join({to_strings(args[0]).text})", Type.STRING)


def _substring(args: list[PythonCode]) -> PythonCode:
    text, *positions = args
    numbers = ", ".join([_required_double(position) for position in positions])
    return PythonCode(f"substring({to_string_argument(text)}, {numbers})", Type.STRING)


def _required_double(arg: PythonCode) -> str:
    """Return an argument of type xs:double; integers are computed with like doubles."""
    found = atomize_item(arg)
    if found.type is Type.UNTYPED:
        found = map_values(found, "double({})", Type.DOUBLE)
    elif found.type in (Type.DECIMAL, Type.FLOAT):
        literal = None if found.is_list else to_double_literal(found)
        found = literal or map_values(found, "to_double({})", Type.DOUBLE)
    elif found.type not in NUMERIC_TYPES:
        raise NotTranslatable(f"{found.type.value} where a double is expected")
    return f"only({found.text})" if found.is_list else found.item


def _compare(args: list[PythonCode]) -> PythonCode:
    return lift([_optional_text(arg) for arg in args], "order_texts({}, {})", Type.INTEGER)


def _optional_text(arg: PythonCode) -> PythonCode:
    """Return an argument of type xs:string?, which is empty if it is."""
    found = atomize_item(arg)
    if found.type in STRINGS or found.type is Type.ANY_URI:
        return replace(found, type=Type.STRING)
    if found.type is Type.ATOMIC:
        return map_values(found, "expect_text({})", Type.STRING)
    raise NotTranslatable(f"{found.type.value} where a string is expected")


def _code_points(args: list[PythonCode]) -> PythonCode:
    return make_list(f"code_points({to_string_argument(args[0])})", Type.INTEGER)


def _from_code_points(args: list[PythonCode]) -> PythonCode:
    if args[0].type is not Type.INTEGER:
        raise NotTranslatable("code points that are no integers")
    return PythonCode(f"from_code_points({args[0].list_text})", Type.STRING)


def _contains_token(args: list[PythonCode]) -> PythonCode:
    if args[0].type not in NODES and args[0].type not in STRINGS:
        raise NotTranslatable(f"tokens of {args[0].type.value}")
    return PythonCode(f"contains_token({to_strings(args[0]).text}, {_required_text(args[1])})", Type.BOOLEAN)


def _normalize_unicode(args: list[PythonCode]) -> PythonCode:
    form = literal_text(args[1]) if len(args) > 1 else "NFC"
    if form not in _FORMS:
        raise NotTranslatable("such a normal form of Unicode")
    return PythonCode(f"normalize_unicode({to_string_argument(args[0])}, {form!r})", Type.STRING)


def literal_text(code: PythonCode) -> str | None:
    """Return the value of a string literal; None if it is none."""
    if code.is_list or code.type is not Type.STRING or code.item[:1] not in "'\"":
        return None
    try:
        found = python_ast.literal_eval(code.item)
    except (ValueError, SyntaxError):
        return None
    return found if isinstance(found, str) else None


def _with_regex(function: str, kind: Type, is_list: bool = False) -> Call:
    """Return a call of matches, replace or tokenize: a text, a pattern, perhaps a replacement, perhaps flags."""
    fixed = 3 if function == "replace_matches" else 2

    def called(args: list[PythonCode]) -> PythonCode:
        pattern = literal_text(args[1])
        flags = literal_text(args[fixed]) if len(args) > fixed else ""
        if flags is None:
            raise NotTranslatable("flags of a regular expression that are computed")
        if pattern is not None:
            found = translate_regex(pattern, flags)
            if found.matches_empty and function != "matches":
                raise NotTranslatable("a regular expression that matches the empty string")
            replacement = literal_text(args[2]) if fixed == 3 else None
            if replacement is not None and "q" not in flags:
                parse_replacement(replacement, found)
        given = [to_string_argument(args[0]), *[_required_text(arg) for arg in args[1:]]]
        text = f"{function}({', '.join(given)})"
        return make_list(text, kind) if is_list else PythonCode(text, kind)

    return called


STRING_CALLS: Mapping[tuple[str, int], Call] = {
    ("string", 1): call_string,
    **{("concat", arity): concat for arity in range(2, 21)},
    ("string-join", 1): _string_join,
    ("string-join", 2): _string_join,
    ("normalize-space", 1): _on_texts("normalized({})", Type.STRING),
    ("normalize-unicode", 1): _normalize_unicode,
    ("normalize-unicode", 2): _normalize_unicode,
    ("string-length", 1): _on_texts("len({})", Type.INTEGER),
    ("upper-case", 1): _on_texts("upper({})", Type.STRING),
    ("lower-case", 1): _on_texts("lower({})", Type.STRING),
    ("contains", 2): _on_texts("({1} in {0})", Type.BOOLEAN),
    ("starts-with", 2): _on_texts("({0}).startswith({1})", Type.BOOLEAN),
    ("ends-with", 2): _on_texts("({0}).endswith({1})", Type.BOOLEAN),
    ("substring", 2): _substring,
    ("substring", 3): _substring,
    ("substring-before", 2): _on_texts("substring_before({}, {})", Type.STRING),
    ("substring-after", 2): _on_texts("substring_after({}, {})", Type.STRING),
    ("translate", 3): lambda args: PythonCode(
        f"translate_text({to_string_argument(args[0])}, {_required_text(args[1])}, {_required_text(args[2])})",
        Type.STRING,
    ),
    ("encode-for-uri", 1): _on_texts("encode_for_uri({})", Type.STRING),
    ("compare", 2): _compare,
    ("codepoint-equal", 2): lambda args: lift([_optional_text(arg) for arg in args], "({} == {})", Type.BOOLEAN),
    ("contains-token", 2): _contains_token,
    ("string-to-codepoints", 1): _code_points,
    ("codepoints-to-string", 1): _from_code_points,
    ("tokenize", 1): lambda args: make_list(f"split_at_spaces({to_string_argument(args[0])})", Type.STRING),
    ("tokenize", 2): _with_regex("split_at_matches", Type.STRING, is_list=True),
    ("tokenize", 3): _with_regex("split_at_matches", Type.STRING, is_list=True),
    ("matches", 2): _with_regex("matches", Type.BOOLEAN),
    ("matches", 3): _with_regex("matches", Type.BOOLEAN),
    ("replace", 3): _with_regex("replace_matches", Type.STRING),
    ("replace", 4): _with_regex("replace_matches", Type.STRING),
}
"""By name and number of arguments."""
