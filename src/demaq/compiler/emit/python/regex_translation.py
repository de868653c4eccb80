"""Translate regular expressions of XPath to Python's.

Only what certainly means the same is translated (Functions and Operators 3.1, 5.6.1): no back-references, no modes but
dot-all, case-insensitive and literal, no blocks of Unicode. Classes that depend on the version of Unicode, such as
`\\d`, `\\w` or `\\p{L}`, are translated for ASCII: the text must be ASCII, or else it is left to Saxon.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from demaq.compiler.emit.python.code import NotTranslatable

_ASCII = [chr(code) for code in range(128)]
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", **{sign: sign for sign in "\\|.-^?*+{}()[]$"}}
_SPACE = frozenset(" \t\n\r")
_NAME_START = frozenset([sign for sign in _ASCII if sign.isalpha() or sign in "_:"])
_MULTIPLE = {
    "s": _SPACE,
    "d": frozenset("0123456789"),
    "i": _NAME_START,
    "c": _NAME_START | frozenset("0123456789.-"),
    "w": frozenset([sign for sign in _ASCII if unicodedata.category(sign)[0] not in "PZC"]),
}
_CATEGORY = re.compile(r"\{(L[ulotm]?|M[nce]?|N[dlo]?|P[cdseifo]?|Z[slp]?|S[mcko]?|C[cfon]?)\}")
_QUANTIFIER = re.compile(r"(?:[?*+]|\{(\d{1,3})(,(\d{1,3})?)?\})\??")
_SPECIAL = frozenset("\\|.?*+{}()[]^$")
NESTING_MAX = 2
"""So many quantifiers may be one inside the other: with more, Saxon does not find all matches (`a+((x?y)?a){2}`)."""
_HINT = "use simpler patterns: no back-references, no modes but i, s and q, no blocks such as \\p{IsGreek}"


@dataclass(frozen=True, slots=True)
class PythonRegex:
    """A translated regular expression."""

    pattern: re.Pattern[str]
    groups: int
    repeats_groups: bool
    """Whether a capturing group is repeated: engines differ in what it has captured at last."""
    needs_ascii: bool
    """Whether it holds for ASCII texts only."""
    matches_empty: bool
    """Whether it matches the empty string: then replace and tokenize fail."""


def translate_regex(pattern: str, flags: str = "") -> PythonRegex:
    """Return a regular expression of XPath as one of Python. Raises NotTranslatable."""
    if not set(flags) <= set("siq"):
        raise NotTranslatable("a mode of regular expressions", hint=_HINT)
    if "q" in flags:
        translated, groups, repeats_groups, needs_ascii = re.escape(pattern), 0, False, False
    else:
        parser = _Parser(pattern, "s" in flags, "i" in flags)
        translated = parser.parse()
        groups, repeats_groups, needs_ascii = parser.groups, parser.repeats_groups, parser.needs_ascii
    if "i" in flags:
        if not pattern.isascii():
            raise NotTranslatable("a regular expression without case for other than ASCII characters", hint=_HINT)
        needs_ascii = True
    try:
        compiled = re.compile(translated, re.IGNORECASE if "i" in flags else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise NotTranslatable(f"the regular expression {pattern!r}", hint=_HINT) from error
    return PythonRegex(compiled, groups, repeats_groups, needs_ascii, compiled.search("") is not None)


@dataclass(frozen=True, slots=True)
class _RegexPart:
    """A part of a regular expression in Python's notation."""

    text: str
    can_be_empty: bool = False
    """Whether it matches the empty string."""
    is_plain: bool = True
    """Whether there are neither anchors nor reluctant quantifiers in it."""
    is_group: bool = False
    is_anchor: bool = False
    nesting: int = 0
    """How many quantifiers there are one inside the other."""


