"""Emit blocks: queries that each define many function items, with a source map from their lines to the program.

A query with fifty rules compiles faster per rule than one with a single rule, and far faster than one with ten
thousand. The value of a block is an array of functions, which the evaluator takes apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import resources
from typing import Any, NoReturn, TypeAlias, TypeVar

from demaq.compiler.containment import paths_from_message
from demaq.compiler.context import CompilerContext
from demaq.compiler.emit.xquery.emitted_names import EmittedNames
from demaq.compiler.emit.xquery.lower import Lowering, ambient_key, refuse_unknown_collation
from demaq.compiler.emit.xquery.qualify import Qualifier, find_settings
from demaq.compiler.emit.xquery.vocabulary import (
    KNOWN,
    MESSAGE,
    NODE,
    RECORD,
    RULE,
    RUNTIME,
    SEPARATOR,
    STATE,
    Sites,
    fn,
    literal,
    runtime,
    xs,
)
from demaq.compiler.plan import Index, Plan, RulePlan
from demaq.compiler.trees import has_no_else
from demaq.errors import ProgramError
from demaq.language import ast
from demaq.language.namespaces import FN, PREFIXES
from demaq.language.parser import parse_query
from demaq.language.printing.flat import SourceMap
from demaq.language.printing.printer import print_mapped
from demaq.language.program.bodies import NODE_UPDATES
from demaq.language.program.program import Property
from demaq.language.recursion import deep_recursion
from demaq.language.resolving.names import FunctionKey, Names
from demaq.language.resolving.resolve import resolve_query
from demaq.source import NOWHERE, SourceLocation

FUNCTIONS_PER_BLOCK = 50
NESTING_MAX_COMPILED = 500
"""Saxon's compiler is recursive, and overflowing its stack, at about a thousand levels, ends the process."""

Entry: TypeAlias = tuple[str, str]
"""The purpose of a function: `("rule", "7")`, `("first", "7")`, `("property", "orderID at 117")`, `("index", "3")`."""


T = TypeVar("T")
Function: TypeAlias = tuple[Entry, SourceLocation, ast.Template]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    module: int
    text: str
    map: SourceMap
    entries: tuple[Entry, ...]
    locations: tuple[SourceLocation, ...]
    """Where the source of each function begins, for errors without a location."""


def property_entry(prop: Property, value: ast.Expr) -> Entry:
    """Return the entry of the function that computes a property by this expression."""
    return "property", f"{prop.name} at {value.at.start}"


