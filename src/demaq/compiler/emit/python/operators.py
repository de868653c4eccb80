"""Emit comparisons and arithmetic. Where types are known they become Python's own operators, or calls for one type."""

from __future__ import annotations

import re
from dataclasses import replace

from demaq.compiler.emit.python.code import (
    DURATIONS,
    MOMENTS,
    NUMBERS,
    NUMERIC_TYPES,
    STRINGS,
    NotTranslatable,
    PythonCode,
    Type,
    atomize,
    atomize_item,
    is_simple,
    lift,
    make_loop,
    map_values,
    new_name,
    tag_atomic,
    to_double_literal,
)

GENERAL = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
SINGLE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_LITERAL = re.compile(r"\(?-?[0-9.e+-]+\)?")
_NEGATIVE_ZERO = re.compile(r"\(-[0.]+\)")
_LITERAL_DIGITS_MAX = 15
_LITERALS = re.compile(r"\((?:(?: \+ )?\[(?:\(?-?[0-9.e+-]+\)?|Decimal\('[0-9.]+'\))\])+\)")
_EXACT_TYPES = frozenset({Type.INTEGER, Type.DECIMAL})
_TEXT_TYPES = STRINGS | {Type.ANY_URI}
CASTS_FROM_TEXT = {
    Type.BOOLEAN: "boolean({})",
    Type.ANY_URI: "any_uri({})",
    Type.DATE: "date({})",
    Type.DATE_TIME: "date_time({})",
    Type.TIME: "time({})",
    Type.DAY_TIMES: "day_times({})",
    Type.YEAR_MONTHS: "year_months({})",
}
"""How an untyped value is cast for a comparison with a value of this type, if that is no number."""

# --- comparisons


def compare(operator: str, left: PythonCode, right: PythonCode) -> PythonCode:
    one, other = atomize_item(left), atomize_item(right)
    if Type.EMPTY in (one.type, other.type):
        raise NotTranslatable("a comparison with nothing")
    if operator in SINGLE:
        return _compare_single(SINGLE[operator], one, other)
    sign = GENERAL[operator]
    if _may_fail_in_saxon(one, other) or _may_fail_in_saxon(other, one):
        raise NotTranslatable("a comparison of one untyped value with several numbers")
    if one.type in STRINGS and other.type in STRINGS and operator in ("=", "!="):
        return _compare_strings(operator, left, right)
    if Type.ATOMIC in (one.type, other.type):
        some, others = tag_atomic(one), tag_atomic(other)
        return PythonCode(f"any_pair({some.list_text}, {others.list_text}, {sign!r})", Type.BOOLEAN)
    one, other, template = _cast_untyped(one, other) or _make_comparable(one, other)
    compared = f"({template.replace('?', sign)})"
    if not one.is_list and not other.is_list:
        return PythonCode(compared.format(one.item, other.item), Type.BOOLEAN)
    items, clauses = _loop_over_pairs(one, other)
    item = compared.format(*items)
    any_of = (item, clauses) if one.is_optional and other.is_optional else ("", "")
    return PythonCode(f"any([{item} {clauses}])", Type.BOOLEAN, any_of=any_of)


def _may_fail_in_saxon(value: PythonCode, numbers: PythonCode) -> bool:
    """Return whether one of two operands is a value without a type, the other one numbers that are not all literals.

    With numbers of a range, Saxon may cast the value to an integer, and fail; with ones that it knows before a loop, it
    may not cast it at all.
    """
    if value.type is not Type.UNTYPED or not value.is_optional:
        return False
    return numbers.type in NUMERIC_TYPES and not numbers.is_optional and not _LITERALS.fullmatch(numbers.text)


def _loop_over_pairs(one: PythonCode, other: PythonCode) -> tuple[list[str], str]:
    """Return the items of all pairs, and the clauses of a comprehension over them. Both operands are evaluated."""
    first, last = (one, other) if one.is_list else (other, one)
    loop = first if first.clauses and not last.is_list else make_loop(first)
    if not last.is_list and is_simple(last.item):
        item, clauses = last.item, loop.clauses
    else:
        values, item = new_name(), new_name()
        inner = "" if not last.is_list else f" for {item} in {values}"
        bound = f"for {values if inner else item} in ({last.text},)"
        clauses = f"{bound} {loop.clauses}{inner}"
    return [loop.item, item] if first is one else [item, loop.item], clauses


def _compare_strings(operator: str, left: PythonCode, right: PythonCode) -> PythonCode:
    """Return a general comparison for equality or inequality of strings."""
    one, other = atomize(left), atomize(right)
    if operator == "!=":
        return PythonCode(f"any_unequal({one.text}, {other.text})", Type.BOOLEAN)
    for code, text in ((one, right), (other, left)):
        if code.bare is not None and not text.is_list and text.type in STRINGS:
            return PythonCode(f"({code.bare.value} == {text.item})", Type.BOOLEAN)
    if not right.is_list and right.type in STRINGS:
        return PythonCode(f"({right.item} in {one.text})", Type.BOOLEAN)
    if not left.is_list and left.type in STRINGS:
        return PythonCode(f"({left.item} in {other.text})", Type.BOOLEAN)
    return PythonCode(f"any_equal({one.text}, {other.text})", Type.BOOLEAN)


