"""Emit rules, properties and indexes as the text of Python functions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from demaq.compiler.context import CompilerContext
from demaq.compiler.emit.python.code import (
    ATOMIC_TYPES,
    EMPTY,
    NUMERIC_TYPES,
    STRINGS,
    NotTranslatable,
    PythonCode,
    Type,
    atomize,
    make_list,
    map_items,
    require_at_most_one,
    tag_atomic,
    to_condition,
    to_strings,
)
from demaq.compiler.emit.python.focus import MESSAGE, FocusAndVariables
from demaq.compiler.emit.python.translation import RUN, Translation
from demaq.compiler.emit.python.type_operations import CAST_TYPES, cast_value
from demaq.compiler.emit.xquery.lower import property_type
from demaq.compiler.plan import Index, IndexLookup, QueueByKey, RulePlan
from demaq.compiler.trees import has_no_else
from demaq.language import ast
from demaq.language.program.program import Program, Property, Rule
from demaq.language.resolving.names import Names

HEAD = f"def function({MESSAGE}, {RUN}):\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleText:
    """A rule as Python functions of the message's root element and of the running round."""

    first: str | None
    """Returns whether the rule continues, if that is decided before state is read."""
    keys: tuple[str, ...]
    """One function for each lookup, which returns the index entries to look up."""
    body: str
    """Performs the actions of the rule."""


def emit_rule(plan: RulePlan, program: Program, context: CompilerContext) -> RuleText:
    """Return a rule as Python. Raises NotTranslatable."""
    refuse_setters(context)
    rule = plan.rule
    actions = RuleActions(rule, program, context.names)
    translation = Translation(context.names, plan.sites, actions.own, actions.act, context.module.libraries)
    actions.translation = translation
    scope = FocusAndVariables(PythonCode(MESSAGE, Type.DOCUMENT, is_own=True))
    if not plan.needs_state:
        body = HEAD + _emit_body(rule.body, rule.name, translation, scope)
        return RuleText(first=None, keys=(), body=body)
    conditions = [to_condition(translation.code(condition, scope)) for condition in plan.first]
    first = f"{HEAD}    return {' and '.join(conditions) or 'True'}\n"
    keys = [_emit_keys(lookup, read, translation, scope) for read in plan.keyed for lookup in read.lookups]
    body = HEAD + _emit_body(rule.body, rule.name, translation, scope)
    return RuleText(first=first, keys=tuple(keys), body=body)


def emit_property(prop: Property, value: ast.Expr | None, context: CompilerContext) -> str | None:
    """Return a function that returns the values of a property as strings; None if it is not computed.

    Raises NotTranslatable.
    """
    if prop.type not in CAST_TYPES:
        raise NotTranslatable(f"a value of type xs:{prop.type}", "native.property")
    if value is None:
        return None
    refuse_setters(context)
    found = Translation(context.names, {}, libraries=context.module.libraries).code(
        value, FocusAndVariables(PythonCode(MESSAGE, Type.DOCUMENT, is_own=True))
    )
    return f"def function({MESSAGE}):\n    return {_cast_to(prop.type, found)}\n"


def _cast_to(type_name: str, code: PythonCode) -> str:
    """Return the values as properties of a type represent them: a list of their texts."""
    found = atomize(code)
    if type_name != "string" and found.type is not Type.EMPTY:
        kind = CAST_TYPES.get(type_name)
        if kind is None or found.type not in ATOMIC_TYPES:
            raise NotTranslatable(f"{found.type.value} as a property of type xs:{type_name}", "native.property")
        if found.type is not kind or kind.value != type_name:
            found = map_items(found, cast_value(PythonCode("{}", found.type), type_name).item, kind)
    return to_strings(found).text


def emit_index(index: Index, context: CompilerContext) -> str:
    """Return a function that returns the entries of a message in an index. Raises NotTranslatable."""
    refuse_setters(context)
    found = atomize(_translate_alone(index.expr, context))
    if found.type is not Type.UNTYPED:
        raise NotTranslatable("an index over such values", "native.index", index.expr)
    return f"def function({MESSAGE}):\n    return entries({found.text})\n"


def _translate_alone(expr: ast.Expr, context: CompilerContext) -> PythonCode:
    """Return an expression on a message that stands outside of rules."""
    translation = Translation(context.names, {}, libraries=context.module.libraries)
    return translation.code(expr, FocusAndVariables(PythonCode(MESSAGE, Type.DOCUMENT, is_own=True)))


def refuse_setters(context: CompilerContext) -> None:
    """Raises NotTranslatable if the prolog has settings, which change what expressions mean."""
    for item in context.module.tree.prolog:
        if isinstance(item, ast.Setter):
            raise NotTranslatable(f"the declaration of {item.kind} in its module", "native.setting", item)
        if isinstance(item, ast.DecimalFormatDecl):
            raise NotTranslatable("the declaration of a decimal format in its module", "native.setting", item)


