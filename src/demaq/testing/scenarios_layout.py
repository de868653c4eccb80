"""XML laid out to be read and compared line by line: equal trees give equal lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from demaq.testing.scenarios_xml import ComparedDocument, Element, Instruction, Node, read_body
from demaq.xml_escaping import escape, quoteattr

_XML = "http://www.w3.org/XML/1998/namespace"


def message_lines(text: str) -> list[str]:
    """Return a message on its own."""
    body = read_body(text)
    return layout(body.root, prefixes_of([body]))


def prefixes_of(bodies: Iterable[ComparedDocument]) -> dict[str, str | None]:
    """Return a prefix for each namespace of these documents, as they are written; None for a default namespace."""
    found: dict[str, str | None] = {_XML: "xml"}
    for body in bodies:
        for uri, prefix in body.prefixes.items():
            if uri not in found:
                taken = prefix is not None and prefix in found.values()
                found[uri] = f"ns{len(found)}" if taken else prefix
    return found


def layout(root: Element, prefixes: Mapping[str, str | None]) -> list[str]:
    """Return one element a line, but for elements that hold text beside elements."""
    return _XmlLayout(root, prefixes).element(root, "", "", root=True)


class _XmlLayout:
    def __init__(self, root: Element, prefixes: Mapping[str, str | None]) -> None:
        self._prefixes = dict(prefixes)
        for uri in _attribute_namespaces(root):
            if self._prefixes.get(uri) is None:  # an attribute is never in the default namespace
                self._prefixes[uri] = f"ns{len(self._prefixes)}"
        used = sorted(_namespaces(root))
        declared = [(self._prefixes.get(uri), uri) for uri in used]
        self._declarations = [f' xmlns:{prefix}="{escape(uri)}"' for prefix, uri in declared if prefix and uri != _XML]

    def element(self, element: Element, indent: str, default: str, root: bool = False) -> list[str]:
        tag, opening, default = self._opening(element, default, root)
        children = element.children
        if not children:
            return [f"{indent}<{opening}/>"]
        if any([isinstance(child, str) for child in children]):
            text = "".join([self._inline(child, default) for child in children])
            return f"{indent}<{opening}>{text}</{tag}>".split("\n")
        lines = [f"{indent}<{opening}>"]
        for child in children:
            if isinstance(child, Element):
                lines += self.element(child, indent + "  ", default)
            else:
                lines.append(f"{indent}  {self._inline(child, default)}")
        return [*lines, f"{indent}</{tag}>"]

    def _opening(self, element: Element, default: str, root: bool) -> tuple[str, str, str]:
        """Return the tag's name, all of the start tag, and the default namespace within it."""
        uri, local = _split(element.name)
        prefix = self._prefixes.get(uri) if uri else None
        declarations = "".join(self._declarations) if root else ""
        if prefix is None and uri != default:
            declarations = f' xmlns="{escape(uri)}"' + declarations
            default = uri
        attributes = [
            f" {self._attribute(name)}={quoteattr(value)}" for name, value in sorted(element.attributes.items())
        ]
        tag = f"{prefix}:{local}" if prefix else local
        return tag, tag + declarations + "".join(attributes), default

    def _attribute(self, name: str) -> str:
        uri, local = _split(name)
        return f"{self._prefixes[uri]}:{local}" if uri else local

    def _inline(self, node: Node, default: str) -> str:
        if isinstance(node, str):
            return escape(node)
        if isinstance(node, Instruction):
            return f"<?{node.target} {node.text}?>"
        tag, opening, default = self._opening(node, default, False)
        text = "".join([self._inline(child, default) for child in node.children])
        return f"<{opening}>{text}</{tag}>" if text else f"<{opening}/>"


def _split(name: str) -> tuple[str, str]:
    uri, _, local = name.rpartition("}")
    return uri.removeprefix("{"), local


def _namespaces(element: Element) -> set[str]:
    found = {_split(name)[0] for name in (element.name, *element.attributes)}
    for child in element.children:
        if isinstance(child, Element):
            found |= _namespaces(child)
    return found - {""}


def _attribute_namespaces(element: Element) -> set[str]:
    found = {_split(name)[0] for name in element.attributes}
    for child in element.children:
        if isinstance(child, Element):
            found |= _attribute_namespaces(child)
    return found - {""}
