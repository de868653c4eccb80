"""Print primaries, postfixes, paths and operators."""

from __future__ import annotations

from demaq.language import ast
from demaq.language.parsing.expressions import ARROW, CAST, CASTABLE, CONCAT, TREAT
from demaq.language.printing import words
from demaq.language.printing.precedence import PRIMARY, STEP, UNARY, VALUE, level
from demaq.language.printing.stream import DEDENT, END_GROUP, GROUP, INDENT, SPACE_OR_BREAK
from demaq.language.printing.types import write_annotations, write_params
from demaq.language.printing.writer import Printer, Writers

_CAUTIOUS = frozenset(
    {
        *("for", "let", "some", "every", "if", "switch", "typeswitch", "try", "function", "validate", "do"),
        *("declare", "import", "xquery"),
    }
)
"""Element names that a reader, or Saxon, might take for the beginning of something else."""

_OPERAND_OF_TYPE = {"instance of": TREAT, "treat as": CASTABLE, "castable as": CAST, "cast as": ARROW}


# primaries


def inline_function(p: Printer, node: ast.InlineFunction) -> None:
    write_annotations(p, node.annotations)
    p.put("function")
    write_params(p, node.params)
    p.as_type(node.returns)
    p.put(" ")
    p.braces(node.body)


def map_constructor(p: Printer, node: ast.MapConstructor) -> None:
    if not node.entries:
        p.put("map {}")
        return
    p.put("map {", GROUP, INDENT)
    for index, entry in enumerate(node.entries):
        if index:
            p.put(",")
        p.put(SPACE_OR_BREAK)
        p.node(entry)
    p.put(DEDENT, SPACE_OR_BREAK, END_GROUP, "}")


def map_entry(p: Printer, node: ast.MapEntry) -> None:
    p.part(node.key)
    p.put(" :")  # with a space: `a:b` would be one name
    p.after_keyword(node.value, p.clause)


def curly_array(p: Printer, node: ast.CurlyArray) -> None:
    p.put("array ")
    p.braces(node.content)


def ordering(p: Printer, node: ast.Ordering) -> None:
    p.put(f"{node.mode} ")
    p.braces(node.content)


def extension(p: Printer, node: ast.Extension) -> None:
    for pragma in node.pragmas:
        content = f" {pragma.content}" if pragma.content else ""
        p.put(f"(# {words.name(pragma.name)}{content} #) ")
    p.braces(node.content)


def template(p: Printer, node: ast.Template) -> None:
    for part in node.parts:
        if isinstance(part, str):
            p.put(part)
        else:
            p.operand(part, PRIMARY)


# postfixes


def _key(p: Printer, key: ast.Expr) -> None:
    if isinstance(key, ast.KeyName):
        p.put(f"?{key.value}")
    elif isinstance(key, ast.KeyWildcard):
        p.put("?*")
    elif isinstance(key, ast.NumericLiteral) and key.text.isdigit():
        p.put(f"?{key.text}")
    elif isinstance(key, ast.Sequence) and not key.items:
        p.put("?()")
    else:
        p.put("?")
        p.parentheses(key)


def postfix(p: Printer, node: ast.Postfix) -> None:
    p.operand(node.base, PRIMARY)
    for suffix in node.suffixes:
        p.node(suffix)


# paths


def _step(p: Printer, node: ast.AxisStep, first: bool) -> None:
    test = node.test
    if node.axis == "parent" and isinstance(test, ast.KindTest) and test.kind == "node":
        p.put("..")
    else:
        p.put(_axis(node.axis, test, first))
        if isinstance(test, ast.KindTest):
            p.bare(test)
        else:
            p.put(words.name(test))
    for item in node.predicates:
        p.node(item)


def _axis(axis: str, test: ast.NameTest | ast.KindTest, first: bool) -> str:
    if axis == "attribute":
        return "@"
    if axis == "":
        return ""
    if axis != "child":
        return f"{axis}::"
    if isinstance(test, ast.KindTest):
        return "child::" if test.kind in ("attribute", "schema-attribute", "namespace-node") else ""
    cautious = first and test.prefix is None and test.uri is None and test.local in _CAUTIOUS
    return "child::" if cautious else ""