def _emit_body(node: ast.If, name: str, translation: Translation, scope: FocusAndVariables) -> str:
    """Return the statements of a rule. A rule fires if the conditions of all `if`s without else hold."""
    condition = to_condition(translation.code(node.condition, scope))
    inner = node.then
    if isinstance(inner, ast.If) and has_no_else(node) and has_no_else(inner):
        return f"    if not ({condition}):\n        return\n{_emit_body(inner, name, translation, scope)}"
    otherwise = EMPTY if node.otherwise is None else translation.code(node.otherwise, scope)
    then = translation.code(inner, scope)
    for code in (then, otherwise):
        if code.type not in (Type.DONE, Type.EMPTY, Type.ERROR):
            raise NotTranslatable("a rule that has a value", "native.action", inner)
    return (
        f"    if {condition}:\n        {RUN}.fires({name!r})\n        {then.text}\n"
        f"    else:\n        {otherwise.text}\n"
    )


def _emit_keys(lookup: IndexLookup, read: QueueByKey, translation: Translation, scope: FocusAndVariables) -> str:
    found = atomize(translation.code(lookup.key, scope))
    if found.type in STRINGS:
        keys = map_items(found, "'s' + {}", Type.STRING)
    elif found.type in NUMERIC_TYPES and not read.is_counted:
        keys = map_items(found, "number_entry({})", Type.STRING)
    else:
        raise NotTranslatable("a key of such a type", "native.index", lookup.key)
    return f"{HEAD}    return list(dict.fromkeys({keys.text}))\n"


class RuleActions:
    """Emits the actions of a rule, and the properties of its own message that it reads."""

    def __init__(self, rule: Rule, program: Program, names: Names) -> None:
        self._rule = rule
        self._program = program
        self._names = names
        self.translation: Translation

    def own(self, node: ast.FunctionCall, scope: FocusAndVariables) -> PythonCode:
        """Return the code of a property of the message, or of another one: at most one value."""
        _, local, arity = self._names.functions[node]
        if local == "slicekey" and arity == 0 and self._rule.on_slicing:
            name = self._program.slicings[self._rule.target].property
        elif local == "property" and isinstance(node.args[0], ast.StringLiteral):
            name = self._names.parts.get(node.args[0], node.args[0].value)
        else:
            raise NotTranslatable(f"qs:{local} of a computed name", "native.property")
        type_ = property_type(self._program, name)
        if type_ not in CAST_TYPES:
            raise NotTranslatable(f"a property of type xs:{type_}", "native.property")
        texts = f"{RUN}.own({name!r})"
        if arity == 2:
            message = self.translation.code(node.args[1], scope)
            if message.type not in (Type.DOCUMENT, Type.ELEMENT):
                raise NotTranslatable(f"qs:property of {message.type.value} nodes", "native.property")
            texts = f"{RUN}.property_of({name!r}, {require_at_most_one(message).text})"
        return cast_value(replace(make_list(texts, Type.STRING), is_single=True), type_)

    def act(self, node: ast.Expr, scope: FocusAndVariables) -> PythonCode:
        if isinstance(node, ast.Enqueue):
            return self._enqueue(node, scope)
        assert isinstance(node, ast.Reset), "there are two kinds of actions"
        return self._reset(node, scope)

    def _enqueue(self, node: ast.Enqueue, scope: FocusAndVariables) -> PythonCode:
        queue = self._names.parts[node.queue]
        message = self.translation.code(node.message, scope)
        made = f"only({message.text})" if message.is_list else message.text
        if message.type is Type.ELEMENT:
            made = f"copied({made})" if message.is_own else f"copied_made({made})"
        elif message.type is Type.DOCUMENT:
            made = f"copied_document({made})"
        elif message.type is not Type.MADE:
            raise NotTranslatable(f"{message.type.value} as a new message")
        explicit = [f"({self._names.parts[item.name]!r}, {self._explicit(item, scope)})" for item in node.properties]
        given = f"({', '.join(explicit)},)" if explicit else "()"
        return PythonCode(f"{RUN}.enqueue({self._rule.name!r}, {queue!r}, {made}, {given})", Type.DONE)

    def _explicit(self, item: ast.With, scope: FocusAndVariables) -> str:
        name = self._names.parts[item.name]
        if name == "timeout" and name not in self._program.properties:
            value = atomize(self.translation.value(item.value, scope))
            return "[]" if value.type is Type.EMPTY else f"timeout_values({tag_atomic(value).text})"
        return _cast_to(property_type(self._program, name), self.translation.code(item.value, scope))

    def _reset(self, node: ast.Reset, scope: FocusAndVariables) -> PythonCode:
        slicing = self._rule.target if node.slicing is None else self._names.parts[node.slicing]
        prop = self._program.slicings[slicing].property
        if node.key is None:
            key = f"{RUN}.key({prop!r})"
        else:
            type_ = property_type(self._program, prop)
            keys = _cast_to(type_, self.translation.code(node.key, scope))
            key = f"property_key({type_!r}, only(list(dict.fromkeys({keys}))))"
        return PythonCode(f"{RUN}.reset({self._rule.name!r}, {slicing!r}, {key})", Type.DONE)
