"""Parse queries and prologs: version, namespaces, setters, imports, variables, functions, options."""

from __future__ import annotations

import re
from typing import Literal, cast

from demaq.language import ast
from demaq.language.parsing.expressions import Expressions

_ENCODING = re.compile("[A-Za-z][A-Za-z0-9._-]*")
_FORMAT_PROPERTIES = (
    *("decimal-separator", "grouping-separator", "infinity", "minus-sign", "NaN", "percent", "per-mille", "zero-digit"),
    *("digit", "pattern-separator", "exponent-separator"),
)
_HEAD = (
    *("boundary-space", "default", "base-uri", "construction", "ordering", "copy-namespaces", "decimal-format"),
    *("namespace", "revalidation"),
)
_BODY = ("variable", "function", "%", "option", "context", "updating")
_SETTERS = {
    "boundary-space": ("preserve", "strip"),
    "construction": ("preserve", "strip"),
    "ordering": ("ordered", "unordered"),
    "revalidation": ("strict", "lax", "skip"),
}


class Prolog(Expressions):
    def query(self) -> ast.Query:
        """Parse a whole main or library module."""
        self.go_to(0)
        start = self.start
        version = self._version()
        library = self._library()
        prolog = self.prolog()
        body = None
        if library is None:
            body = self.expr()
        if self.kind != "end":
            self.fail(f"unexpected {self.found()}", hint="the expression is complete before this")
        return ast.Query(self.since(start), version, library, prolog, body, tuple(self.comments))

    def _version(self) -> ast.VersionDecl | None:
        if self.value != "xquery" or self.peek() not in ("version", "encoding"):
            return None
        start = self.start
        self.advance()
        version = self.string_literal().value if self.accept("version") else None
        encoding = None
        if self.accept("encoding"):
            at = self.here()
            encoding = self.string_literal("the name of an encoding in quotes").value
            if not _ENCODING.fullmatch(encoding):
                self.fail_at("expected the name of an encoding, such as `utf-8`", at.start, at.end)
        self.expect(";")
        return ast.VersionDecl(self.since(start), version, encoding)

    def _library(self) -> ast.NamespaceDecl | None:
        if self.value != "module" or self.peek() != "namespace" or self.peek(3) != "=":
            return None
        start = self.start
        self.advance()
        self.advance()
        prefix = self.ncname()
        self.expect("=")
        uri = self.string_literal().value
        self.expect(";")
        return ast.NamespaceDecl(self.since(start), prefix, uri)

    def prolog(self) -> tuple[ast.Decl, ...]:
        declarations: list[ast.Decl] = []
        in_body = False
        while True:
            following = self.peek() if self.value in ("declare", "import") else ""
            if self.value == "import" and following in ("schema", "module"):
                self._refuse_late(in_body, "import")
                declarations.append(self._import())
            elif self.value == "declare" and following in _HEAD:
                self._refuse_late(in_body, f"declare {following}")
                declarations.append(self._head_declaration())
            elif self.value == "declare" and following in _BODY:
                in_body = True
                declarations.append(self._body_declaration())
            else:
                return tuple(declarations)
            self.expect(";", hint="every declaration of the prolog ends with `;`")

    def _refuse_late(self, in_body: bool, what: str) -> None:
        if in_body:
            self.fail(
                f"`{what}` stands after a variable, function or option",
                hint="namespaces, settings and imports come first in a prolog",
            )

    def _import(self) -> ast.Decl:
        start = self.start
        self.advance()
        if self.value == "schema":
            self.fail(
                "schema imports are not supported", hint="give the queue a schema: create queue q schema order.xsd"
            )
        self.advance()
        prefix = None
        if self.accept("namespace"):
            prefix = self.ncname()
            self.expect("=")
        uri = self.string_literal().value
        locations = self.several(self.string_literal) if self.accept("at") else ()
        return ast.ModuleImport(self.since(start), prefix, uri, tuple([location.value for location in locations]))

    def _head_declaration(self) -> ast.Decl:
        start = self.start
        self.advance()
        word = self.value
        if word == "namespace":
            self.advance()
            prefix = self.ncname("a prefix")
            self.expect("=")
            uri = self.string_literal().value
            return ast.NamespaceDecl(self.since(start), prefix, uri)
        if word == "default":
            return self._default(start)
        if word == "decimal-format":
            self.advance()
            name = self.name()
            return self._decimal_format(start, name)
        self.advance()
        if word == "base-uri":
            value = self.string_literal().value
        elif word == "copy-namespaces":
            first = self.one_of("preserve", "no-preserve")
            self.expect(",")
            value = f"{first}, {self.one_of('inherit', 'no-inherit')}"
        else:
            value = self.one_of(*_SETTERS[word])
        return ast.Setter(self.since(start), word, value)

    def _default(self, start: int) -> ast.Decl:
        self.advance()
        word = self.one_of("element", "function", "collation", "order", "decimal-format")
        if word in ("element", "function"):
            self.expect("namespace")
            uri = self.string_literal().value
            return ast.DefaultNamespaceDecl(self.since(start), cast(Literal["element", "function"], word), uri)
        if word == "collation":
            uri = self.string_literal().value
            return ast.Setter(self.since(start), "default collation", uri)
        if word == "order":
            self.expect("empty")
            value = self.one_of("greatest", "least")
            return ast.Setter(self.since(start), "default order empty", value)
        return self._decimal_format(start, None)

    def _decimal_format(self, start: int, name: ast.Name | None) -> ast.Decl:
        properties: list[tuple[str, str]] = []
        while self.value in _FORMAT_PROPERTIES:
            property_name = self.value
            self.advance()
            self.expect("=")
            properties.append((property_name, self.string_literal().value))
        return ast.DecimalFormatDecl(self.since(start), name, tuple(properties))

    def _body_declaration(self) -> ast.Decl:
        start = self.start
        self.advance()
        if self.value == "option":
            self.advance()
            name = self.name("the option's name")
            value = self.string_literal().value
            return ast.OptionDecl(self.since(start), name, value)
        if self.value == "context":
            return self._context_item(start)
        annotations = self.annotations()
        updating = self.accept("updating")
        annotations += self.annotations()
        if updating:
            self.expect("function")
            return self._function(start, annotations, updating)
        word = self.one_of("variable", "function")
        return self._variable(start, annotations) if word == "variable" else self._function(start, annotations, False)

    def _context_item(self, start: int) -> ast.Decl:
        self.expect_words("context", "item")
        type_ = None
        if self.accept("as"):
            type_ = self.item_type()
        external, value = self._value_or_external()
        return ast.ContextItemDecl(self.since(start), type_, external, value)

    def _value_or_external(self) -> tuple[bool, ast.Expr | None]:
        external = self.accept("external")
        if external and self.value != ":=":
            return external, None
        self.expect(":=")
        return external, self.expr_single()

    def _variable(self, start: int, annotations: tuple[ast.Annotation, ...]) -> ast.Decl:
        name = self.variable_name()
        type_ = self.optional_type()
        external, value = self._value_or_external()
        return ast.VarDecl(self.since(start), annotations, name, type_, external, value)

    def _function(self, start: int, annotations: tuple[ast.Annotation, ...], updating: bool) -> ast.Decl:
        name = self.name("the function's name")
        self._refuse_reserved(name)
        if updating or "updating" in [str(annotation.name) for annotation in annotations]:
            self.updating_functions.add(str(name))
        params = self.params()
        returns = self.optional_type()
        external = self.accept("external")
        body = None if external else self.enclosed_expr()
        return ast.FunctionDecl(self.since(start), annotations, updating, name, params, returns, external, body)
