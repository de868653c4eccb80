"""Emit constructors as expressions for markup.

An element declares the namespaces that XQuery gives it (XQuery 3.1, 3.9.1.4), except those that the element around it
has for sure: that is known where a constructor stands directly in the content of another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lxml import etree

from demaq.compiler.emit.python.choices import Choice, ChoiceEmitter
from demaq.compiler.emit.python.code import (
    EMPTY,
    NODES,
    STRINGS,
    NotTranslatable,
    PythonCode,
    Type,
    join_strings,
    make_list,
    map_items,
    map_values,
    needs_escape,
    to_list,
    to_string_argument,
    to_strings,
)
from demaq.compiler.emit.python.combined_values import are_fitted, name_attributes, unify
from demaq.compiler.emit.python.focus import FocusAndVariables
from demaq.compiler.emit.python.markup_code import MarkupCode
from demaq.language import ast
from demaq.language.resolving.names import Names

Translate = Callable[[ast.Expr, FocusAndVariables], PythonCode]

_REFERENCE = re.compile(r"&(#x[0-9a-fA-F]+|#[0-9]+|[a-z]+);")
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_SPACE = " \t\r\n"
_NO_URI = re.compile(r"[ \t\r\n{}\"<>&\\]")
_ATTRIBUTES = (Type.ATTRIBUTE, Type.ATTRIBUTES)


@dataclass(slots=True)
class _EnclosedContent:
    """The value of an enclosed expression: attributes, then markup."""

    attributes: list[PythonCode] = field(default_factory=list)
    markup: MarkupCode = field(default_factory=MarkupCode)


@dataclass(slots=True)
class _Start:
    """The start of an element: its tag, still open, and the scope of its content."""

    markup: MarkupCode
    taken: list[str]
    """The names of its attributes."""
    scope: FocusAndVariables


class ElementEmitter:
    def __init__(self, names: Names, translate: Translate) -> None:
        self._names = names
        self._translate = translate
        self._choices = ChoiceEmitter(names, translate)

    # direct constructors

    def element(self, node: ast.DirectElement, scope: FocusAndVariables) -> PythonCode:
        markup = MarkupCode()
        self._add_element(markup, node, scope)
        return _made(markup.text, scope)

    def _add_element(
        self, markup: MarkupCode, node: ast.DirectElement, scope: FocusAndVariables, is_nested: bool = False
    ) -> None:
        own = _find_declarations(node)
        if own.get("") == "" and self._names.prefixes.get(""):  # Saxon then takes that of the prolog
            raise NotTranslatable("a default namespace that is taken back", node=node)
        uri, local = self._names.elements.get(node, (None, ""))
        given = [attribute for attribute in node.attributes if not _is_declaration(attribute)]
        prefixes = [(node.name.prefix or "", _require(uri, node))]
        for attribute in given:
            if attribute.name.prefix:
                prefixes.append((attribute.name.prefix, _require(self._names.attributes[attribute][0], node)))
        taken = [_clark(self._names.attributes[attribute]) for attribute in given]
        _check_names(_clark((uri, local)), taken)
        if "xml:id" in [str(attribute.name) for attribute in given] or len(set(taken)) < len(taken):
            raise NotTranslatable("an attribute xml:id, or two of one name")
        start = self._start(markup, str(node.name), own, prefixes, scope, is_nested)
        start.taken = taken
        for attribute in given:
            start.markup.add(f' {attribute.name}="')
            self._add_attribute_value(start.markup, attribute, scope)
            start.markup.add('"')
        content = _EnclosedContent()
        for number, part in enumerate(node.content):
            self._add_part(start, content, part, _touches_cdata(node.content, number))
        self._finish(start, content, f"</{node.name}>")

    def _start(
        self,
        markup: MarkupCode,
        name: str,
        own: Mapping[str, str],
        prefixes: list[tuple[str, str]],
        scope: FocusAndVariables,
        is_nested: bool = False,
    ) -> _Start:
        """Begin an element, given the namespaces it declares and those of the prefixes in names, its own first.

        `is_nested` says that it stands in another direct constructor: then Saxon does not give it the default
        namespace that the prolog has for the outer one.
        """
        inherited = scope.inherited or {}
        declared = {prefix: uri for prefix, uri in {**scope.declared, **own}.items() if uri}
        in_scope = dict(declared)
        for prefix, uri in prefixes:
            if uri and prefix != "xml" and in_scope.setdefault(prefix, uri) != uri:
                raise NotTranslatable("a prefix that stands for two namespaces")
        has_namespace = bool(prefixes[0][1])
        if (not has_namespace and "" in in_scope) or (own.get("") == "" and has_namespace):
            raise NotTranslatable("a default namespace that is declared and not used")
        context = {**inherited, **in_scope}
        markup.add(f"<{name}" if name else "")
        if (not has_namespace or (is_nested and "" not in in_scope)) and context.pop("", ""):
            markup.add(' xmlns=""')
        for prefix, uri in sorted(in_scope.items()):
            if inherited.get(prefix) != uri:
                if _NO_URI.search(uri):
                    raise NotTranslatable("a namespace with unusual characters")
                markup.add(f' xmlns:{prefix}="{uri}"' if prefix else f' xmlns="{uri}"')
        return _Start(markup, [], replace(scope, declared=declared, inherited=context))

    def _finish(self, start: _Start, content: _EnclosedContent, end: str) -> None:
        self._add_attributes(start, content.attributes)
        markup = start.markup
        if content.markup.is_empty:
            markup.add("/>")
        elif content.markup.is_filled:
            markup.add(">")
            markup.extend(content.markup)
            markup.add(end)
        else:
            markup.replace(f"closed({markup.text}, {content.markup.text}, {end!r})")

    def _add_part(self, start: _Start, content: _EnclosedContent, part: ast.Node, keeps_space: bool) -> None:
        markup = content.markup
        match part:
            case ast.RawText():
                if keeps_space or part.raw.strip(_SPACE):
                    markup.add(_escape(_unescape(part.raw)))
            case ast.CData():
                markup.add(_escape(part.text))
            case ast.Enclosed():
                if part.content is not None:
                    found = self.enclosed(part.content, start.scope)
                    if found.attributes and not markup.is_empty:
                        for code in found.attributes:
                            markup.add_code(f"no_attributes({code.list_text})")
                    else:
                        content.attributes += found.attributes
                    markup.extend(found.markup)
            case ast.DirectElement():
                inner = MarkupCode()
                self._add_element(inner, part, start.scope, is_nested=True)
                markup.extend(inner)
            case ast.DirectComment():
                markup.add(f"<!--{part.text}-->")
            case ast.DirectPI():
                markup.add(f"<?{part.target} {part.text}?>" if part.text else f"<?{part.target}?>")
            case _:
                raise NotTranslatable("such content of a constructor", node=part)

    def _add_attribute_value(
        self, markup: MarkupCode, attribute: ast.DirectAttribute, scope: FocusAndVariables
    ) -> None:
        for part in attribute.parts:
            if isinstance(part, ast.RawText):
                markup.add(_escape_value(_unescape(part.raw.translate(_AS_SPACE))))
            elif part.content is not None:
                code = self._translate(part.content, scope.stand_alone())
                joined = join_strings(code, " ")
                markup.add_code(f"escape_value({joined})" if needs_escape(code) else joined)

    def _add_attributes(self, start: _Start, codes: list[PythonCode]) -> None:
        """Add attributes that are content."""
        if any([code.type is Type.ATTRIBUTES for code in codes]):
            lists = [name_attributes(code).list_text for code in codes]
            namespaces = {prefix: uri for prefix, uri in (start.scope.inherited or {}).items() if prefix}
            start.markup.add_code(f"given_attributes({' + '.join(lists)}, {start.taken!r}, {namespaces!r})")
            return
        for code in codes:
            if code.name in start.taken:
                start.markup.add_code(f"no_attributes({code.list_text})")
            else:
                start.taken.append(code.name)
                start.markup.add_code(f"given_attribute({code.name!r}, {code.list_text})")

    # computed constructors

    def computed(self, node: ast.Computed, scope: FocusAndVariables) -> PythonCode:
        match node.kind:
            case "element":
                return self._computed_element(node, scope)
            case "attribute":
                return self._computed_attribute(node, scope)
            case "text":
                if node.content is None:
                    return EMPTY
                code = self._translate(node.content, scope.stand_alone())
                if code.type is Type.EMPTY:
                    return EMPTY
                if not code.is_list:
                    return PythonCode(join_strings(code, " "), Type.TEXT)
                strings = to_strings(code)
                found = f"(' '.join(t) for t in ({strings.text},) if t)"
                return PythonCode(f"list({found})", Type.TEXT, is_list=True, is_single=True)
        raise NotTranslatable(f"a computed {node.kind} constructor", node=node)

    def _computed_element(self, node: ast.Computed, scope: FocusAndVariables) -> PythonCode:
        markup = MarkupCode()
        if isinstance(node.name, ast.Name):
            uri, local = self._names.elements.get(node, (None, ""))
            if node.name.uri:
                raise NotTranslatable("a name that is written with its namespace")
            _check_names(_clark((uri, local)), [])
            start = self._start(markup, _written(node.name), {}, [(node.name.prefix or "", _require(uri, node))], scope)
            end = f"</{_written(node.name)}>"
            content = self._computed_content(node, start.scope)
            self._finish(start, content, end)
            return _made(markup.text, scope)
        assert node.name is not None, "elements have names"
        default = {**self._names.prefixes, **scope.declared}.get("", "")
        start = self._start(markup, "", {}, [("", default)], scope)
        content = self._computed_content(node, start.scope)
        self._add_attributes(start, content.attributes)
        name = self._computed_name(node.name, scope)
        return _made(f"named_element({name}, {markup.text}, {content.markup.text})", scope)

    def _computed_attribute(self, node: ast.Computed, scope: FocusAndVariables) -> PythonCode:
        value = "''"
        if node.content is not None:
            value = join_strings(self._translate(node.content, scope.stand_alone()), " ")
        if isinstance(node.name, ast.Name):
            uri, local = self._names.attributes.get(node, (None, ""))
            if uri != "":
                raise NotTranslatable("a computed attribute with a namespace")
            if local == "xmlns":
                raise NotTranslatable("an attribute xmlns")
            return PythonCode(value, Type.ATTRIBUTE, name=local)
        assert node.name is not None, "attributes have names"
        return PythonCode(f"made_attribute({self._computed_name(node.name, scope)}, {value})", Type.ATTRIBUTES)

    def _computed_name(self, expr: ast.Expr, scope: FocusAndVariables) -> str:
        code = self._translate(expr, scope.stand_alone())
        if code.type not in STRINGS and code.type not in NODES:
            raise NotTranslatable("a name that is no string")
        return f"ncname({to_string_argument(code)})"

    def _computed_content(self, node: ast.Computed, scope: FocusAndVariables) -> _EnclosedContent:
        return _EnclosedContent() if node.content is None else self.enclosed(node.content, scope)

    # content

    def enclosed(self, expr: ast.Expr, scope: FocusAndVariables) -> _EnclosedContent:
        """Return the value of an enclosed expression as content (XQuery 3.1, 3.9.1.3)."""
        if isinstance(expr, (ast.If, ast.Switch, ast.Typeswitch)):
            return self._choice(expr, scope)
        items = expr.items if isinstance(expr, ast.Sequence) else (expr,)
        codes = [self._translate(item, scope) for item in items]
        codes = [code for code in codes if code.type is not Type.EMPTY]
        found = _EnclosedContent()
        while codes and codes[0].type in _ATTRIBUTES:
            found.attributes.append(codes.pop(0))
        if len(codes) == 1 and codes[0].type is Type.ITEM:
            listed = codes[0].list_text
            found.attributes.append(make_list(f"attributes_in({listed})", Type.ATTRIBUTES))
            namespaces = dict(scope.inherited or {})
            found.markup.add_code(f"items_as_content({listed}, {namespaces!r}, {codes[0].is_fitted})")
            return found
        if any([code.type is Type.ITEM for code in codes]):
            raise NotTranslatable("nodes or values beside others")
        if any([code.type in _ATTRIBUTES for code in codes]):
            raise NotTranslatable("attributes after other content")
        if len(codes) > 1 and any([code.type not in NODES for code in codes]):
            parts = [f"({code.type not in NODES}, {self._markup_list(code, scope)})" for code in codes]
            found.markup.add_code(f"mixed({', '.join(parts)})")
            return found
        for code in codes:
            if code.type in NODES:
                is_filled = code.type is Type.MADE and not code.is_list
                found.markup.add_code(self._nodes(code, scope), is_filled)
            elif code.type is Type.DONE:
                raise NotTranslatable("an action in a constructor")
            elif code.type is Type.ERROR:
                found.markup.add_code(f"''.join({code.text})" if code.clauses else code.item)
            else:
                joined = join_strings(code, " ")
                is_filled = not code.is_list and not needs_escape(code)
                found.markup.add_code(f"escape({joined})" if needs_escape(code) else joined, is_filled)
        return found

    def _choice(self, node: ast.If | ast.Switch | ast.Typeswitch, scope: FocusAndVariables) -> _EnclosedContent:
        choice = self._choices.divide(node, scope)
        found = [
            _EnclosedContent() if branch.expr is None else self.enclosed(branch.expr, branch.scope)
            for branch in choice.branches
        ]
        made = _EnclosedContent()
        if any([each.attributes for each in found]):
            made.attributes.append(_choose_attributes(choice, [each.attributes for each in found]))
        if not made.attributes or not all([each.markup.is_empty for each in found]):  # conditions may fail
            text = found[-1].markup.text
            for branch, each in zip(choice.branches[-2::-1], found[-2::-1], strict=True):
                text = f"({each.markup.text} if {branch.condition} else {text})"
            made.markup.add_code(choice.bind(text), all([each.markup.is_filled for each in found]))
        return made

    def _markup_list(self, code: PythonCode, scope: FocusAndVariables) -> str:
        """Return a list with the markup of each item."""
        if code.type in NODES:
            return map_items(to_list(code), self._template(code, scope), Type.STRING).text
        return map_items(to_strings(code), "escape({})", Type.STRING).text

    def _nodes(self, code: PythonCode, scope: FocusAndVariables) -> str:
        """Return the markup of nodes as one text."""
        template = self._template(code, scope)
        if not code.is_list:
            return template.format(code.item)
        if template == "{}" or code.type is Type.TEXT:
            return f"''.join({code.each})" if template == "{}" else f"escape(''.join({code.each}))"
        return f"''.join({map_items(code, template, Type.STRING).text})"

    def _template(self, code: PythonCode, scope: FocusAndVariables) -> str:
        """Return an expression for the markup of a node; `{}` in it stands for the node."""
        namespaces = scope.inherited or {}
        if code.type is Type.TEXT:
            return "escape({})"
        if code.type is Type.MADE:
            return "made_into({})" if "" in namespaces and not code.is_fitted else "{}"
        function = {Type.ELEMENT: "copied", Type.DOCUMENT: "copied_document", Type.NODE: "copied_node"}[code.type]
        if code.type is Type.ELEMENT and not code.is_own:
            function = "copied_made"
        if not namespaces:
            return f"{function}({{}})"
        shown = repr(dict(namespaces)).replace("{", "{{").replace("}", "}}")
        return f"{function}_into({{}}, {shown})"


def _choose_attributes(choice: Choice, found: list[list[PythonCode]]) -> PythonCode:
    if any([len(each) > 1 for each in found]):
        raise NotTranslatable("a choice between several attributes")
    codes = [each[0] if each else EMPTY for each in found]
    if len({(code.type, code.name) for code in codes if code.type is not Type.EMPTY}) > 1:
        codes = [name_attributes(code) for code in codes]
    return choice.fold(codes)


def fit(code: PythonCode, scope: FocusAndVariables) -> PythonCode:
    """Return constructed elements as content of the element that they are put into."""
    if code.type is not Type.MADE or code.is_fitted or scope.inherited is None:
        return code
    if "" in scope.inherited:
        code = map_values(code, "made_into({})", Type.MADE)
    return replace(code, is_fitted=True)


def _made(text: str, scope: FocusAndVariables) -> PythonCode:
    return PythonCode(text, Type.MADE, is_fitted=scope.inherited is not None)


def _require(uri: str | None, node: ast.Node) -> str:
    if uri is None:
        raise NotTranslatable("a name whose namespace is not known", node=node)
    return uri


def _clark(name: tuple[str | None, str]) -> str:
    """Return a name in lxml's notation."""
    return f"{{{name[0]}}}{name[1]}" if name[0] else name[1]


