"""Parse constructors: `<a b="{1}">text</a>`, `element a {…}`, ` ``[text]`` `. Direct ones are scanned by character."""

from __future__ import annotations

import re
from typing import NoReturn

from demaq.errors import ProgramError
from demaq.language import ast
from demaq.language.parsing.characters import NCNAME, QNAME, REFERENCE, SPACE, resolve_reference
from demaq.language.parsing.grammar import Grammar
from demaq.language.parsing.habits import explain_character
from demaq.language.parsing.scanner import BRACED, NAME, SYNTAX
from demaq.source import SourceLocation

_STRING_EDGE = re.compile(r"\]``|`\{")
_STATEMENT_LINE = re.compile(r"\n\s*create\s+(?:queue|property|slicing|collection|rule)\s")
_CONTENT_TEXT = re.compile(r"(?:[^{}<&]+|\{\{|\}\})+")
_QUOTED_TEXT = {'"': re.compile(r'(?:[^{}<&"]+|\{\{|\}\}|"")+'), "'": re.compile(r"(?:[^{}<&']+|\{\{|\}\}|'')+")}


class Constructors(Grammar):
    # direct

    def direct_constructor(self) -> ast.Expr:
        """Parse `<…` at the beginning of an expression."""
        node, offset = self._direct(self.start)
        self.last_end = offset
        self.go_to(offset)
        return node

    def _direct(self, offset: int) -> tuple[ast.Expr, int]:
        self.deeper()
        if self.text.startswith("<!--", offset):
            found = self._direct_comment(offset)
        elif self.text.startswith("<?", offset):
            found = self._direct_pi(offset)
        else:
            found = self._direct_element(offset)
        self.depth -= 1
        return found

    def _direct_comment(self, start: int) -> tuple[ast.Expr, int]:
        end = self.text.find("--", start + 4)
        if end < 0:
            self.fail_at("this XML comment is never closed", start, start + 4, hint="add the missing `-->`")
        if not self.text.startswith("-->", end):
            self.fail_at("`--` may not stand inside an XML comment", end, end + 2)
        return ast.DirectComment(SourceLocation(self.source, start, end + 3), self.text[start + 4 : end]), end + 3

    def _direct_pi(self, start: int) -> tuple[ast.Expr, int]:
        target = re.compile(NCNAME).match(self.text, start + 2)
        if target is None:
            self.fail_at("a processing instruction needs a name right after `<?`", start, start + 2)
        if target.group().lower() == "xml":
            self.fail_at("a processing instruction may not be called xml", target.start(), target.end())
        end = self.text.find("?>", target.end())
        if end < 0:
            self.fail_at("this processing instruction is never closed", start, start + 2, hint="add the missing `?>`")
        rest = self.text[target.end() : end]
        if rest and not rest[0].isspace():
            self.fail_at("expected a blank after the processing instruction's name", target.end(), target.end() + 1)
        at = SourceLocation(self.source, start, end + 2)
        return ast.DirectPI(at, target.group(), rest.lstrip(" \t\n\r")), end + 2

    def _direct_element(self, start: int) -> tuple[ast.Expr, int]:
        name, offset = self._tag_name(start + 1)
        attributes: list[ast.DirectAttribute] = []
        while True:
            after_space = self._space(offset)
            if self.text.startswith("/>", after_space):
                at = SourceLocation(self.source, start, after_space + 2)
                return ast.DirectElement(at, name, tuple(attributes), ()), after_space + 2
            if self.text.startswith(">", after_space):
                break
            if after_space == offset or after_space >= len(self.text):
                self.fail_at(
                    f"the start tag of <{name}> is not well-formed here",
                    after_space,
                    after_space + 1,
                    hint='attributes are written name="value" with a blank in front; the tag ends with > or />',
                )
            attribute, offset = self._direct_attribute(after_space)
            attributes.append(attribute)
        content, offset = self._content_and_end(start, name, after_space + 1)
        at = SourceLocation(self.source, start, offset)
        return ast.DirectElement(at, name, tuple(attributes), content), offset

    def _tag_name(self, offset: int) -> tuple[ast.Name, int]:
        match = QNAME.match(self.text, offset)
        if match is None:
            if self.text[offset - 2 : offset] == "=<":
                self.fail_at("`=<` is not an operator", offset - 2, offset, hint="write `<=`")
            hint = "where `<` means less than, an expression must stand before it"
            if self.start != offset - 1:  # the current token is before it: this is the content of an element
                hint = "write `&lt;` for the character <"
            self.fail_at("expected an element's name right after `<`", offset - 1, offset, hint)
        return self._name_of(match), match.end()

    def _name_of(self, match: re.Match[str]) -> ast.Name:
        first, second = match.groups()
        at = SourceLocation(self.source, match.start(), match.end())
        return ast.Name(at, second, first) if second else ast.Name(at, first)

    def _space(self, offset: int) -> int:
        match = SPACE.match(self.text, offset)
        return match.end() if match else offset

    def _direct_attribute(self, start: int) -> tuple[ast.DirectAttribute, int]:
        match = QNAME.match(self.text, start)
        if match is None:
            self.fail_at("expected an attribute's name, `>` or `/>`", start, start + 1)
        offset = self._space(match.end())
        if not self.text.startswith("=", offset):
            self.fail_at(f"expected `=` after the attribute's name {match.group()}", offset, offset + 1)
        offset = self._space(offset + 1)
        quote = self.text[offset : offset + 1]
        if quote not in _QUOTED_TEXT:
            self.fail_if_mistake(explain_character(self.text, offset) if quote else None)
            self.fail_at("an attribute's value stands in quotes", offset, offset + 1, hint='write it like id="{$id}"')
        parts, end = self._attribute_parts(offset, quote)
        name = self._name_of(match)
        if "xmlns" in (name.prefix, str(name)) and any([isinstance(part, ast.Enclosed) for part in parts]):
            self.fail_at("a namespace cannot be computed here", start, end, hint="write its URI itself")
        return ast.DirectAttribute(SourceLocation(self.source, start, end), name, parts), end

    def _attribute_parts(self, opening: int, quote: str) -> tuple[tuple[ast.RawText | ast.Enclosed, ...], int]:
        text, pattern = self.text, _QUOTED_TEXT[quote]
        parts: list[ast.RawText | ast.Enclosed] = []
        offset = opening + 1
        raw_start, raw = offset, ""
        while True:
            match = pattern.match(text, offset)
            if match is not None:
                raw += match.group().replace(quote * 2, quote)
                offset = match.end()
                continue
            character = text[offset : offset + 1]
            if character == "&":
                end = self._reference(offset)
                raw += text[offset:end]
                offset = end
                continue
            if raw:
                parts.append(ast.RawText(SourceLocation(self.source, raw_start, offset), raw))
            if character == quote:
                return tuple(parts), offset + 1
            if character == "{":
                enclosed, offset = self._parse_enclosed(offset, quote)
                parts.append(enclosed)
                raw_start, raw = offset, ""
            elif character == "":
                self.fail_at("this attribute's value is never closed", opening, opening + 1, hint=f"add a {quote}")
            else:
                self._fail_raw(character, offset)

    def _content_and_end(
        self, start: int, name: ast.Name, offset: int
    ) -> tuple[tuple[ast.RawText | ast.Enclosed | ast.CData | ast.Expr, ...], int]:
        """Parse the content. If it fails after the beginning of another statement, the end tag is missing."""
        try:
            return self._content(start, name, offset)
        except ProgramError as error:
            failed_at = error.at.start if error.at is not None else offset
            if self.in_rule and error.code == SYNTAX and _STATEMENT_LINE.search(self.text, offset, failed_at):
                self._fail_never_closed(start, name)
            raise

    def _fail_never_closed(self, start: int, name: ast.Name) -> NoReturn:
        self.fail_at(f"<{name}> is never closed", start, name.at.end, hint=f"add the missing </{name}>")

    def _content(
        self, start: int, name: ast.Name, offset: int
    ) -> tuple[tuple[ast.RawText | ast.Enclosed | ast.CData | ast.Expr, ...], int]:
        text = self.text
        found: list[ast.RawText | ast.Enclosed | ast.CData | ast.Expr] = []
        raw_start = offset
        while True:
            match = _CONTENT_TEXT.match(text, offset)
            if match is not None:
                offset = match.end()
            character = text[offset : offset + 1]
            if character == "&":
                offset = self._reference(offset)
                continue
            if offset > raw_start:
                found.append(ast.RawText(SourceLocation(self.source, raw_start, offset), text[raw_start:offset]))
            if character == "<":
                if text.startswith("</", offset):
                    return tuple(found), self._end_tag(name, offset)
                if text.startswith("<![CDATA[", offset):
                    cdata, offset = self._cdata(offset)
                    found.append(cdata)
                else:
                    node, offset = self._direct(offset)
                    found.append(node)
            elif character == "{":
                enclosed, offset = self._parse_enclosed(offset)
                found.append(enclosed)
            elif character == "":
                self._fail_never_closed(start, name)
            else:
                self._fail_raw(character, offset)
            raw_start = offset

    def _cdata(self, start: int) -> tuple[ast.CData, int]:
        end = self.text.find("]]>", start)
        if end < 0:
            self.fail_at("this CDATA section is never closed", start, start + 9, hint="add the missing `]]>`")
        return ast.CData(SourceLocation(self.source, start, end + 3), self.text[start + 9 : end]), end + 3

    def _end_tag(self, name: ast.Name, offset: int) -> int:
        match = QNAME.match(self.text, offset + 2)
        if match is None or match.group() != str(name):
            found = match.group() if match else ""
            self.fail_at(
                f"<{name}> is closed by </{found}>",
                offset,
                match.end() if match else offset + 2,
                hint=f"<{name}> began in line {name.at.line}",
            )
        end = self._space(match.end())
        if not self.text.startswith(">", end):
            self.fail_at(f"expected `>` to end </{name}", end, end + 1)
        return end + 1

    def _reference(self, offset: int) -> int:
        match = REFERENCE.match(self.text, offset)
        if match is None:
            self.fail_reference(offset, "&")
        if resolve_reference(match) is None:
            self.fail_reference(offset, match.group())
        return match.end()

    def _parse_enclosed(self, offset: int, quote: str = "") -> tuple[ast.Enclosed, int]:
        """Parse `{ expr? }` inside a constructor; scanning by character continues after the brace."""
        self.brackets.append((offset, quote))
        self.last_end = offset + 1
        self.go_to(offset + 1)
        content = None if self.value == "}" else self.expr()
        if self.value != "}":
            self.fail_unclosed("}")
        self.brackets.pop()
        return ast.Enclosed(SourceLocation(self.source, offset, self.end), content), self.end

    def _fail_raw(self, character: str, offset: int) -> None:
        doubled = f"write `{character * 2}` for the character itself" if character in "{}" else "write `&lt;` for it"
        self.fail_at(f"`{character}` may not stand here as text", offset, offset + 1, hint=doubled)

    # computed

    def is_computed_constructor(self) -> bool:
        """Return whether the current name begins a computed constructor: `element a {`, `text {` …"""
        if self.value in ("element", "attribute", "processing-instruction", "namespace"):
            kind, value, _ = self.peek_token()
            if value == "{":
                return True
            return (kind is NAME or kind is BRACED) and self.peek(2) == "{"
        return self.value in ("document", "text", "comment") and self.peek() == "{"

    def computed_constructor(self) -> ast.Expr:
        start, kind = self.start, self.value
        self.advance()
        name: ast.Name | ast.Expr | None = None
        if kind in ("element", "attribute", "processing-instruction", "namespace"):
            if self.value == "{":
                brace = self.here()
                name = self.enclosed_expr()
                if name is None and kind == "namespace":
                    name = ast.Sequence(brace, ())  # only a namespace may have an empty name
                elif name is None:
                    self.fail(f"the name of the {kind} is missing in the braces")
            elif kind in ("element", "attribute"):
                name = self.name()
            else:
                at = self.here()
                name = ast.Name(at, self.ncname())
        content = self.enclosed_expr()
        return ast.Computed(self.since(start), kind, name, content)

    # string constructors

    def string_constructor(self) -> ast.Expr:
        """Parse ` ``[ … `{ expr }` … ]`` `."""
        start, text = self.start, self.text
        offset = self.end
        parts: list[ast.RawText | ast.Enclosed] = []
        while True:
            edge = _STRING_EDGE.search(text, offset)
            if edge is None:
                self.fail_at("this string constructor is never closed", start, start + 3, hint="add the missing ]``")
            stop = edge.start()
            if stop > offset:
                parts.append(ast.RawText(SourceLocation(self.source, offset, stop), text[offset:stop]))
            if edge.group() == "]``":
                self.last_end = stop + 3
                self.go_to(stop + 3)
                return ast.StringConstructor(self.since(start), tuple(parts))
            enclosed, offset = self._parse_enclosed(stop + 1)
            if not text.startswith("`", offset):
                self.fail_at("expected ` after the closing brace", offset, offset + 1)
            offset += 1
            parts.append(enclosed)