def _compare_single(sign: str, one: PythonCode, other: PythonCode) -> PythonCode:
    """Return a value comparison (`eq`, `lt`, …), in which untyped values are strings."""
    if Type.ATOMIC in (one.type, other.type):
        return lift([tag_atomic(one), tag_atomic(other)], f"compare_values({{}}, {{}}, {sign!r})", Type.BOOLEAN)
    one, other, template = _make_comparable(one, other)
    return lift([one, other], f"({template.replace('?', sign)})", Type.BOOLEAN)


_DIRECT = "{} ? {}"


def _cast_untyped(one: PythonCode, other: PythonCode) -> tuple[PythonCode, PythonCode, str] | None:
    """Return the operands of a general comparison if one of them is untyped and the other no string, and how.

    The untyped values are cast (XQuery 3.1, 3.7.2). In the template, `?` stands for the operator.
    """
    if Type.UNTYPED not in (one.type, other.type):
        return None
    kind = other.type if one.type is Type.UNTYPED else one.type
    if kind in NUMERIC_TYPES:
        # Saxon has an untyped -0 less than the double 0: neither operand may be -0, which `double` refuses.
        operands = [
            map_values(code, "double({})", Type.DOUBLE) if code.type is Type.UNTYPED else _check(_to_doubles(code))
            for code in (one, other)
        ]
        return operands[0], operands[1], _DIRECT
    if kind not in CASTS_FROM_TEXT:
        return None
    cast = "compared_uri({})" if kind is Type.ANY_URI else CASTS_FROM_TEXT[kind]
    operands = [map_values(code, cast, kind) if code.type is Type.UNTYPED else code for code in (one, other)]
    return _make_comparable(*operands)


def _make_comparable(one: PythonCode, other: PythonCode) -> tuple[PythonCode, PythonCode, str]:
    """Return operands that Python compares as Saxon does, and how: `?` stands for the operator."""
    kinds = {one.type, other.type}
    if kinds <= _TEXT_TYPES or kinds == {Type.BOOLEAN} or kinds <= _EXACT_TYPES or kinds == {Type.DOUBLE}:
        return one, other, _DIRECT
    if kinds <= NUMBERS:
        return _check(one), _check(other), _DIRECT
    if kinds == {Type.DECIMAL, Type.DOUBLE}:
        return _to_doubles(one), _to_doubles(other), _DIRECT
    if kinds <= NUMERIC_TYPES:
        return one, other, "compare_values({}, {}, '?')"
    if len(kinds) == 1 and kinds <= MOMENTS:
        return one, other, "order_moments({}, {}) ? 0"
    if len(kinds) == 1 and kinds <= DURATIONS:
        return one, other, "order_durations({}, {}) ? 0"
    raise NotTranslatable(f"a comparison of {one.type.value} and {other.type.value}")


def _to_doubles(code: PythonCode) -> PythonCode:
    """Return numbers as doubles, or as integers that are compared with doubles."""
    if code.type is Type.DECIMAL and not code.is_list:
        literal = to_double_literal(code)
        if literal is not None:
            return literal
    return map_values(code, "to_double({})", Type.DOUBLE) if code.type in (Type.DECIMAL, Type.FLOAT) else code


def _check(code: PythonCode) -> PythonCode:
    """Return numbers that may be compared with those of another type (see `comparable`)."""
    if _is_literal(code):
        return code
    return map_values(code, "comparable({})", code.type)


def _is_literal(code: PythonCode) -> bool:
    if code.is_list or len(code.item) > _LITERAL_DIGITS_MAX or not _LITERAL.fullmatch(code.item):
        return False
    return not _NEGATIVE_ZERO.fullmatch(code.item)


# --- arithmetic

_PLAIN = frozenset({"+", "-", "*"})
_ON_EXACT = {"div": "decimal_divide", "idiv": "integer_idivide"}
_ON_DECIMALS = {"+": "decimal_add", "-": "decimal_subtract", "*": "decimal_multiply", "mod": "decimal_modulo"}
_ON_DOUBLES = {"div": "double_divide", "idiv": "double_idivide", "mod": "double_modulo"}
_ON_ANY = {"+": "add", "-": "subtract", "*": "multiply", "div": "divide", "idiv": "idivide", "mod": "modulo"}
_COMPUTED = NUMERIC_TYPES | MOMENTS | DURATIONS | {Type.ATOMIC}