def _written(name: ast.Name) -> str:
    return f"{name.prefix}:{name.local}" if name.prefix else name.local


def _find_declarations(node: ast.DirectElement) -> dict[str, str]:
    """Return the namespaces that an element declares itself, by prefix; the default one has none."""
    found: dict[str, str] = {}
    for attribute in node.attributes:
        if _is_declaration(attribute):
            prefix = attribute.name.local if attribute.name.prefix else ""
            parts = [_unescape(part.raw) for part in attribute.parts if isinstance(part, ast.RawText)]
            if len(parts) < len(attribute.parts) or (prefix and not parts):
                raise NotTranslatable("a namespace that is computed or taken back", node=attribute)
            found[prefix] = "".join(parts)
    return found


def _is_declaration(attribute: ast.DirectAttribute) -> bool:
    name = attribute.name
    return name.prefix == "xmlns" or (name.prefix is None and name.local == "xmlns")


def _touches_cdata(parts: tuple[ast.Node, ...], number: int) -> bool:
    """Return whether a part is beside a CDATA section: white space is kept there (XQuery 3.1, 3.9.1.4)."""
    return any([isinstance(part, ast.CData) for part in parts[max(0, number - 1) : number + 2]])


def _check_names(tag: str, attributes: list[str]) -> None:
    """Raises NotTranslatable for names that lxml refuses; XQuery allows more."""
    try:
        element = etree.Element(tag.rpartition("}")[2])
        for name in attributes:
            element.set(name.rpartition("}")[2], "")
    except ValueError:
        raise NotTranslatable(f"the name {tag} or one of its attributes' names") from None


def concatenate(codes: list[PythonCode]) -> PythonCode:
    """Return the concatenation of values."""
    codes = [code for code in codes if code.type is not Type.EMPTY]
    if not codes:
        return EMPTY
    if len(codes) == 1:
        return codes[0]
    if all([code.type is Type.DONE for code in codes]):
        return PythonCode(f"({', '.join([code.text for code in codes])})", Type.DONE)
    is_fitted = are_fitted(codes)
    codes = unify(codes, "a sequence of")
    if codes[0].type is Type.DONE:
        raise NotTranslatable("actions and values in one sequence")
    listed = " + ".join([code.list_text for code in codes])
    return PythonCode(f"({listed})", codes[0].type, is_list=True, is_fitted=is_fitted)


_AS_SPACE = str.maketrans({"\n": " ", "\t": " ", "\r": " "})
_CONTENT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_VALUE = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}
)


def _escape(text: str) -> str:
    return text.translate(_CONTENT)


def _escape_value(text: str) -> str:
    return text.translate(_VALUE)


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