def path(p: Printer, node: ast.Path) -> None:
    for separator, step in zip(node.separators, node.steps, strict=True):
        if separator:
            p.put(separator)
        if isinstance(step, ast.DirectElement | ast.DirectComment | ast.DirectPI):
            p.parentheses(step)
        elif separator and isinstance(step, ast.AxisStep):
            p.mark(step.at)
            _step(p, step, first=False)
            p.end_mark(step.at)
        else:
            p.operand(step, STEP)


# operators


def operation(p: Printer, node: ast.OperatorChain) -> None:
    own = level(node)
    p.put(GROUP)
    _operand(p, node.operands[0], own)
    p.put(INDENT)
    for operator, operand in zip(node.operators, node.operands[1:], strict=True):
        p.put(SPACE_OR_BREAK, operator, " ")
        _operand(p, operand, own)
    p.put(DEDENT, END_GROUP)


def _operand(p: Printer, operand: ast.Expr, own: int) -> None:
    # The `+` of `1 treat as xs:integer + 2` would be parsed as an occurrence indicator.
    if isinstance(operand, ast.TypeOperation) and own >= CONCAT:
        p.parentheses(operand)
    else:
        p.operand(operand, own + 1)


def unary(p: Printer, node: ast.Unary) -> None:
    p.put(node.signs)
    p.operand(node.operand, VALUE)


def type_operation(p: Printer, node: ast.TypeOperation) -> None:
    p.operand(node.operand, _OPERAND_OF_TYPE[node.operator])
    p.put(f" {node.operator} ")
    p.bare(node.type)


def arrow(p: Printer, node: ast.Arrow) -> None:
    p.put(GROUP)
    p.operand(node.operand, UNARY)
    p.put(INDENT)
    for call in node.calls:
        p.put(SPACE_OR_BREAK, "=> ")
        p.node(call)
    p.put(DEDENT, END_GROUP)


def arrow_call(p: Printer, node: ast.ArrowCall) -> None:
    if isinstance(node.function, ast.Name):
        p.put(words.name(node.function))
    elif isinstance(node.function, ast.VarRef | ast.Sequence):
        p.node(node.function)
    else:
        p.parentheses(node.function)
    p.brackets("(", node.args, ")")


EXPRESSION_WRITERS: Writers = {
    ast.StringLiteral: lambda p, node: p.put(words.string(node.value)),
    ast.NumericLiteral: lambda p, node: p.put(node.text),
    ast.VarRef: lambda p, node: p.put(words.variable(node.name)),
    ast.ContextItem: lambda p, node: p.put("."),
    ast.Placeholder: lambda p, node: p.put("?"),
    ast.Sequence: lambda p, node: p.put("()"),  # others are written by Printer.expr, with or without parentheses
    ast.FunctionCall: lambda p, node: p.brackets(f"{words.name(node.name)}(", node.args, ")"),
    ast.NamedFunctionRef: lambda p, node: p.put(f"{words.name(node.name)}#{node.arity}"),
    ast.InlineFunction: inline_function,
    ast.MapConstructor: map_constructor,
    ast.MapEntry: map_entry,
    ast.SquareArray: lambda p, node: p.brackets("[", node.members, "]"),
    ast.CurlyArray: curly_array,
    ast.Ordering: ordering,
    ast.Extension: extension,
    ast.Template: template,
    ast.UnaryLookup: lambda p, node: _key(p, node.key),
    ast.Lookup: lambda p, node: _key(p, node.key),
    ast.Predicate: lambda p, node: p.condition("[", node.condition, "]"),
    ast.Arguments: lambda p, node: p.brackets("(", node.args, ")"),
    ast.Postfix: postfix,
    ast.AxisStep: lambda p, node: _step(p, node, first=True),
    ast.Path: path,
    ast.OperatorChain: operation,
    ast.Unary: unary,
    ast.TypeOperation: type_operation,
    ast.Arrow: arrow,
    ast.ArrowCall: arrow_call,
}
