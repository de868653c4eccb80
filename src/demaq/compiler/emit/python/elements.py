"""Emit element constructors: nested calls, each of which adds to an element and returns it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from lxml import etree

from demaq.compiler.emit.python.code import EMPTY, NODES, NotTranslatable, PythonCode, Type, join_strings, to_strings
from demaq.compiler.emit.python.focus import FocusAndVariables
from demaq.language import ast
from demaq.language.resolving.names import Names

Translate = Callable[[ast.Expr, FocusAndVariables], PythonCode]

_REFERENCE = re.compile(r"&(#x[0-9a-fA-F]+|#[0-9]+|[a-z]+);")
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_SPACE = " \t\r\n"


class ElementEmitter:
    def __init__(self, names: Names, translate: Translate) -> None:
        self._names = names
        self._translate = translate
        self.makes_namespaces = False
        """Whether an element or attribute with a namespace was emitted."""

    def element(self, node: ast.DirectElement, scope: FocusAndVariables) -> PythonCode:
        namespaces = self._find_declarations(node)
        tag = self._name(node, node.name, self._names.elements, namespaces)
        given: list[tuple[str, str]] = []
        for attribute in node.attributes:
            if not _is_declaration(attribute):
                name = self._name(attribute, attribute.name, self._names.attributes, namespaces)
                given.append((name, self._attribute_value(attribute, scope)))
        if len(set(namespaces.values())) < len(namespaces):
            raise NotTranslatable("two prefixes for one namespace")
        _check_names(tag, [name for name, _ in given], namespaces)
        text = f"new({tag!r})"
        if namespaces:
            self.makes_namespaces = True
            text = f"new({tag!r}, None, {namespaces!r})"
        for name, value in given:
            text = f"with_attribute({text}, {name!r}, {value})"
        for part in node.content:
            match part:
                case ast.RawText():
                    if part.raw.strip(_SPACE):
                        text = f"with_text({text}, {_unescape(part.raw)!r})"
                case ast.Enclosed():
                    if part.content is not None:
                        text = self._append(text, part.content, scope)
                case ast.DirectElement():
                    text = f"with_made({text}, {self.element(part, scope).text})"
                case _:
                    raise NotTranslatable("a comment, processing instruction or CDATA section in a constructor")
        return PythonCode(text, Type.MADE, is_new=True)

    def _find_declarations(self, node: ast.DirectElement) -> dict[str, str]:
        """Return the namespaces that an element declares itself, by prefix."""
        found: dict[str, str] = {}
        for attribute in node.attributes:
            if _is_declaration(attribute):
                if attribute.name.prefix is None:
                    raise NotTranslatable("a default namespace")
                found[attribute.name.local] = "".join(
                    [_unescape(part.raw) for part in attribute.parts if isinstance(part, ast.RawText)]
                )
        return found

    def _name(
        self,
        node: ast.Node,
        name: ast.Name,
        known: Mapping[ast.Node, tuple[str | None, str]],
        namespaces: dict[str, str],
    ) -> str:
        """Return a name in lxml's notation, and add the namespace of its prefix to those of the element."""
        uri, local = known.get(node, (None, ""))
        if uri == "":
            return local
        if uri is None or name.prefix is None or name.prefix == "xml":
            raise NotTranslatable("a default namespace, or a name that is written with its namespace")
        namespaces[name.prefix] = uri
        return f"{{{uri}}}{local}"

    def _attribute_value(self, attribute: ast.DirectAttribute, scope: FocusAndVariables) -> str:
        parts: list[str] = []
        for part in attribute.parts:
            if isinstance(part, ast.RawText):
                parts.append(repr(_unescape(part.raw.translate(_AS_SPACE))))
            elif part.content is not None:
                parts.append(join_strings(self._translate(part.content, scope), " "))
        return " + ".join(parts) or "''"

    def _append(self, made: str, expr: ast.Expr, scope: FocusAndVariables) -> str:
        """Return the element with the value of an enclosed expression added."""
        items = expr.items if isinstance(expr, ast.Sequence) else (expr,)
        codes = [self._translate(item, scope) for item in items]
        if len(codes) > 1 and any([code.type not in NODES and code.type is not Type.EMPTY for code in codes]):
            if any([code.type in NODES for code in codes]):
                raise NotTranslatable("nodes and values side by side in a constructor")
            return f"with_text({made}, ' '.join({' + '.join([to_strings(code).text for code in codes])}))"
        for code in codes:
            made = self._append_one(made, code)
        return made

    def _append_one(self, made: str, code: PythonCode) -> str:
        match code.type:
            case Type.EMPTY:
                return made
            case Type.DOCUMENT | Type.ELEMENT:
                return f"with_copies({made}, {code.each})"
            case Type.MADE if code.is_new:
                return f"with_all({made}, {code.each})" if code.is_list else f"with_made({made}, {code.text})"
            case Type.MADE:
                return f"with_copies({made}, {code.each})"
            case Type.ATTRIBUTE if code.name.startswith("{"):
                raise NotTranslatable("a copy of an attribute that has a namespace")
            case Type.ATTRIBUTE:
                return f"with_attributes({made}, {code.name!r}, {code.each})"
            case Type.TEXT:
                return f"with_text({made}, ''.join({code.each}))"
            case Type.DONE:
                raise NotTranslatable("an action in a constructor")
        return f"with_text({made}, {join_strings(code, ' ')})"


def _check_names(tag: str, attributes: list[str], namespaces: dict[str, str]) -> None:
    """Raises NotTranslatable for names and namespaces that lxml refuses; XQuery allows more."""
    try:
        element = etree.Element(tag, None, namespaces)
        for name in attributes:
            element.set(name, "")
    except ValueError:
        raise NotTranslatable(f"the name {tag} or one of its attributes' names") from None


def _is_declaration(attribute: ast.DirectAttribute) -> bool:
    name = attribute.name
    return name.prefix == "xmlns" or (name.prefix is None and name.local == "xmlns")


def concatenate(codes: list[PythonCode]) -> PythonCode:
    """Return the concatenation of values."""
    codes = [code for code in codes if code.type is not Type.EMPTY]
    if not codes:
        return EMPTY
    if len(codes) == 1:
        return codes[0]
    if all([code.type is Type.DONE for code in codes]):
        return PythonCode(f"({', '.join([code.text for code in codes])})", Type.DONE)
    types = {code.type for code in codes}
    if len(types) > 1 or Type.DONE in types or Type.ATTRIBUTE in types:
        raise NotTranslatable("values of different kinds in one sequence")
    is_new = all([code.is_new for code in codes])
    listed = " + ".join([code.list_text for code in codes])
    return PythonCode(f"({listed})", codes[0].type, is_list=True, is_new=is_new)


_AS_SPACE = str.maketrans({"\n": " ", "\t": " ", "\r": " "})


def _unescape(raw: str) -> str:
    """Return literal content with references and doubled braces resolved."""
    return _REFERENCE.sub(_resolve_reference, raw.replace("{{", "{").replace("}}", "}"))


def _resolve_reference(match: re.Match[str]) -> str:
    name = match[1]
    if name.startswith("#x"):
        return chr(int(name[2:], 16))
    if name.startswith("#"):
        return chr(int(name[1:]))
    if name not in _NAMED:
        raise NotTranslatable("a reference to an entity")
    return _NAMED[name]