class BlockEmitter:
    """Emits what a plan needs evaluated as blocks."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._names = [EmittedNames(context.names) for context in plan.modules]
        self.sites = Sites()
        self.errors: list[ProgramError] = []
        self.document_only: set[Entry] = set()
        """Values of properties that depend on the document alone."""

    def blocks(self) -> list[Block]:
        """Return the blocks of all functions of the plan, module by module.

        What cannot be emitted is added to `errors`.
        """
        found: list[Block] = []
        with deep_recursion():
            for context in self.plan.modules:
                functions: list[Function] = []
                for make in self._emitters(context):
                    functions.extend(self._collect_error(make) or [])
                prolog = self._collect_error(partial(self._prolog, context))
                if prolog is None:
                    continue
                for start in range(0, len(functions), FUNCTIONS_PER_BLOCK):
                    part = functions[start : start + FUNCTIONS_PER_BLOCK]
                    found.append(self._block(context.number, prolog, part))
        return found

    def _collect_error(self, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except ProgramError as error:
            self.errors.append(error)
            return None

    def single_blocks(self, block: Block) -> list[Block]:
        """Return the functions of a block, each in its own block, to find out which of them Saxon refuses."""
        context = self.plan.modules[block.module]
        wanted = set(block.entries)
        found: list[Block] = []
        with deep_recursion():
            prolog = self._prolog(context)
            for make in self._emitters(context):
                for function in self._collect_error(make) or []:
                    if function[0] in wanted:
                        found.append(self._block(context.number, prolog, [function]))
        return found

    def prolog_block(self, module: int) -> Block:
        """Return a block without functions: an error in it is an error of the prolog."""
        with deep_recursion():
            return self._block(module, self._prolog(self.plan.modules[module]), [])

    def block_of(self, module: int, functions: list[Function], runtime_file: str) -> Block:
        """Return a block of other functions than those of the plan, which use the functions of a runtime file."""
        with deep_recursion():
            prolog = self._prolog(self.plan.modules[module])
            return self._block(module, (*prolog, *load_runtime_functions(runtime_file)), functions)

    def keys_function(self, plan: RulePlan) -> Function:
        """Return the function that computes the keys of the state that a rule reads, whatever its conditions are."""
        context = self.plan.modules[plan.rule.module]
        lowering = self.lowering(context, rule=plan.rule, reads=plan.sites)
        return (
            ("first", str(plan.rule.number)),
            plan.rule.decl.at,
            self._first(replace(plan, first=()), lowering, False),
        )

    def variables_block(self, module: int) -> Block:
        """Return the global variables of a module, each as a function that returns the variable's error, if any.

        Saxon cannot catch an error of a global variable, and reports no location for it.
        """
        with deep_recursion():
            prolog = self._prolog(self.plan.modules[module])
            variables = [item for item in prolog if isinstance(item, ast.VarDecl)]
            functions = [
                (("variable", str(number)), item.at, _emit_variable_check(item, item.value))
                for number, item in enumerate(variables)
                if item.value is not None
            ]
            return self._block(module, prolog, functions)

    def _block(self, module: int, prolog: tuple[ast.Decl, ...], functions: list[Function]) -> Block:
        parts: list[str | ast.Expr] = ["["]
        for position, (_, _, function) in enumerate(functions):
            parts.extend([", " if position else "", function])
        body = ast.Template(NOWHERE, (*parts, "]"))
        text, source_map = print_mapped(ast.Query(NOWHERE, None, None, prolog, body, ()))
        return Block(
            module=module,
            text=text,
            map=source_map,
            entries=tuple([entry for entry, _, _ in functions]),
            locations=tuple([place for _, place, _ in functions]),
        )

    def lowering(self, context: CompilerContext, **options: Any) -> Lowering:
        """Return what lowers expressions of a module."""
        return Lowering(self.plan.program, context, self._names[context.number], self.sites, **options)

    # functions

    def _emitters(self, context: CompilerContext) -> list[Callable[[], list[Function]]]:
        found: list[Callable[[], list[Function]]] = []
        for plan in self.plan.rules.values():
            if plan.rule.module == context.number and plan.never is None:
                found.append(partial(self._rule, plan, context))
        for prop in self.plan.program.properties.values():
            if prop.module == context.number:
                found.append(partial(self._property, prop, context))
        for index in self.plan.indexes:
            if index.module == context.number:
                found.append(partial(self._index, index, context))
        return found

    def _rule(self, plan: RulePlan, context: CompilerContext) -> list[Function]:
        rule = plan.rule
        refuse_deep_nesting(rule.body)
        from_message = paths_from_message(rule.body, context)
        inside = from_message is not None
        # A rule that reads other messages may read its own: then it must be the same document everywhere.
        whole = None if plan.reads_other_messages else from_message
        lowering = self.lowering(context, rule=rule, reads=plan.sites, from_message=whole)
        number = str(rule.number)
        found: list[Function] = []
        if plan.needs_state:
            first = self.lowering(context, rule=rule, reads=plan.sites, from_message=from_message)
            found.append((("first", number), rule.decl.at, self._first(plan, first, inside)))
        head = self._rule_head(plan, f"{STATE}?message" if plan.reads_other_messages else _message(inside))
        body = lowering.lower_expr(rule.body)
        assert isinstance(body, ast.If)
        fires = _mark_firing(body, number)
        function = ast.Template(
            NOWHERE,
            (f"{head}try {{ (array {{ {MESSAGE} ! ", fires, f" }}?*) }} catch * {{ {_emit_failure(number)} }} }}"),
        )
        found.append((("rule", number), rule.decl.at, function))
        return found

    def _rule_head(self, plan: RulePlan, message: str) -> str:
        """Return the head of a rule's function, up to its expression.

        A rule on a slicing is evaluated only for messages in a slice of it.
        """
        guard = ""
        if plan.rule.on_slicing:
            number = list(self.plan.program.slicings).index(plan.rule.target)
            guard = f'if ({fn("not")}({fn("contains")}({RECORD}/@s, "|{number}|"))) then () else '
        head = f"function({RECORD}, {NODE}, {STATE})"
        return f"{head} {{ let {MESSAGE} := {message} return {guard}"

    def _first(self, plan: RulePlan, lowering: Lowering, inside: bool) -> ast.Template:
        """Return the function that decides the first conditions and computes the keys of the state to read."""
        number = literal(str(plan.rule.number))
        parts: list[str | ast.Expr] = [self._rule_head(plan, _message(inside))]
        if plan.first:
            parts.append(f"if (try {{ {MESSAGE} ! (")
            for position, condition in enumerate(plan.first):
                parts.extend([" and " if position else "", f"{fn('boolean')}(", lowering.lower_expr(condition), ")"])
            parts.append(f") }} catch * {{ {fn('true')}() }}) then ")
        parts.append(f'("N", {number}')
        for read in plan.keyed:
            for lookup in read.lookups:
                parts.append(f", try {{ (array {{ {runtime('lookup')}({runtime('keys')}({MESSAGE} ! ")
                parts.extend([lowering.lower_expr(lookup.key), ')) }?*) } catch * { "1", "*" }'])
        parts.append(") else () }" if plan.first else ") }")
        return ast.Template(NOWHERE, tuple(parts))

    def _property(self, prop: Property, context: CompilerContext) -> list[Function]:
        """Return one function for each distinct expression, however many queues share it."""
        found: list[Function] = []
        for value in dict.fromkeys([value for value in prop.values.values() if value is not None]):
            refuse_deep_nesting(value)
            lowering = self.lowering(context, in_property=True)
            known = _bind_context(value, context)
            head = f"function({MESSAGE}, {KNOWN}) {{ {known}{MESSAGE} ! {fn('data')}("
            function = ast.Template(NOWHERE, (head, lowering.lower_expr(value), f") ! {_emit_cast(prop.type)} }}"))
            if not known and not lowering.asks_known:
                self.document_only.add(property_entry(prop, value))
            found.append((property_entry(prop, value), value.at, function))
        return found

    def _index(self, index: Index, context: CompilerContext) -> list[Function]:
        lowering = self.lowering(context, in_property=True)
        head = f"function({MESSAGE}) {{ {MESSAGE} ! "
        function = ast.Template(NOWHERE, (head, lowering.lower_expr(index.expr), " }"))
        return [(("index", str(index.number)), index.expr.at, function)]

    # prologs

    def _prolog(self, context: CompilerContext) -> tuple[ast.Decl, ...]:
        """Return the author's prolog with the declarations of libraries and of the runtime, for one query."""
        tree = context.module.tree
        head: list[ast.Decl] = []
        prefixes: set[str] = set()
        for item in tree.prolog:
            match item:
                case ast.NamespaceDecl():
                    prefixes.add(item.prefix)
                    head.append(ast.NamespaceDecl(item.at, item.prefix, item.uri))
                case ast.ModuleImport() if item.prefix is not None:
                    prefixes.add(item.prefix)
                    head.append(ast.NamespaceDecl(item.at, item.prefix, item.uri))
                case ast.DefaultNamespaceDecl():
                    head.append(ast.DefaultNamespaceDecl(item.at, item.kind, item.uri))
                case ast.Setter() if item.kind != "revalidation":
                    if item.kind == "default collation":
                        refuse_unknown_collation(item.value, item.at)
                    head.append(ast.Setter(item.at, item.kind, item.value))
                case ast.DecimalFormatDecl():
                    head.append(ast.DecimalFormatDecl(item.at, item.name, item.properties))
        for prefix, uri in PREFIXES.items():
            if prefix not in prefixes and prefix not in ("xml", "xs", "xsi", "fn", "local"):
                head.append(ast.NamespaceDecl(NOWHERE, prefix, uri))
        for names in context.module.library_names:  # a library's texts may name its prefixes: element { "p:a" } {}
            for prefix, uri in names.prefixes.items():
                if prefix and prefix not in prefixes and prefix not in PREFIXES:
                    prefixes.add(prefix)
                    head.append(ast.NamespaceDecl(NOWHERE, prefix, uri))
        prologs = [library.prolog for library in context.module.libraries]
        for prolog in prologs:
            _refuse_settings(prolog, tree.prolog)
        others = zip(prologs, context.module.library_names, strict=True)
        head.extend(_decimal_formats([(tree.prolog, context.module.names), *others]))
        body: list[ast.Decl] = [*load_runtime_functions("collation.xq")]
        if _has_updates(tree) or any([_has_updates(library) for library in context.module.libraries]):
            body += load_runtime_functions("updates.xq")
        lowering = self.lowering(context)
        for library, names in zip(context.module.libraries, context.module.library_names, strict=True):
            qualifier = Qualifier(self._names[context.number], names.prefixes, library.prolog, tree.prolog)
            body.extend(self._declarations(library.prolog, context, names, lowering, qualifier))
        body.extend(self._declarations(tree.prolog, context, context.module.names, lowering, None))
        variables = [item for item in body if isinstance(item, ast.VarDecl)]
        functions = [item for item in body if isinstance(item, ast.FunctionDecl)]
        return (*head, *_declare_prefixes(functions), *variables, *_name_by_prefix(functions))

    def _declarations(
        self,
        prolog: tuple[ast.Decl, ...],
        context: CompilerContext,
        names: Names,
        lowering: Lowering,
        qualifier: Qualifier | None,
    ) -> list[ast.Decl]:
        found: list[ast.Decl] = []
        function_names = {id(declared): key for key, declared in names.declared.items()}
        variable_names = {id(declared): key for key, declared in names.globals.items()}
        for item in prolog:
            if isinstance(item, ast.FunctionDecl):
                known = function_names.get(id(item))
                made = item if qualifier is None or known is None else qualifier.qualify_function(item, *known[:2])
                found.append(self._function(made, known, context, lowering))
            elif isinstance(item, ast.VarDecl):
                name = variable_names.get(id(item))
                made_variable = item if qualifier is None or name is None else qualifier.qualify_variable(item, *name)
                lowered = lowering.rebuild(made_variable)
                assert isinstance(lowered, ast.VarDecl)
                found.append(ast.VarDecl(lowered.at, (), lowered.name, lowered.type, False, lowered.value))
        return found

    def _function(
        self, item: ast.FunctionDecl, known: FunctionKey | None, context: CompilerContext, lowering: Lowering
    ) -> ast.Decl:
        if item.body is not None:
            refuse_deep_nesting(item.body)
        body = None if item.body is None else lowering.lower_expr(item.body)
        if known is None or not context.is_ambient(known):
            return ast.FunctionDecl(item.at, (), False, item.name, item.params, item.returns, item.external, body)
        uri, local = ambient_key(known)
        hidden = [ast.Param(NOWHERE, ast.Name(NOWHERE, word, None, RUNTIME), None) for word in _HIDDEN]
        name = ast.Name(item.name.at, local, None, uri)
        return ast.FunctionDecl(item.at, (), False, name, (*hidden, *item.params), item.returns, False, body)


