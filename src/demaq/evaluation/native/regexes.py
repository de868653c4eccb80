"""The functions with regular expressions, on those that are translated to Python's."""

from __future__ import annotations

import functools
import re

from demaq.compiler.emit.python.code import NotTranslatable
from demaq.compiler.emit.python.regex_translation import PythonRegex, parse_replacement, translate_regex
from demaq.evaluation.native.fallback import NeedsSaxon


@functools.lru_cache(maxsize=512)
def _regex(pattern: str, flags: str) -> PythonRegex:
    try:
        return translate_regex(pattern, flags)
    except NotTranslatable as reason:
        raise NeedsSaxon(str(reason)) from None


@functools.lru_cache(maxsize=512)
def _replacement(text: str, regex: PythonRegex) -> list[str | int]:
    try:
        return parse_replacement(text, regex)
    except NotTranslatable as reason:
        raise NeedsSaxon(str(reason)) from None


def _fit(regex: PythonRegex, text: str) -> re.Pattern[str]:
    if regex.needs_ascii and not text.isascii():
        raise NeedsSaxon("a regular expression on other than ASCII characters")
    return regex.pattern


def _separating(regex: PythonRegex, text: str) -> re.Pattern[str]:
    if regex.matches_empty:
        raise NeedsSaxon("a regular expression that matches the empty string")
    return _fit(regex, text)


def matches(text: str, pattern: str, flags: str = "") -> bool:
    return _fit(_regex(pattern, flags), text).search(text) is not None


def replace_matches(text: str, pattern: str, replacement: str, flags: str = "") -> str:
    regex = _regex(pattern, flags)
    compiled = _separating(regex, text)
    parts: list[str | int] = [replacement] if "q" in flags else _replacement(replacement, regex)

    def replaced(found: re.Match[str]) -> str:
        return "".join([part if isinstance(part, str) else found[part] or "" for part in parts])

    return compiled.sub(replaced, text)


def split_at_matches(text: str, pattern: str, flags: str = "") -> list[str]:
    if not text:
        _separating(_regex(pattern, flags), text)
        return []
    found: list[str] = []
    start = 0
    for match in _separating(_regex(pattern, flags), text).finditer(text):
        found.append(text[start : match.start()])
        start = match.end()
    return [*found, text[start:]]
