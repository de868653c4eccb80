"""What the compiler knows about a module beyond its tree: the meaning of every name, in its libraries too."""

from __future__ import annotations

from dataclasses import dataclass, field

from demaq.language import ast
from demaq.language.namespaces import FN, QS
from demaq.language.program.program import ModuleContext
from demaq.language.resolving.names import Names

FunctionKey = tuple[str, str, int]

READING = {(QS, "queue"), (QS, "slice"), (FN, "collection")}
"""Functions that read state."""

CLOCK = {(FN, "current-dateTime"), (FN, "current-date"), (FN, "current-time"), (FN, "implicit-timezone")}
AMBIENT = READING | CLOCK | {(QS, "message"), (QS, "property"), (QS, "slicekey")}
"""Functions that need to know which message is being processed."""


@dataclass(slots=True, eq=False)
class CompilerContext:
    """One module, its names merged with those of its libraries, and what its functions do when called."""

    number: int
    module: ModuleContext
    names: Names
    library_names: tuple[Names, ...]
    plain_strings: bool
    declared: dict[FunctionKey, ast.FunctionDecl]
    _uses: dict[FunctionKey, frozenset[tuple[str, str, str | None]]] = field(default_factory=dict)
    _actions: dict[FunctionKey, tuple[ast.Enqueue | ast.Reset, ...]] = field(default_factory=dict)

    def is_ambient(self, key: FunctionKey) -> bool:
        """Whether a declared function needs the message, directly or through others."""
        return bool(self.used_by(key) or self.actions_of(key))

    def actions_of(self, key: FunctionKey) -> tuple[ast.Enqueue | ast.Reset, ...]:
        """What calling a declared function may do, directly or through others."""
        if not self._uses:
            self._find_uses()
        return self._actions.get(key, ())

    def used_by(self, key: FunctionKey) -> frozenset[tuple[str, str, str | None]]:
        """The functions of AMBIENT that a declared function calls, each with its literal argument if it has one."""
        if not self._uses:
            self._find_uses()
        return self._uses.get(key, frozenset())

    def reads_state(self, node: ast.Node) -> bool:
        """Whether an expression reads queues, slices or collections, directly or through functions."""
        for below in ast.walk(node):
            known = self.names.functions.get(below)
            if known is None:
                continue
            if known[:2] in READING:
                return True
            if any([(uri, local) in READING for uri, local, _ in self.used_by(known)]):
                return True
        return False

    def _find_uses(self) -> None:
        """Direct uses of every function, then through calls until nothing is added."""
        direct: dict[FunctionKey, set[tuple[str, str, str | None]]] = {}
        callees: dict[FunctionKey, set[FunctionKey]] = {}
        actions: dict[FunctionKey, dict[ast.Enqueue | ast.Reset, None]] = {}
        for key, function in self.declared.items():
            direct[key], callees[key], actions[key] = set(), set(), {}
            if function.body is None:
                continue
            for node in ast.walk(function.body):
                if isinstance(node, (ast.Enqueue, ast.Reset)):
                    actions[key][node] = None
                known = self.names.functions.get(node)
                if known is None:
                    continue
                if known[:2] in AMBIENT:
                    direct[key].add((known[0], known[1], self.literal(node)))
                elif known in self.declared:
                    callees[key].add(known)
        callers: dict[FunctionKey, set[FunctionKey]] = {key: set() for key in direct}
        for key, called in callees.items():
            for callee in called:
                callers[callee].add(key)
        pending = [key for key, uses in direct.items() if uses or actions[key]]
        while pending:
            key = pending.pop()
            for caller in callers[key]:
                if not (direct[key] <= direct[caller] and actions[key].keys() <= actions[caller].keys()):
                    direct[caller] |= direct[key]
                    actions[caller].update(actions[key])
                    pending.append(caller)
        self._uses = {key: frozenset(uses) for key, uses in direct.items()}
        self._actions = {key: tuple(found) for key, found in actions.items()}
        self._uses.setdefault(("", "", -1), frozenset())  # found, even where there are no functions

    def literal(self, node: ast.Node) -> str | None:
        """The name of the part that a call gives as a literal; None for a computed one, "" for none at all."""
        args: tuple[ast.Expr, ...] = ()
        if isinstance(node, ast.FunctionCall):
            args = node.args
        elif isinstance(node, (ast.ArrowCall, ast.NamedFunctionRef)):
            return None
        if not args:
            return ""
        return self.names.parts.get(args[0]) if isinstance(args[0], ast.StringLiteral) else None


def contexts(modules: tuple[ModuleContext, ...]) -> tuple[CompilerContext, ...]:
    return tuple([_context(number, module) for number, module in enumerate(modules)])


def _context(number: int, module: ModuleContext) -> CompilerContext:
    names = Names()
    _merge(names, module.names)
    library_names = module.library_names
    declared = dict(module.names.declared)
    for library in library_names:
        _merge(names, library)
        declared.update(library.declared)
    names.prefixes = module.names.prefixes
    names.default_function = module.names.default_function
    collations = [d for d in module.tree.prolog if isinstance(d, ast.Setter) and d.kind == "default collation"]
    return CompilerContext(number, module, names, library_names, not collations, declared)


def _merge(into: Names, other: Names) -> None:
    into.functions.update(other.functions)
    into.variables.update(other.variables)
    into.elements.update(other.elements)
    into.attributes.update(other.attributes)
    into.types.update(other.types)
    into.parts.update(other.parts)