_DEFAULTS = {"copy-namespaces": "preserve, inherit", "default collation": f"{FN}/collation/codepoint", "base-uri": ""}
"""Settings of a library that its expressions cannot be given, with the value of a prolog without them."""


def _refuse_settings(library: tuple[ast.Decl, ...], importer: tuple[ast.Decl, ...]) -> None:
    """Raises ProgramError for a setting of a library that its importer has not: both become one query."""
    others = find_settings(importer)
    for item in library:
        if isinstance(item, ast.Setter) and item.kind in _DEFAULTS:
            if item.value != others.get(item.kind, _DEFAULTS[item.kind]):
                _refuse_setting(item.kind, item.at)
        elif isinstance(item, ast.DecimalFormatDecl) and item.name is None:
            formats = [other for other in importer if isinstance(other, ast.DecimalFormatDecl) and other.name is None]
            if [set(other.properties) for other in formats] != [set(item.properties)]:
                _refuse_setting("default decimal-format", item.at)


def _refuse_setting(kind: str, at: SourceLocation) -> NoReturn:
    raise ProgramError(
        f"a library cannot declare another {kind} than the module that imports it",
        at,
        "declare the same in both, or leave it out here; a decimal format may have a name",
        "DQ0704",
    )


def _decimal_formats(modules: Sequence[tuple[tuple[ast.Decl, ...], Names]]) -> list[ast.Decl]:
    """Return the named decimal formats of libraries, with their full names, that the importer has not declared.

    The importer is the first of the modules.
    """
    seen: dict[tuple[str, str], frozenset[tuple[str, str]]] = {}
    found: list[ast.Decl] = []
    for position, (prolog, names) in enumerate(modules):
        for item in prolog:
            if not isinstance(item, ast.DecimalFormatDecl) or item.name is None:
                continue
            name, properties = item.name, frozenset(item.properties)
            uri = names.prefixes.get(name.prefix, "") if name.prefix else name.uri or ""
            if (uri, name.local) in seen:
                if seen[uri, name.local] != properties:
                    _refuse_setting(f"decimal-format {name}", item.at)
                continue
            seen[uri, name.local] = properties
            if position:
                found.append(ast.DecimalFormatDecl(item.at, ast.Name(name.at, name.local, None, uri), item.properties))
    return found


