"""Emit rules, properties and indexes as the text of Python functions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from demaq.compiler.context import CompilerContext
from demaq.compiler.emit.python.code import (
    EMPTY,
    NUMBERS,
    STRINGS,
    NotTranslatable,
    PythonCode,
    Type,
    atomize,
    make_list,
    map_items,
    to_condition,
    to_strings,
)
from demaq.compiler.emit.python.focus import FocusAndVariables
from demaq.compiler.emit.python.translation import MESSAGE, RUN, Translation
from demaq.compiler.emit.xquery.lower import property_type
from demaq.compiler.plan import Index, IndexLookup, RulePlan
from demaq.compiler.trees import has_no_else
from demaq.language import ast
from demaq.language.program.program import Program, Property, Rule
from demaq.language.resolving.names import Names

_HEAD = f"def function({MESSAGE}, {RUN}):\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleText:
    """A rule as Python functions of the message's root element and of the running round."""

    first: str | None
    """Returns whether the rule continues, if that is decided before state is read."""
    keys: tuple[str, ...]
    """One function for each lookup, which returns the index entries to look up."""
    body: str
    """Performs the actions of the rule."""
    makes_namespaces: bool
    """Whether it constructs elements or attributes with namespaces."""


def emit_rule(plan: RulePlan, program: Program, context: CompilerContext) -> RuleText:
    """Return a rule as Python. Raises NotTranslatable."""
    _refuse_setters(context)
    rule = plan.rule
    actions = _Actions(rule, program, context.names)
    translation = Translation(context.names, plan.sites, actions.own, actions.act)
    actions.translation = translation
    scope = FocusAndVariables(PythonCode(MESSAGE, Type.DOCUMENT))
    if not plan.needs_state:
        body = _HEAD + _emit_body(rule.body, rule.name, translation, scope)
        return RuleText(first=None, keys=(), body=body, makes_namespaces=translation.makes_namespaces)
    conditions = [to_condition(translation.code(condition, scope)) for condition in plan.first]
    first = f"{_HEAD}    return {' and '.join(conditions) or 'True'}\n"
    keys = [_emit_keys(lookup, translation, scope) for read in plan.keyed for lookup in read.lookups]
    body = _HEAD + _emit_body(rule.body, rule.name, translation, scope)
    return RuleText(first=first, keys=tuple(keys), body=body, makes_namespaces=translation.makes_namespaces)


def emit_property(prop: Property, value: ast.Expr | None, context: CompilerContext) -> str | None:
    """Return a function that returns the values of a property as strings; None if it is not computed.

    Raises NotTranslatable.
    """
    if prop.type != "string" and prop.type not in _CASTS:
        raise NotTranslatable(f"a value of type xs:{prop.type}")
    if value is None:
        return None
    _refuse_setters(context)
    found = Translation(context.names, {}).code(value, FocusAndVariables(PythonCode(MESSAGE, Type.DOCUMENT)))
    return f"def function({MESSAGE}):\n    return {_cast_to(prop.type, found)}\n"


_CASTS = {"boolean": "boolean_text({})", "integer": "str(integer({}))", "decimal": "decimal_text({})"}
"""Types whose values are equal if their texts are equal, and how a string is brought into this text."""
_TYPES = {"boolean": Type.BOOLEAN, "integer": Type.INTEGER, "decimal": Type.INTEGER}
"""Values of these types need no cast."""


def _cast_to(type_name: str, code: PythonCode) -> str:
    """Return the values as properties of a type represent them: a list of their texts."""
    found = atomize(code)
    if type_name == "string" or found.type is Type.EMPTY or found.type is _TYPES.get(type_name):
        return to_strings(found).text
    if type_name in _CASTS and found.type in STRINGS:
        return map_items(found, _CASTS[type_name], Type.STRING).text
    raise NotTranslatable(f"{found.type.value} as a property of type xs:{type_name}")


def emit_index(index: Index, context: CompilerContext) -> str:
    """Return a function that returns the entries of a message in an index. Raises NotTranslatable."""
    _refuse_setters(context)
    found = atomize(
        Translation(context.names, {}).code(index.expr, FocusAndVariables(PythonCode(MESSAGE, Type.DOCUMENT)))
    )
    if found.type is not Type.UNTYPED:
        raise NotTranslatable("an index over such values")
    return f"def function({MESSAGE}):\n    return entries({found.text})\n"


def is_linear(expr: ast.Expr) -> bool:
    """Return whether the expression is linear in the size of the message: it has no loops and no predicates."""
    return not any([isinstance(node, (ast.Predicate, ast.Flwor, ast.Quantified)) for node in ast.walk(expr)])


def _refuse_setters(context: CompilerContext) -> None:
    """Raises NotTranslatable if the prolog has settings, which change what expressions mean."""
    for item in context.module.tree.prolog:
        if isinstance(item, ast.Setter):
            raise NotTranslatable(f"its module declares {item.kind}")


