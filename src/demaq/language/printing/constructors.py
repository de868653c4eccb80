"""Print constructors. In a direct one no white space is added outside of braces: it would become content."""

from __future__ import annotations

from demaq.language import ast
from demaq.language.printing import words
from demaq.language.printing.writer import Printer, Writers


def direct_element(p: Printer, node: ast.DirectElement) -> None:
    p.put(f"<{node.name}")
    for attribute in node.attributes:
        p.bare(attribute)
    if not node.content:
        p.put("/>")
        return
    p.put(">")
    for item in node.content:
        if isinstance(item, ast.RawText):
            p.put(item.raw)
        else:
            p.bare(item)
    p.put(f"</{node.name}>")


def direct_attribute(p: Printer, node: ast.DirectAttribute) -> None:
    p.put(f' {node.name}="')
    for part in node.parts:
        if isinstance(part, ast.RawText):
            p.put(part.raw.replace('"', '""'))
        else:
            p.braces(part.content)
    p.put('"')


def computed(p: Printer, node: ast.Computed) -> None:
    p.put(f"{node.kind} ")
    if isinstance(node.name, ast.Name):
        p.put(f"{words.name(node.name)} ")
    elif node.name is not None:
        p.braces(node.name)
        p.put(" ")
    p.braces(node.content)


def string_constructor(p: Printer, node: ast.StringConstructor) -> None:
    p.put("``[")
    for part in node.parts:
        if isinstance(part, ast.RawText):
            p.put(part.raw)
        else:
            p.put("`")
            p.braces(part.content)
            p.put("`")
    p.put("]``")


CONSTRUCTOR_WRITERS: Writers = {
    ast.DirectElement: direct_element,
    ast.DirectAttribute: direct_attribute,
    ast.Enclosed: lambda p, node: p.braces(node.content),
    ast.CData: lambda p, node: p.put(f"<![CDATA[{node.text}]]>"),
    ast.DirectComment: lambda p, node: p.put(f"<!--{node.text}-->"),
    ast.DirectPI: lambda p, node: p.put(f"<?{node.target} {node.text}?>" if node.text else f"<?{node.target}?>"),
    ast.Computed: computed,
    ast.StringConstructor: string_constructor,
}