def _declare_prefixes(functions: list[ast.FunctionDecl]) -> list[ast.NamespaceDecl]:
    """Return declarations of prefixes for functions that `_name_by_prefix` renames."""
    uris = dict.fromkeys([function.name.uri for function in functions if _is_taken_as_reserved(function.name)])
    return [ast.NamespaceDecl(NOWHERE, _prefix_of(uri), uri) for uri in uris if uri]


def _name_by_prefix(functions: list[ast.FunctionDecl]) -> list[ast.FunctionDecl]:
    """Return the functions; those that Saxon refuses to declare by their full names have a prefix instead."""
    return [
        replace(function, name=ast.Name(function.name.at, function.name.local, _prefix_of(function.name.uri)))
        if function.name.uri and _is_taken_as_reserved(function.name)
        else function
        for function in functions
    ]


def _is_taken_as_reserved(name: ast.Name) -> bool:
    """Return whether Saxon takes the namespace of a declared function for a reserved one: it has no colon."""
    return name.uri is not None and name.uri != "" and ":" not in name.uri


def _prefix_of(uri: str) -> str:
    return f"demaq-{uri.encode().hex()}"


def _has_updates(tree: ast.Node) -> bool:
    return any([isinstance(node, (ast.Copy, ast.TransformWith, *NODE_UPDATES)) for node in ast.walk(tree)])