def _emit_body(node: ast.If, name: str, translation: Translation, scope: FocusAndVariables) -> str:
    """Return the statements of a rule. A rule fires if the conditions of all `if`s without else hold."""
    condition = to_condition(translation.code(node.condition, scope))
    inner = node.then
    if isinstance(inner, ast.If) and has_no_else(node) and has_no_else(inner):
        return f"    if not ({condition}):\n        return\n{_emit_body(inner, name, translation, scope)}"
    otherwise = EMPTY if node.otherwise is None else translation.code(node.otherwise, scope)
    then = translation.code(inner, scope)
    for code in (then, otherwise):
        if code.type not in (Type.DONE, Type.EMPTY):
            raise NotTranslatable("a rule that has a value")
    return (
        f"    if {condition}:\n        {RUN}.fires({name!r})\n        {then.text}\n"
        f"    else:\n        {otherwise.text}\n"
    )


def _emit_keys(lookup: IndexLookup, translation: Translation, scope: FocusAndVariables) -> str:
    found = atomize(translation.code(lookup.key, scope))
    if found.type in STRINGS:
        keys = map_items(found, "'s' + {}", Type.STRING)
    elif found.type in NUMBERS:
        keys = map_items(found, "'n' + double_text({} + 0.0)", Type.STRING)
    else:
        raise NotTranslatable("a key of such a type")
    return f"{_HEAD}    return list(dict.fromkeys({keys.text}))\n"


class _Actions:
    """Emits the actions of a rule, and the properties of its own message that it reads."""

    def __init__(self, rule: Rule, program: Program, names: Names) -> None:
        self._rule = rule
        self._program = program
        self._names = names
        self.translation: Translation

    def own(self, node: ast.FunctionCall) -> PythonCode:
        """Return the code of a property of the message: at most one value."""
        _, local, arity = self._names.functions[node]
        if local == "slicekey" and arity == 0 and self._rule.on_slicing:
            name = self._program.slicings[self._rule.target].property
        elif local == "property" and arity == 1 and isinstance(node.args[0], ast.StringLiteral):
            name = self._names.parts.get(node.args[0], node.args[0].value)
        else:
            raise NotTranslatable(f"qs:{local} of another message, or of a computed name")
        match property_type(self._program, name):
            case "string":
                found = make_list(f"{RUN}.own({name!r})", Type.STRING)
            case "boolean":
                found = map_items(make_list(f"{RUN}.own({name!r})", Type.STRING), "({} == 'true')", Type.BOOLEAN)
            case "integer":
                found = map_items(make_list(f"{RUN}.own({name!r})", Type.STRING), "integer({})", Type.INTEGER)
            case other:
                raise NotTranslatable(f"a property of type xs:{other}")
        return replace(found, is_single=True)

    def act(self, node: ast.Expr, scope: FocusAndVariables) -> PythonCode:
        if isinstance(node, ast.Enqueue):
            return self._enqueue(node, scope)
        assert isinstance(node, ast.Reset), "there are two kinds of actions"
        return self._reset(node, scope)

    def _enqueue(self, node: ast.Enqueue, scope: FocusAndVariables) -> PythonCode:
        queue = self._names.parts[node.queue]
        if self._program.queues[queue].kind == "echo":
            raise NotTranslatable("a timer")
        message = self.translation.code(node.message, scope)
        if message.type is Type.MADE:
            made = message.text if message.is_new else f"copied({message.text})"
        elif message.type in (Type.ELEMENT, Type.DOCUMENT):
            made = f"copied({message.text})"
        else:
            raise NotTranslatable(f"to enqueue {message.type.value}")
        if message.is_list:
            made = f"copied(only({message.text}))"
        explicit = [f"({self._names.parts[item.name]!r}, {self._explicit(item, scope)})" for item in node.properties]
        given = f"({', '.join(explicit)},)" if explicit else "()"
        return PythonCode(f"{RUN}.enqueue({self._rule.name!r}, {queue!r}, {made}, {given})", Type.DONE)

    def _explicit(self, item: ast.With, scope: FocusAndVariables) -> str:
        name = self._names.parts[item.name]
        return _cast_to(property_type(self._program, name), self.translation.code(item.value, scope))

    def _reset(self, node: ast.Reset, scope: FocusAndVariables) -> PythonCode:
        slicing = self._rule.target if node.slicing is None else self._names.parts[node.slicing]
        prop = self._program.slicings[slicing].property
        if node.key is None:
            key = f"{RUN}.key({prop!r})"
        else:
            keys = _cast_to(property_type(self._program, prop), self.translation.code(node.key, scope))
            key = f"only(list(dict.fromkeys({keys})))"
        return PythonCode(f"{RUN}.reset({self._rule.name!r}, {slicing!r}, {key})", Type.DONE)
