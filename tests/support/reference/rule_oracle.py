"""What rules mean: each one as plain XQuery, on one message at a time, with all state at hand.

No plan, no filter, no index, no batch. The functions of `qs:` are declared as functions that look at external
variables; `do enqueue` and `do reset` become calls that write down what is to be done. Written to be read in one
sitting and to share nothing with the compiler but the language's own trees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import saxonche
from lxml import etree

from demaq.language import ast
from demaq.language.namespaces import FN, QS
from demaq.language.printing.printer import print_mapped
from demaq.language.program.program import Program, Rule
from demaq.language.resolving.names import Names
from demaq.messages import Message
from demaq.source import NOWHERE

_FIELD, _RECORD = "\ue000", "\ue001"
"""Between fields and records of a result: characters that no test uses."""

_PROLOG = (
    """
declare variable $Q{urn:o}codepoints := "http://www.w3.org/2005/xpath-functions/collation/codepoint";
declare variable $Q{urn:o}message as document-node() external;
declare variable $Q{urn:o}own as array(*) external;
declare variable $Q{urn:o}messages as array(*) external;
declare variable $Q{urn:o}collections as map(*) external;

declare function qs:message() { $Q{urn:o}message };
declare function qs:queue($name as xs:string) { $Q{urn:o}messages?*[?queue = $name]?node };
declare function qs:queue() { qs:queue($Q{urn:o}own?1?queue) };
declare function qs:property($name as xs:string) { Q{urn:o}value($Q{urn:o}own?1, $name) };
declare function qs:property($name as xs:string, $node as item()?) {
  for $n in $node
  let $found := $Q{urn:o}messages?*[?node is Q{F}root($n treat as node())]
  return if (Q{F}exists($found)) then Q{urn:o}value($found, $name) else Q{F}error(Q{F}QName("urn:o", "propertyError"))
};
declare function Q{urn:o}collection($name as xs:string) { $Q{urn:o}collections($name)?* };
declare function Q{urn:o}slice($property as xs:string) {
  let $key := qs:property($property)
  for $m in $Q{urn:o}messages?* where Q{urn:o}value($m, $property) = $key return $m?node
};
declare function Q{urn:o}value($message as map(*), $name as xs:string) {
  $message?properties($name) ! Q{urn:o}cast(?type, ?text)
};
declare function Q{urn:o}cast($type as xs:string, $value as xs:anyAtomicType) {
  switch ($type)
    case "integer" return xs:integer($value)
    case "decimal" return xs:decimal($value)
    case "double" return xs:double($value)
    case "boolean" return xs:boolean($value)
    case "date" return xs:date($value)
    case "dateTime" return xs:dateTime($value)
    default return xs:string($value)
};
declare function Q{urn:o}single($type as xs:string, $values as item()*) as xs:anyAtomicType? {
  let $distinct := Q{F}distinct-values(Q{F}data($values) ! Q{urn:o}cast($type, .), $Q{urn:o}codepoints)
  return if (Q{F}count($distinct) > 1) then Q{F}error(Q{F}QName("urn:o", "propertyError")) else $distinct
};
declare function Q{urn:o}key($value as xs:anyAtomicType) as xs:string {
  typeswitch ($value)
    case $t as xs:dateTime return Q{F}string(Q{F}adjust-dateTime-to-timezone($t, xs:dayTimeDuration("PT0S")))
    case $t as xs:date
      return Q{F}string(Q{F}adjust-dateTime-to-timezone(xs:dateTime($t), xs:dayTimeDuration("PT0S")))
    default return Q{F}string($value)
};
declare function Q{urn:o}as-property($name as xs:string, $made as function(*)) as xs:anyAtomicType? {
  try { [$made()]?* } catch * { Q{F}error(Q{F}QName("urn:o", "propertyError"), $name || $err:description) }
};
declare function Q{urn:o}enqueue(
  $queue as xs:string, $body as item()*, $explicit as map(*), $specs as array(*)
) as xs:string {
  let $one := if (Q{F}count($body) = 1) then $body else ()
  let $fits := $one instance of element()
               or ($one instance of document-node() and Q{F}count($one/*) = 1 and Q{F}empty($one/text()))
  return if (Q{F}not($fits)) then Q{F}error(Q{F}QName("urn:o", "enqueueError")) else
  let $document := if ($one instance of document-node()) then $one else document { $one }
  return Q{F}string-join((
    "E", $queue, Q{F}serialize($one),
    for $spec in $specs?*
    let $given := Q{urn:o}as-property($spec?name, function() { Q{urn:o}single($spec?type, $explicit($spec?name)) })
    let $inherited := $Q{urn:o}own?1[$spec?inherited] ! Q{urn:o}value(., $spec?name)
    let $value :=
      if (Q{F}exists($given) and Q{F}not($spec?fixed)) then $given
      else if (Q{F}exists($inherited)) then Q{urn:o}cast($spec?type, $inherited)
      else Q{urn:o}as-property(
        $spec?name, function() { Q{urn:o}single($spec?type, $spec?value($document)) })
    where Q{F}exists($value)
    order by $spec?name
    return ($spec?name, $spec?type, Q{F}string($value), Q{urn:o}key($value))
  ), "FIELD")
};
declare function Q{urn:o}reset($slicing as xs:string, $type as xs:string, $key as item()*) as xs:string {
  let $one := Q{urn:o}as-property("key", function() { Q{urn:o}single($type, $key) })
  return if (Q{F}empty($one)) then Q{F}error(Q{F}QName("urn:o", "propertyError"))
         else Q{F}string-join(("R", $slicing, Q{urn:o}key($one)), "FIELD")
};
declare function Q{urn:o}run($rule as function(*)) as xs:string {
  Q{F}string-join(
    try { array { $rule() }?* }
    catch Q{urn:o}* { "X", Q{F}local-name-from-QName($err:code) }
    catch * { "X", "dynamicError", Q{F}local-name-from-QName($err:code) },
  "RECORD")
};
""".replace("Q{F}", f"Q{{{FN}}}")
    .replace("FIELD", _FIELD)
    .replace("RECORD", _RECORD)
)


@dataclass(frozen=True)
class Verdict:
    """What one rule does with one message."""

    fired: bool = False
    actions: tuple[tuple[Any, ...], ...] = ()
    error: tuple[str, ...] | None = None
    condition_failed: bool = False
    """Whether the error came up while the condition was decided."""


class RuleOracle:
    """The rules of a program of one module without libraries."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._processor = _processor()
        names = program.modules[0].names
        self._rules = program.rules
        translated = [_Translation(program, names, rule) for rule in self._rules]
        self._pairs = [f"[{part.condition()}, {part.whole()}]" for part in translated]
        prolog = sorted(program.modules[0].tree.prolog, key=lambda d: isinstance(d, (ast.FunctionDecl, ast.VarDecl)))
        declarations = [item.at.text.rstrip("; \n") + ";" for item in prolog]
        head = 'declare namespace qs = "' + QS + '"; declare namespace err = "http://www.w3.org/2005/xqt-errors";'
        split = len([item for item in prolog if not isinstance(item, (ast.FunctionDecl, ast.VarDecl))])
        self._prolog = "\n".join([*declarations[:split], head, _PROLOG, *declarations[split:]])

    def verdicts(
        self, message: Message, messages: Sequence[Message], collections: Mapping[str, Sequence[str]]
    ) -> dict[str, Verdict]:
        """What every rule that pertains to the message does with it; all messages are visible."""
        processor = self._processor
        known = {other.id: self._message(other) for other in sorted(messages, key=lambda other: other.seq)}
        documents = {
            name: processor.make_array([processor.parse_xml(xml_text=text) for text in texts])
            for name, texts in collections.items()
        }
        compiler = processor.new_xquery_processor()
        compiler.set_parameter("{urn:o}message", known[message.id].get("node"))
        compiler.set_parameter("{urn:o}own", processor.make_array([known[message.id]]))
        compiler.set_parameter("{urn:o}messages", processor.make_array(list(known.values())))
        compiler.set_parameter("{urn:o}collections", self._map(documents))
        # Only what is asked for: to compile a query takes longer than to run it.
        asked = [number for number, rule in enumerate(self._rules) if self._pertains(rule, message)]
        query = f"{self._prolog}\n[{', '.join([self._pairs[number] for number in asked])}]"
        functions = compiler.run_query_to_value(query_text=query).head
        return {
            self._rules[number].name: self._verdict(functions.get(position).head)
            for position, number in enumerate(asked)
        }

    def _pertains(self, rule: Rule, message: Message) -> bool:
        if not rule.on_slicing:
            return rule.target == message.queue
        prop = self.program.properties[self.program.slicings[rule.target].property]
        return message.queue in prop.values and prop.name in message.properties

    def _message(self, message: Message) -> Any:
        processor = self._processor
        properties = {
            name: processor.make_map2(
                {"type": processor.make_string_value(value.type), "text": processor.make_string_value(value.text)}
            )
            for name, value in message.properties.items()
        }
        return processor.make_map2(
            {
                "node": processor.parse_xml(xml_text=message.document.text),
                "queue": processor.make_string_value(message.queue),
                "properties": self._map(properties),
            }
        )

    def _map(self, entries: dict[str, Any]) -> Any:
        if entries:
            return self._processor.make_map2(entries)
        return self._processor.new_xquery_processor().run_query_to_value(query_text="map {}").head

    def _verdict(self, pair: Any) -> Verdict:
        try:
            condition, whole = [str(pair.get(n).head.call([]).head).split(_RECORD) for n in (0, 1)]
        except saxonche.PySaxonApiError:  # Saxon fell over, on a string in a union for example
            return Verdict(error=("dynamicError", "internal"), condition_failed=True)
        if whole[0] == "X":
            return Verdict(error=tuple(whole[1:]), condition_failed=condition[0] == "X")
        actions = [_action(record.split(_FIELD)) for record in whole if record not in ("F", "")]
        return Verdict(fired=whole[0] == "F", actions=tuple(actions))


def canonical(text: str) -> bytes:
    """Equal for documents that are equal."""
    return bytes(etree.tostring(etree.fromstring(text.encode("utf-8")).getroottree(), method="c14n"))


def _action(fields: list[str]) -> tuple[Any, ...]:
    if fields[0] == "R":
        return tuple(fields)
    properties = [tuple(fields[n : n + 4]) for n in range(3, len(fields), 4)]
    return ("E", fields[1], canonical(fields[2]), tuple(properties))


class _Translation:
    """One rule as a function without arguments."""

    def __init__(self, program: Program, names: Names, rule: Rule) -> None:
        self.program = program
        self.names = names
        self.rule = rule

    def whole(self) -> str:
        body = self._node(self.rule.body)
        assert isinstance(body, ast.If)
        return self._function(self._noting(body))

    def _noting(self, body: ast.If) -> ast.If:
        """Where the rule fires: all conditions of `if`s without else around its actions hold."""
        if isinstance(body.then, ast.If) and _is_nothing(body.otherwise) and _is_nothing(body.then.otherwise):
            return ast.If(NOWHERE, body.condition, self._noting(body.then), body.otherwise)
        fires = ast.Template(NOWHERE, ('("F", ', body.then, ")"))
        return ast.If(NOWHERE, body.condition, fires, body.otherwise)

    def condition(self) -> str:
        """The condition alone: to tell whether it fails."""
        nothing = ast.Sequence(NOWHERE, ())
        return self._function(ast.If(NOWHERE, self._expr(self.rule.body.condition), nothing, nothing))

    def _function(self, expr: ast.Expr) -> str:
        return f"function() {{ Q{{urn:o}}run(function() {{ $Q{{urn:o}}message ! {_text(expr)} }}) }}"

    def _expr(self, node: ast.Expr) -> ast.Expr:
        made = self._node(node)
        assert isinstance(made, ast.Expr)
        return made

    def _node(self, node: ast.Node) -> ast.Node:
        match node:
            case ast.Enqueue():
                return self._enqueue(node)
            case ast.Reset():
                slicing = self.rule.target if node.slicing is None else self.names.parts[node.slicing]
                prop = self.program.properties[self.program.slicings[slicing].property]
                own = ast.Template(NOWHERE, (f'qs:property("{prop.name}")',))
                key = own if node.key is None else self._expr(node.key)
                return ast.Template(NOWHERE, (f'Q{{urn:o}}reset("{slicing}", "{prop.type}", (', key, "))"))
            case ast.If() if node.otherwise is None:
                nothing = ast.Sequence(NOWHERE, ())
                return ast.If(NOWHERE, self._expr(node.condition), self._expr(node.then), nothing)
            case ast.FunctionCall():
                known = self.names.functions.get(node)
                if known in ((QS, "slice", 0), (QS, "slicekey", 0)):
                    prop_name = self.program.slicings[self.rule.target].property
                    function = "Q{urn:o}slice" if known == (QS, "slice", 0) else "qs:property"
                    return ast.Template(NOWHERE, (f'{function}("{prop_name}")',))
                if known == (FN, "collection", 1):
                    return ast.Template(NOWHERE, ("Q{urn:o}collection(", self._expr(node.args[0]), ")"))
        values: list[object] = []
        for name in ast.child_fields(type(node)):
            value = getattr(node, name)
            if isinstance(value, ast.Node):
                value = self._node(value)
            elif type(value) is tuple:
                value = tuple([self._node(item) if isinstance(item, ast.Node) else item for item in value])
            values.append(value)
        return type(node)(node.at, *values)

    def _enqueue(self, node: ast.Enqueue) -> ast.Node:
        queue = self.names.parts[node.queue]
        parts: list[str | ast.Expr] = [f'Q{{urn:o}}enqueue("{queue}", (', self._expr(node.message), "), map { "]
        for position, item in enumerate(node.properties):
            parts.extend([", " if position else "", f'"{self.names.parts[item.name]}": (', self._expr(item.value), ")"])
        specs = []
        for prop in self.program.properties_of(queue):
            value = prop.values[queue]
            text = "()" if value is None else _text(value)
            specs.append(
                f'map {{ "name": "{prop.name}", "type": "{prop.type}", "fixed": {prop.variant == "fixed"!s}, '
                f'"inherited": {prop.variant == "inherited"!s}, "value": function($d) {{ $d ! ({text}) }} }}'.replace(
                    "True", "true()"
                ).replace("False", "false()")
            )
        return ast.Template(NOWHERE, (*parts, f" }}, [{', '.join(specs)}])"))


def _is_nothing(expr: ast.Expr | None) -> bool:
    return expr is None or (isinstance(expr, ast.Sequence) and not expr.items)


def _text(expr: ast.Expr) -> str:
    return print_mapped(ast.Query(NOWHERE, None, None, (), ast.Template(NOWHERE, ("(", expr, ")")), ()))[0]


_kept: list[Any] = []


def _processor() -> Any:
    """One for all: they are dear."""
    if not _kept:
        _kept.append(saxonche.PySaxonProcessor(license=False))
    return _kept[0]
