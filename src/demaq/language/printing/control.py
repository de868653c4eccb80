"""Print FLWOR, quantifiers, conditionals, switches and try."""

from __future__ import annotations

from demaq.language import ast
from demaq.language.printing import words
from demaq.language.printing.precedence import begins_with_word, ends_in_bare_reset, ends_without_else
from demaq.language.printing.stream import DEDENT, END_GROUP, GROUP, HARD_BREAK, INDENT, SPACE_OR_BREAK
from demaq.language.printing.writer import Printer, Writers

# FLWOR


def flwor(p: Printer, node: ast.Flwor) -> None:
    p.put(GROUP)
    for clause in node.clauses:
        p.node(clause)
        p.put(SPACE_OR_BREAK)
    p.keyword("return", node.result)
    p.put(END_GROUP)


def for_binding(p: Printer, node: ast.ForBinding) -> None:
    p.variable(node)
    if node.allowing_empty:
        p.put(" allowing empty")
    if node.position is not None:
        p.put(f" at {words.variable(node.position)}")
    p.keyword(" in", node.expr, p.clause)


def let_binding(p: Printer, node: ast.LetBinding) -> None:
    p.variable(node)
    p.keyword(" :=", node.expr, p.clause)


def window_clause(p: Printer, node: ast.WindowClause) -> None:
    p.put(GROUP, f"for {node.kind} window {words.variable(node.name)}")
    p.as_type(node.type)
    p.keyword(" in", node.expr, p.clause)
    p.put(INDENT, SPACE_OR_BREAK)
    _window_condition(p, "start", node.start)
    if node.end is not None:
        p.put(SPACE_OR_BREAK)
        if node.only_end:
            p.put("only ")
        _window_condition(p, "end", node.end)
    p.put(DEDENT, END_GROUP)


def _window_condition(p: Printer, keyword: str, node: ast.WindowCondition) -> None:
    p.mark(node.at)
    p.put(keyword)
    variables = ((" ", node.current), (" at ", node.position), (" previous ", node.previous), (" next ", node.next))
    for word, name in variables:
        if name is not None:
            p.put(f"{word}{words.variable(name)}")
    p.keyword(" when", node.when, p.clause)
    p.end_mark(node.at)


def group_spec(p: Printer, node: ast.GroupSpec) -> None:
    p.variable(node)
    if node.expr is not None:
        p.keyword(" :=", node.expr, p.clause)
    p.collation(node.collation)


def order_spec(p: Printer, node: ast.OrderSpec) -> None:
    p.clause(node.expr)
    if node.direction is not None:
        p.put(f" {node.direction}")
    if node.empty is not None:
        p.put(f" empty {node.empty}")
    p.collation(node.collation)


def write_list(p: Printer, keyword: str, nodes: tuple[ast.Node, ...]) -> None:
    """Write a keyword and the nodes it introduces, separated by commas."""
    p.put(f"{keyword} ")
    if len(nodes) == 1:
        p.node(nodes[0])
        return
    p.put(GROUP, INDENT)
    for index, node in enumerate(nodes):
        if index:
            p.put(",", SPACE_OR_BREAK)
        p.node(node)
    p.put(DEDENT, END_GROUP)


# others


def quantified(p: Printer, node: ast.Quantified) -> None:
    p.put(GROUP)
    write_list(p, node.kind, node.bindings)
    p.put(SPACE_OR_BREAK, "satisfies")
    p.after_keyword(node.condition)
    p.put(END_GROUP)


def quantified_binding(p: Printer, node: ast.QuantifiedBinding) -> None:
    p.variable(node)
    p.keyword(" in", node.expr, p.clause)


def if_expr(p: Printer, node: ast.If) -> None:
    p.put(GROUP)
    _branches(p, node)
    p.put(END_GROUP)


def rule_body(p: Printer, node: ast.If) -> None:
    """Write an if with each branch on its own line, however short."""
    p.mark(node.at)
    p.put(GROUP)
    _branches(p, node, always_broken=True)
    p.put(END_GROUP)
    p.end_mark(node.at)