_HIDDEN = ("record", "message", "state", "rule")


def _mark_firing(body: ast.If, number: str) -> ast.If:
    """Return the rule's body with a record that it fires, if the conditions of all `if`s without else hold."""
    inner = body.then
    if isinstance(inner, ast.If) and has_no_else(body) and has_no_else(inner):
        return ast.If(body.at, body.condition, _mark_firing(inner, number), body.otherwise)
    noted = ast.Template(NOWHERE, (f"({literal(SEPARATOR.join(['F', number]))}, ", inner, ")"))
    return ast.If(body.at, body.condition, noted, body.otherwise)


def _message(inside: bool) -> str:
    """Return the message: the node as parsed, which may be inside its batch, or a document of its own."""
    return NODE if inside else f"{runtime('document')}({NODE})"


def _bind_context(value: ast.Expr, context: CompilerContext) -> str:
    """Return bindings for functions that depend on the message, if a property's value calls one."""
    if not any([context.is_ambient(known) for node in ast.walk(value) if (known := context.names.functions.get(node))]):
        return ""
    record = f'let {RECORD} := {KNOWN}("demaq:record") '
    return f'{record}let {STATE} := map {{ "d": {KNOWN}("demaq:functions") }} let {RULE} := "" return '


def _emit_failure(number: str) -> str:
    err = "$Q{http://www.w3.org/2005/xqt-errors}"
    parts = ("code", "description", "value", "module", "line-number", "column-number")
    return f"{runtime('failure')}({literal(number)}, {', '.join([err + part for part in parts])})"