def compute(sign: str, left: PythonCode, right: PythonCode) -> PythonCode:
    if sign not in _ON_ANY:
        raise NotTranslatable(f"the operator {sign}")
    one, other = [_to_operand(code) for code in (left, right)]
    kinds = {one.type, other.type}
    if kinds & (MOMENTS | DURATIONS) and Type.ATOMIC not in kinds:
        return _compute_with_dates(sign, one, other)
    if kinds <= _EXACT_TYPES:
        return _compute_exactly(sign, one, other)
    if Type.DECIMAL in kinds and kinds <= {Type.DECIMAL, Type.DOUBLE, Type.NUMERIC}:
        one, other = _certain_doubles(one), _certain_doubles(other)
        kinds = {Type.DOUBLE}
    if kinds <= NUMBERS and sign in _PLAIN:
        kind = Type.DOUBLE if Type.DOUBLE in kinds else Type.NUMERIC
        return lift([one, other], f"({{}} {sign} {{}})", kind)
    if kinds <= NUMBERS and Type.DOUBLE in kinds:
        return lift([one, other], f"{_ON_DOUBLES[sign]}({{}}, {{}})", _result_of(sign, Type.DOUBLE))
    operands = [tag_atomic(one), tag_atomic(other)]
    return lift(operands, f"{_ON_ANY[sign]}({{}}, {{}})", _result_of(sign, Type.ATOMIC))


def negate(signs: str, operand: PythonCode) -> PythonCode:
    """Return the value of unary plus and minus signs."""
    found = _to_operand(operand)
    if found.type in MOMENTS | DURATIONS:
        raise NotTranslatable(f"a sign before {found.type.value}")
    if signs.count("-") % 2 == 0:
        return lift([found], "(+{})" if found.type in NUMBERS else "negate(negate({}))", found.type)
    return lift([found], "(-{})" if found.type in NUMBERS else "negate({})", found.type)


def _to_operand(code: PythonCode) -> PythonCode:
    """Return an operand of arithmetic: an untyped value is a double (XQuery 3.1, 3.5)."""
    found = atomize_item(code)
    if found.type is Type.UNTYPED:
        return map_values(found, "double({})", Type.DOUBLE)
    if found.type is Type.EMPTY:
        return replace(found, type=Type.DOUBLE)
    if found.type is Type.ATOMIC:
        return map_values(found, "expect_operand({})", Type.ATOMIC)
    if found.type not in _COMPUTED:
        raise NotTranslatable(f"computing with {found.type.value}")
    return found


def _compute_exactly(sign: str, one: PythonCode, other: PythonCode) -> PythonCode:
    if sign in _ON_EXACT:
        return lift([one, other], f"{_ON_EXACT[sign]}({{}}, {{}})", _result_of(sign, Type.DECIMAL))
    if one.type is other.type is Type.INTEGER:
        template = f"({{}} {sign} {{}})" if sign in _PLAIN else "integer_modulo({}, {})"
        return lift([one, other], template, Type.INTEGER)
    return lift([one, other], f"{_ON_DECIMALS[sign]}({{}}, {{}})", Type.DECIMAL)


def _result_of(sign: str, kind: Type) -> Type:
    return Type.INTEGER if sign == "idiv" else kind


def _certain_doubles(code: PythonCode) -> PythonCode:
    """Return an operand together with a decimal; a sum that is no double is left to Saxon."""
    return map_values(code, "certain_double({})", Type.DOUBLE) if code.type is Type.NUMERIC else _to_doubles(code)


def _compute_with_dates(sign: str, one: PythonCode, other: PythonCode) -> PythonCode:
    """Return arithmetic on dates, times and durations (XQuery and XPath Functions and Operators 3.1, 8.4 and 9.7)."""
    found = _find_date_operation(sign, one.type, other.type)
    if found is None:
        raise NotTranslatable(f"{one.type.value} {sign} {other.type.value}")
    template, kind = found
    return lift([one, other], template, kind)


def _find_date_operation(sign: str, one: Type, other: Type) -> tuple[str, Type] | None:
    is_month_of_time = {one, other} == {Type.TIME, Type.YEAR_MONTHS}
    if one in MOMENTS and other in DURATIONS and sign in ("+", "-") and not is_month_of_time:
        return f"{'add_to_moment' if sign == '+' else 'subtract_from_moment'}({{}}, {{}})", one
    if one in DURATIONS and other in MOMENTS and sign == "+" and not is_month_of_time:
        return "add_to_moment({1}, {0})", other
    if one in MOMENTS and one is other and sign == "-":
        return "subtract_moments({}, {})", Type.DAY_TIMES
    if one in DURATIONS and one is other and sign in ("+", "-"):
        return f"{'add' if sign == '+' else 'subtract'}_durations({{}}, {{}})", one
    if one in DURATIONS and one is other and sign == "div":
        return "divide_durations({}, {})", Type.DECIMAL
    if one in DURATIONS and other in NUMERIC_TYPES and sign in ("*", "div"):
        return f"{'multiply' if sign == '*' else 'divide'}_duration({{}}, {{}})", one
    if one in NUMERIC_TYPES and other in DURATIONS and sign == "*":
        return "multiply_duration({1}, {0})", other
    return None