def _branches(p: Printer, node: ast.If, always_broken: bool = False) -> None:
    p.condition("if (", node.condition, ") then")
    if node.otherwise is not None and (ends_without_else(node.then) or _misread(node.then, node.otherwise)):
        p.put(" ")
        p.parentheses(node.then)
    elif always_broken and not isinstance(node.then, ast.Sequence):
        p.put(INDENT, HARD_BREAK)
        p.node(node.then)
        p.put(DEDENT)
    else:
        p.after_keyword(node.then)
    if node.otherwise is None:
        return
    p.put(HARD_BREAK if always_broken else SPACE_OR_BREAK, "else")
    if isinstance(node.otherwise, ast.If):
        p.put(" ")
        p.mark(node.otherwise.at)
        _branches(p, node.otherwise, always_broken)
        p.end_mark(node.otherwise.at)
    else:
        p.after_keyword(node.otherwise)


def _misread(then: ast.Expr, otherwise: ast.Expr) -> bool:
    """Return whether `do reset else key…` could be read as resetting a slicing named else."""
    return ends_in_bare_reset(then) and begins_with_word(otherwise, "key")


def _cases(p: Printer, keyword: str, node: ast.Switch | ast.Typeswitch, *default: str) -> None:
    p.put(GROUP)
    p.condition(f"{keyword} (", node.operand, ")")
    p.put(INDENT)
    for case in node.cases:
        p.put(SPACE_OR_BREAK)
        p.node(case)
    p.put(SPACE_OR_BREAK, *default)
    p.after_keyword(node.default)
    p.put(DEDENT, END_GROUP)


def switch_case(p: Printer, node: ast.SwitchCase) -> None:
    for value in node.values:
        p.put("case ")
        p.part(value)
        p.put(" ")
    p.put("return")
    _case_result(p, node.result)


def _case_result(p: Printer, result: ast.Expr) -> None:
    """Write the result of a case; after a bare `do reset`, the next `case key` could be read as a slicing and a key."""
    if ends_in_bare_reset(result):
        p.put(" ")
        p.parentheses(result)
    else:
        p.after_keyword(result)


def typeswitch(p: Printer, node: ast.Typeswitch) -> None:
    name = () if node.default_name is None else (f"{words.variable(node.default_name)} ",)
    _cases(p, "typeswitch", node, "default ", *name, "return")


def type_case(p: Printer, node: ast.TypeCase) -> None:
    p.put("case ")
    if node.name is not None:
        p.put(f"{words.variable(node.name)} as ")
    for index, type_ in enumerate(node.types):
        if index:
            p.put(" | ")
        p.bare(type_)
    p.put(" return")
    _case_result(p, node.result)


def try_catch(p: Printer, node: ast.TryCatch) -> None:
    p.put("try ")
    p.braces(node.body)
    for clause in node.catches:
        p.put(" ")
        p.node(clause)


def catch_clause(p: Printer, node: ast.CatchClause) -> None:
    p.put(f"catch {' | '.join([words.name(test) for test in node.tests])} ")
    p.braces(node.body)


CONTROL_WRITERS: Writers = {
    ast.Flwor: flwor,
    ast.ForClause: lambda p, node: write_list(p, "for", node.bindings),
    ast.ForBinding: for_binding,
    ast.LetClause: lambda p, node: write_list(p, "let", node.bindings),
    ast.LetBinding: let_binding,
    ast.WindowClause: window_clause,
    ast.WhereClause: lambda p, node: p.keyword("where", node.condition, p.clause),
    ast.GroupByClause: lambda p, node: write_list(p, "group by", node.specs),
    ast.GroupSpec: group_spec,
    ast.OrderByClause: lambda p, node: write_list(p, "stable order by" if node.stable else "order by", node.specs),
    ast.OrderSpec: order_spec,
    ast.CountClause: lambda p, node: p.put(f"count {words.variable(node.name)}"),
    ast.Quantified: quantified,
    ast.QuantifiedBinding: quantified_binding,
    ast.If: if_expr,
    ast.Switch: lambda p, node: _cases(p, "switch", node, "default return"),
    ast.SwitchCase: switch_case,
    ast.Typeswitch: typeswitch,
    ast.TypeCase: type_case,
    ast.TryCatch: try_catch,
    ast.CatchClause: catch_clause,
}
