"""Load a program from files: parse, resolve names, run all checks, and report all problems at once."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from demaq.errors import ProgramError
from demaq.language import ast
from demaq.language.checks import ERRORS, WARNINGS
from demaq.language.diagnostics import Diagnostic, sort_diagnostics
from demaq.language.libraries import Libraries
from demaq.language.parser import Paths, parse_module, read_application
from demaq.language.program.bodies import DraftModule, DraftRule, Library
from demaq.language.program.building import build_program
from demaq.language.program.draft import Draft
from demaq.language.program.program import Program
from demaq.language.recursion import deep_recursion
from demaq.language.resolving.resolve import resolve_module, resolve_query
from demaq.source import NOWHERE, Source
from demaq.suggestions import Suggestions

StaticCheck: TypeAlias = Callable[[Program], Iterable[Diagnostic]]

IGNORE = re.compile(r"demaq:ignore\b(.*)", re.DOTALL)
"""`(: demaq:ignore DQ1402 :)` on the line of a warning silences it; without a code, all warnings of the line."""

_UNKNOWN_PARTS = frozenset({"DQ0203", "DQ0204", "DQ0205", "DQ0206", "DQ0207"})
_UNKNOWN_NAMES = frozenset({"DQ0201", "DQ0202", "DQ0301", "DQ0302"})


@dataclass(frozen=True, slots=True)
class CheckedProgram:
    """An application after all checks. It has a program if there are no errors."""

    program: Program | None
    diagnostics: list[Diagnostic]

    @property
    def errors(self) -> list[Diagnostic]:
        return [item for item in self.diagnostics if item.severity == "error"]

    @property
    def warnings(self) -> list[Diagnostic]:
        return [item for item in self.diagnostics if item.severity == "warning"]


def load_program(paths: Paths, static_check: StaticCheck | None = None) -> Program:
    """Return the program in files or folders. Raises a ProgramError; its `others` are the further errors."""
    return _require_program(check_application(paths, static_check))


def load_program_texts(files: Mapping[str, str]) -> Program:
    """Return the program of modules whose texts are given by the names of their files."""
    return _require_program(check_texts(files))


def check_texts(files: Mapping[str, str]) -> CheckedProgram:
    """Check modules whose texts are given by the names of their files."""
    modules: list[ast.Module] = []
    errors: list[ProgramError] = []
    for file, text in files.items():
        module, found = parse_module(text, file)
        modules.append(module)
        errors.extend(found)
    at = modules[0].at if modules else NOWHERE
    return _check_all(ast.Application(at, tuple(modules)), errors, None)


def check_text(text: str, file: str, static_check: StaticCheck | None = None) -> CheckedProgram:
    """Check an application of one module that is not in a file; `file` is its name in diagnostics."""
    module, errors = parse_module(text, file)
    return _check_all(ast.Application(module.at, (module,)), errors, static_check)


def _require_program(checked: CheckedProgram) -> Program:
    errors = [item.error() for item in checked.errors]
    if errors:
        errors[0].others = tuple(errors[1:])
        raise errors[0]
    assert checked.program is not None, "without errors there is a program"
    return checked.program


def check_application(paths: Paths, static_check: StaticCheck | None = None) -> CheckedProgram:
    """Check the files of an application, or the folders that hold them. Never raises ProgramError.

    `static_check` runs last, for what only the compiler finds. If only rules have errors, it checks the program without
    them.
    """
    try:
        application, syntax_errors = read_application(paths)
    except ProgramError as failure:
        return CheckedProgram(None, [Diagnostic.of(failure)])
    return _check_all(application, syntax_errors, static_check)


def _check_all(
    application: ast.Application, syntax_errors: list[ProgramError], static_check: StaticCheck | None
) -> CheckedProgram:
    with deep_recursion():
        draft, found = _resolve(application)
        found += _check(draft, found, syntax_errors)
        errors = [item for item in found if item.severity == "error"]
        program = None if errors else build_program(draft)
        if static_check is not None:
            sound = program if not errors else _build_without_faulty_rules(draft, errors, syntax_errors)
            found += static_check(sound) if sound is not None else []
    found = sort_diagnostics(_drop_silenced(found, draft))
    if [item for item in found if item.severity == "error"]:
        program = None
    return CheckedProgram(program, found)


def _build_without_faulty_rules(
    draft: Draft, errors: list[Diagnostic], syntax_errors: list[ProgramError]
) -> Program | None:
    """Return the program without the rules that have errors, if nothing else has."""
    if syntax_errors:
        return None
    spans: dict[Source, list[tuple[int, int, DraftRule]]] = {}
    for rule in draft.rules:
        at = rule.decl.at
        spans.setdefault(at.source, []).append((at.start, at.end, rule))
    faulty: set[DraftRule] = set()
    for item in errors:
        around = _find_enclosing_rule(item, spans)
        if around is None:
            return None
        faulty.add(around)
    kept, draft.rules = draft.rules, [rule for rule in draft.rules if rule not in faulty]
    program = build_program(draft)
    draft.rules = kept
    return program


def _find_enclosing_rule(item: Diagnostic, spans: dict[Source, list[tuple[int, int, DraftRule]]]) -> DraftRule | None:
    """Return the rule that contains a diagnostic. Rules of a source do not overlap."""
    if item.at is None or item.at.source not in spans:
        return None
    rules = spans[item.at.source]
    position = bisect_right(rules, item.at.start, key=lambda span: span[0]) - 1
    if position < 0 or rules[position][1] < item.at.start:
        return None
    return rules[position][2]


def _resolve(application: ast.Application) -> tuple[Draft, list[Diagnostic]]:
    """Resolve all names of the modules and of the libraries they import."""
    suggestions = Suggestions()
    libraries = Libraries()
    resolved: dict[ast.Query, Library] = {}
    modules: list[DraftModule] = []
    found: list[Diagnostic] = []
    for number, tree in enumerate(application.modules):
        trees = libraries.find_imports(tree.prolog, tree.at.file)
        for library in trees:
            if library not in resolved:
                imports = libraries.find_imports(library.prolog, library.at.file)
                resolved[library] = Library(library, resolve_query(library, imports, suggestions))
                found += resolved[library].names.problems
        names = resolve_module(tree, trees, suggestions)
        found += names.problems
        modules.append(DraftModule(tree, names, number, tuple([resolved[library] for library in trees])))
    return Draft(modules, suggestions), found + libraries.problems


def _check(draft: Draft, resolved: list[Diagnostic], syntax_errors: list[ProgramError]) -> list[Diagnostic]:
    found: list[Diagnostic] = [Diagnostic.of(failure) for failure in syntax_errors]
    for check in ERRORS:
        found.extend(check(draft))
    if not syntax_errors:
        for check in WARNINGS:
            found.extend(check(draft))
        return found
    noise = _make_noise_filter(draft, syntax_errors)
    resolved[:] = [item for item in resolved if not noise(item)]
    return [item for item in found if not noise(item)]


def _make_noise_filter(draft: Draft, syntax_errors: list[ProgramError]) -> Callable[[Diagnostic], bool]:
    """Return a predicate for consequences of syntax errors: names that the unparsed text may have declared."""
    unread_prologs: set[str] = set()
    lost = len(syntax_errors)
    for module in draft.modules:
        broken = [s for s in module.tree.statements if isinstance(s, ast.BrokenStatement)]
        lost -= len(broken)
        first = module.tree.statements[0].at.start if module.tree.statements else None
        for failure in syntax_errors:
            at = failure.at
            if at is not None and at.file == module.tree.at.file and (first is None or at.start < first):
                unread_prologs.add(at.file)

    def is_noise(item: Diagnostic) -> bool:
        if item.code in _UNKNOWN_PARTS:
            return lost > 0
        return item.code in _UNKNOWN_NAMES and item.at is not None and item.at.file in unread_prologs

    return is_noise


def _drop_silenced(found: list[Diagnostic], draft: Draft) -> list[Diagnostic]:
    """Return the diagnostics without warnings that a comment on their line silences."""
    silenced = _find_silenced_lines(draft)
    kept: list[Diagnostic] = []
    for item in found:
        codes = silenced.get((item.at.file, item.at.line)) if item.at is not None else None
        if item.severity == "error" or codes is None or (codes and item.code not in codes):
            kept.append(item)
    return kept


def _find_silenced_lines(draft: Draft) -> dict[tuple[str, int], set[str]]:
    """Return the codes that the comment on each line names; an empty set means all codes."""
    lines: dict[tuple[str, int], set[str]] = {}
    for module in draft.modules:
        comments = list(module.tree.comments)
        for library in module.libraries:
            comments += library.tree.comments
        for comment in comments:
            match = IGNORE.search(comment.text)
            if match is None:
                continue
            codes = set(re.findall(r"\bDQ\d{4}\b", match.group(1)))
            if not codes and re.search("dq", match.group(1), re.IGNORECASE):
                continue  # an invalid code silences nothing
            known = lines.setdefault((comment.at.file, comment.at.line), set(codes))
            if codes and known:
                known |= codes
            else:
                known.clear()
    return lines