class _Parser:
    """A recursive-descent parser; each method reads a part."""

    def __init__(self, pattern: str, dot_is_all: bool, ignores_case: bool) -> None:
        self._pattern = pattern
        self._at = 0
        self._dot = "[\\s\\S]" if dot_is_all else "[^\\n\\r]"
        self._ignores_case = ignores_case
        self._depth = 0
        self.groups = 0
        self.repeats_groups = False
        self.needs_ascii = False

    def parse(self) -> str:
        found = self._alternatives()
        if self._at < len(self._pattern):
            raise self._refuse()
        return found.text

    def _refuse(self) -> NotTranslatable:
        return NotTranslatable(f"the regular expression {self._pattern!r}", hint=_HINT)

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        found = self._peek()
        if not found:
            raise self._refuse()
        self._at += 1
        return found

    def _alternatives(self) -> _RegexPart:
        branches = [self._branch()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._branch())
        return _RegexPart(
            "|".join([branch.text for branch in branches]),
            any([branch.can_be_empty for branch in branches]),
            all([branch.is_plain for branch in branches]),
            nesting=max([branch.nesting for branch in branches]),
        )

    def _branch(self) -> _RegexPart:
        parts: list[_RegexPart] = []
        while self._peek() and self._peek() not in "|)":
            atom = self._atom(not parts)
            quantifier = _QUANTIFIER.match(self._pattern, self._at)
            if quantifier is not None:
                atom = self._repeat(atom, quantifier)
                self._at = quantifier.end()
            if self._peek() and self._peek() in "?*+{":
                raise self._refuse()
            parts.append(atom)
        return _RegexPart(
            "".join([part.text for part in parts]),
            all([part.can_be_empty for part in parts]),
            all([part.is_plain for part in parts]),
            nesting=max([part.nesting for part in parts], default=0),
        )

    def _repeat(self, atom: _RegexPart, quantifier: re.Match[str]) -> _RegexPart:
        """Return a part with a quantifier. Refuse those in which engines differ: groups of nothing, or reluctant."""
        least, greatest = quantifier[1], quantifier[3]
        is_reluctant = len(quantifier[0]) > 1 and quantifier[0].endswith("?")
        if atom.is_anchor or (is_reluctant and self._depth) or (greatest is not None and int(greatest) < int(least)):
            raise self._refuse()
        if atom.is_group and (is_reluctant or atom.can_be_empty or not atom.is_plain):
            raise self._refuse()
        if atom.nesting >= NESTING_MAX:
            raise self._refuse()
        self.repeats_groups = self.repeats_groups or (atom.is_group and "(" in atom.text.replace("(?", ""))
        can_be_empty = quantifier[0][0] in "?*" or (least is not None and int(least) == 0)
        return _RegexPart(atom.text + quantifier[0], can_be_empty, not is_reluctant, nesting=atom.nesting + 1)

    def _atom(self, is_first: bool) -> _RegexPart:
        sign = self._take()
        match sign:
            case "^" if is_first and not self._depth:
                return _RegexPart("\\A", True, False, is_anchor=True)
            case "$" if self._peek() in ("", "|") and not self._depth:
                return _RegexPart("\\Z", True, False, is_anchor=True)
            case ".":
                return _RegexPart(self._dot)
            case "(":
                return self._group()
            case "[":
                return _RegexPart(self._class())
            case "\\":
                return _RegexPart(self._escape())
        if sign in _SPECIAL:
            raise self._refuse()
        return _RegexPart(re.escape(sign))

    def _group(self) -> _RegexPart:
        opening = "("
        if self._pattern.startswith("?:", self._at):
            self._at += 2
            opening = "(?:"
        elif self._peek() == "?":
            raise self._refuse()
        else:
            self.groups += 1
        self._depth += 1
        inner = self._alternatives()
        self._depth -= 1
        if self._take() != ")":
            raise self._refuse()
        text = f"{opening}{inner.text})"
        return _RegexPart(text, inner.can_be_empty, inner.is_plain, is_group=True, nesting=inner.nesting)

    def _escape(self) -> str:
        single, several = self._read_escape()
        if several is None:
            return re.escape(single)
        return f"[{_list(several)}]" if several else "[^\\s\\S]"

    def _read_escape(self) -> tuple[str, frozenset[str] | None]:
        """Return an escaped character, or the ASCII characters that an escape stands for."""
        sign = self._take()
        if sign in _ESCAPED:
            return _ESCAPED[sign], None
        several = _MULTIPLE.get(sign.lower())
        if sign in "pP":
            named = _CATEGORY.match(self._pattern, self._at)
            if named is None:
                raise self._refuse()
            self._at = named.end()
            several = frozenset([each for each in _ASCII if unicodedata.category(each).startswith(named[1])])
            if self._ignores_case:
                raise self._refuse()
        if several is None:
            raise self._refuse()
        if sign.isupper():
            several = frozenset(_ASCII) - several
        if sign != "s":
            self.needs_ascii = True
        return "", several

    def _class(self) -> str:
        """Return a character class; its opening bracket has been read."""
        is_negative = self._peek() == "^"
        if is_negative:
            self._at += 1
            if self._ignores_case:
                raise self._refuse()
        parts = ""
        excluded = ""
        while self._peek() != "]" or not parts:
            sign = self._take()
            if sign == "-" and self._peek() == "[" and parts:
                self._at += 1
                excluded = self._class()
                if self._peek() != "]" or is_negative or excluded.startswith(("[^", "(?:")):
                    raise self._refuse()
                break
            parts += self._class_part(sign, not parts)
        self._at += 1
        found = f"[{'^' if is_negative else ''}{parts}]"
        return f"(?:(?!{excluded}){found})" if excluded else found

    def _class_part(self, sign: str, is_first: bool) -> str:
        """Return a character, a range or an escape of a character class."""
        if sign == "-":  # by itself only at the beginning or end
            if is_first or self._peek() == "]":
                return "\\-" if not self._ranges() else self._refuse_now()
            raise self._refuse()
        start, several = self._class_character(sign)
        if several is not None:
            if self._ranges():
                raise self._refuse()
            return _list(several)
        if not self._ranges():
            return re.escape(start)
        self._at += 1
        end, several = self._class_character(self._take())
        if several is not None or end < start:
            raise self._refuse()
        return f"{re.escape(start)}-{re.escape(end)}"

    def _refuse_now(self) -> str:
        raise self._refuse()

    def _class_character(self, sign: str) -> tuple[str, frozenset[str] | None]:
        if sign == "\\":
            return self._read_escape()
        if sign in "[]^-":
            raise self._refuse()
        return sign, None

    def _ranges(self) -> bool:
        """Return whether a range continues here: a hyphen that neither ends the class nor begins a subtraction."""
        following = self._pattern[self._at : self._at + 2]
        return following[:1] == "-" and following[1:] not in ("]", "[", "")


def _list(signs: frozenset[str]) -> str:
    return "".join([re.escape(sign) for sign in sorted(signs)])


def parse_replacement(text: str, regex: PythonRegex) -> list[str | int]:
    """Return the parts of a replacement: texts, and numbers of groups. Raises NotTranslatable."""
    parts: list[str | int] = []
    for found in re.finditer(r"[^\\$]+|\\([\\$])|\$(\d+)|[\\$]", text):
        escaped, number = found.groups()
        is_uncertain = number not in (None, "0") and (len(number) > 1 or regex.repeats_groups)
        if found[0] in ("\\", "$") or is_uncertain:
            raise NotTranslatable("such a replacement", hint=_HINT)
        if number is None:
            parts.append(escaped or found[0])
        elif int(number) <= regex.groups:
            parts.append(int(number))
    return parts
