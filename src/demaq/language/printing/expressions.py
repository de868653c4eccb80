"""Print primaries, postfixes, paths and operators."""

from __future__ import annotations

from demaq.language import ast
from demaq.language.printing import words
from demaq.language.printing.precedence import (
    ARROW,
    CAST,
    CASTABLE,
    CONCATENATION,
    OR,
    PRIMARY,
    STEP,
    TREAT,
    UNARY,
    VALUE,
    level,
)
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


def string_literal(p: Printer, node: ast.StringLiteral) -> None:
    p.put(words.string(node.value))


def numeric_literal(p: Printer, node: ast.NumericLiteral) -> None:
    p.put(node.text)


def var_ref(p: Printer, node: ast.VarRef) -> None:
    p.put(words.variable(node.name))


def context_item(p: Printer, node: ast.ContextItem) -> None:
    p.put(".")


def placeholder(p: Printer, node: ast.Placeholder) -> None:
    p.put("?")


def empty_sequence(p: Printer, node: ast.Sequence) -> None:
    p.put("()")  # others are written by Printer.expr, with or without parentheses


def function_call(p: Printer, node: ast.FunctionCall) -> None:
    p.brackets(f"{words.name(node.name)}(", node.args, ")")


def named_function_ref(p: Printer, node: ast.NamedFunctionRef) -> None:
    p.put(f"{words.name(node.name)}#{node.arity}")


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
    p.put("map {")
    p.put(GROUP)
    p.put(INDENT)
    for index, entry in enumerate(node.entries):
        if index:
            p.put(",")
        p.put(SPACE_OR_BREAK)
        p.node(entry)
    p.put(DEDENT)
    p.put(SPACE_OR_BREAK)
    p.put(END_GROUP)
    p.put("}")


def map_entry(p: Printer, node: ast.MapEntry) -> None:
    p.operand(node.key, OR)
    p.put(" :")  # with a space: `a:b` would be one name
    p.after_keyword(node.value, p.clause)


def square_array(p: Printer, node: ast.SquareArray) -> None:
    p.brackets("[", node.members, "]")


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


def unary_lookup(p: Printer, node: ast.UnaryLookup) -> None:
    _key(p, node.key)


def lookup(p: Printer, node: ast.Lookup) -> None:
    _key(p, node.key)


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


def predicate(p: Printer, node: ast.Predicate) -> None:
    p.condition("[", node.condition, "]")


def arguments(p: Printer, node: ast.Arguments) -> None:
    p.brackets("(", node.args, ")")


def postfix(p: Printer, node: ast.Postfix) -> None:
    p.operand(node.base, PRIMARY)
    for suffix in node.suffixes:
        p.node(suffix)


# paths


def axis_step(p: Printer, node: ast.AxisStep) -> None:
    _step(p, node, first=True)


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
        p.put(SPACE_OR_BREAK)
        p.put(operator)
        p.put(" ")
        _operand(p, operand, own)
    p.put(DEDENT)
    p.put(END_GROUP)


def _operand(p: Printer, operand: ast.Expr, own: int) -> None:
    # The `+` of `1 treat as xs:integer + 2` would be parsed as an occurrence indicator.
    if isinstance(operand, ast.TypeOperation) and own >= CONCATENATION:
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
        p.put(SPACE_OR_BREAK)
        p.put("=> ")
        p.node(call)
    p.put(DEDENT)
    p.put(END_GROUP)


def arrow_call(p: Printer, node: ast.ArrowCall) -> None:
    if isinstance(node.function, ast.Name):
        p.put(words.name(node.function))
    elif isinstance(node.function, ast.VarRef | ast.Sequence):
        p.node(node.function)
    else:
        p.parentheses(node.function)
    p.brackets("(", node.args, ")")


EXPRESSION_WRITERS: Writers = {
    ast.StringLiteral: string_literal,
    ast.NumericLiteral: numeric_literal,
    ast.VarRef: var_ref,
    ast.ContextItem: context_item,
    ast.Placeholder: placeholder,
    ast.Sequence: empty_sequence,
    ast.FunctionCall: function_call,
    ast.NamedFunctionRef: named_function_ref,
    ast.InlineFunction: inline_function,
    ast.MapConstructor: map_constructor,
    ast.MapEntry: map_entry,
    ast.SquareArray: square_array,
    ast.CurlyArray: curly_array,
    ast.Ordering: ordering,
    ast.Extension: extension,
    ast.Template: template,
    ast.UnaryLookup: unary_lookup,
    ast.Lookup: lookup,
    ast.Predicate: predicate,
    ast.Arguments: arguments,
    ast.Postfix: postfix,
    ast.AxisStep: axis_step,
    ast.Path: path,
    ast.OperatorChain: operation,
    ast.Unary: unary,
    ast.TypeOperation: type_operation,
    ast.Arrow: arrow,
    ast.ArrowCall: arrow_call,
}