def _emit_variable_check(variable: ast.VarDecl, value: ast.Expr) -> ast.Template:
    """Return a function that returns the error of a variable, if it fails."""
    binding = ast.LetClause(NOWHERE, (ast.LetBinding(NOWHERE, variable.name, variable.type, value),))
    bound = ast.Flwor(NOWHERE, (binding,), ast.VarRef(NOWHERE, variable.name))
    head = f"function({STATE} as map(*)) as {xs('string')} {{ {fn('string-join')}("
    tail = f' }}?*) ! "" }} catch * {{ {_emit_failure("")} }}, "{SEPARATOR}") }}'
    return ast.Template(NOWHERE, (f"{head}try {{ (array {{ ", bound, tail))


def make_runtime_query(body: str) -> str:
    """Return a query that can use the functions of the runtime, which names them in full."""
    return f"{_runtime_prolog()}\n{body}"


@cache
def _runtime_prolog() -> str:
    """Return the runtime as the prolog of a main module. Saxon reads it as it is: parsing it here would take longer."""
    return _read_runtime("runtime.xq").replace("module namespace", "declare namespace", 1)


@cache
def load_runtime_functions(file: str) -> tuple[ast.FunctionDecl, ...]:
    """Return the functions of a runtime file, qualified like those of a library, with bodies that are text already."""
    library = parse_query(_read_runtime(file), NOWHERE.file)
    names = resolve_query(library)
    qualifier = Qualifier(EmittedNames(names), names.prefixes)
    return tuple(
        [
            _print_body(qualifier.qualify_function(item, RUNTIME, item.name.local))
            for item in library.prolog
            if isinstance(item, ast.FunctionDecl)
        ]
    )


def _print_body(function: ast.FunctionDecl) -> ast.FunctionDecl:
    """Return a function of the runtime with its body as text: it stands in many blocks, and is printed once."""
    text, _ = print_mapped(ast.Query(NOWHERE, None, None, (), function.body, ()))
    return replace(function, at=NOWHERE, body=ast.Template(NOWHERE, (text,)))


def _read_runtime(file: str) -> str:
    return resources.files("demaq.compiler.emit.xquery").joinpath(file).read_text(encoding="utf-8")


def refuse_deep_nesting(expr: ast.Expr) -> None:
    """Raises ProgramError for expressions so deep that Saxon's compiler would overflow its stack."""
    level: list[ast.Node] = [expr]
    depth = 0
    while level:
        depth += 1
        if depth > NESTING_MAX_COMPILED:
            raise ProgramError(
                f"nested more than {NESTING_MAX_COMPILED} levels deep, which is too deep to be compiled",
                level[0].at,
                "give parts of the expression names with `let`, or declare functions",
                "DQ0703",
            )
        below: list[ast.Node] = []
        for node in level:
            below.extend(ast.children(node))
        level = below


_TEXT_TYPES = ("string", "anyURI", "hexBinary", "base64Binary", "untypedAtomic", "normalizedString", "token")


def _emit_cast(type_name: str) -> str:
    """Return a cast of the context item to a type. The length is limited: casting a million digits takes a minute."""
    if type_name in _TEXT_TYPES:
        return f"{xs(type_name)}(.)"
    is_text = f"(. instance of {xs('string')} or . instance of {xs('untypedAtomic')})"
    name = f'{fn("QName")}("http://www.demaq.net/demaq", "demaq:propertyError")'
    reason = '"a text of which a value is made has more than 1,000 characters"'
    return (
        f"{xs(type_name)}(if ({is_text} and {fn('string-length')}({fn('string')}(.)) > 1000) "
        f"then {fn('error')}({name}, {reason}) else .)"
    )
