"""Print types and annotations."""

from __future__ import annotations

from collections.abc import Sequence

from demaq.language import ast
from demaq.language.printing import words
from demaq.language.printing.writer import Printer, Writers


def sequence_type(p: Printer, node: ast.SequenceType) -> None:
    if node.item is None:
        p.put("empty-sequence()")
    elif isinstance(node.item, ast.FunctionTest) and node.occurrence:
        # An indicator right after `function(…) as T` would belong to T.
        p.put("(")
        p.bare(node.item)
        p.put(f"){node.occurrence}")
    else:
        p.bare(node.item)
        if node.occurrence:
            p.put(node.occurrence)


def kind_test(p: Printer, node: ast.KindTest) -> None:
    p.put(f"{node.kind}(")
    if node.inner is not None:
        kind_test(p, node.inner)
    if node.name is not None:
        plain = node.kind != "processing-instruction" or words.is_ncname(node.name.local)
        p.put(words.name(node.name) if plain else words.string(node.name.local))
    if node.type is not None:
        p.put(f", {words.name(node.type)}{'?' if node.nillable else ''}")
    p.put(")")


def function_test(p: Printer, node: ast.FunctionTest) -> None:
    write_annotations(p, node.annotations)
    if node.params is None:
        p.put("function(*)")
        return
    p.put("function(")
    for index, param in enumerate(node.params):
        if index:
            p.put(", ")
        sequence_type(p, param)
    p.put(")")
    p.as_type(node.returns)


def map_test(p: Printer, node: ast.MapTest) -> None:
    if node.key is None or node.value is None:
        p.put("map(*)")
        return
    p.put(f"map({words.name(node.key)}, ")
    sequence_type(p, node.value)
    p.put(")")


def array_test(p: Printer, node: ast.ArrayTest) -> None:
    if node.member is None:
        p.put("array(*)")
        return
    p.put("array(")
    sequence_type(p, node.member)
    p.put(")")


def write_annotations(p: Printer, nodes: Sequence[ast.Annotation]) -> None:
    """Write annotations, each followed by a space."""
    for node in nodes:
        values = [
            value.text if isinstance(value, ast.NumericLiteral) else words.string(value.value) for value in node.values
        ]
        p.put(f"%{words.name(node.name)}" + (f"({', '.join(values)}) " if values else " "))


def write_params(p: Printer, nodes: Sequence[ast.Param]) -> None:
    """Write `($a as T, $b)`."""
    p.put("(")
    for index, node in enumerate(nodes):
        if index:
            p.put(", ")
        p.variable(node)
    p.put(")")


TYPE_WRITERS: Writers = {
    ast.SequenceType: sequence_type,
    ast.SingleType: lambda p, node: p.put(words.name(node.name) + ("?" if node.optional else "")),
    ast.AnyItemTest: lambda p, node: p.put("item()"),
    ast.AtomicType: lambda p, node: p.put(words.name(node.name)),
    ast.KindTest: kind_test,
    ast.FunctionTest: function_test,
    ast.MapTest: map_test,
    ast.ArrayTest: array_test,
}
