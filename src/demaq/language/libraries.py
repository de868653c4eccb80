"""Library modules: find the files that `import module … at` names, read each once, dependencies first."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from demaq.errors import ProgramError
from demaq.language import ast
from demaq.language.diagnostics import Diagnostic, error
from demaq.language.parser import parse_query, read_source


@dataclass(slots=True)
class _OpenImport:
    """A library module whose imports are being followed; None for the module that started it."""

    library: ast.Query | None
    rest: Iterator[Path]


@dataclass(slots=True, eq=False)
class Libraries:
    """All library modules of an application by file, and the problems with importing them."""

    problems: list[Diagnostic] = field(default_factory=list)
    _by_file: dict[Path, ast.Query | None] = field(default_factory=dict)
    """None if the file could not be read."""

    def find_imports(self, prolog: Sequence[ast.Decl], file: str) -> tuple[ast.Query, ...]:
        """Return the library modules a prolog imports, directly or through others, each once, dependencies first."""
        found: dict[ast.Query, None] = {}
        opened: set[Path] = set()
        stack = [_OpenImport(None, iter(self._files(prolog, file)))]
        while stack:
            path = next(stack[-1].rest, None)
            if path is None:
                done = stack.pop()
                if done.library is not None:
                    found[done.library] = None
            elif path not in opened:
                opened.add(path)
                library = self._by_file.get(path)
                if library is not None:
                    stack.append(_OpenImport(library, iter(self._files(library.prolog, library.at.file))))
        return tuple(found)

    def _files(self, prolog: Sequence[ast.Decl], file: str) -> list[Path]:
        """Return the files that a prolog's imports name, and read those not read yet."""
        found: list[Path] = []
        for declaration in prolog:
            if not isinstance(declaration, ast.ModuleImport):
                continue
            if not declaration.locations:
                self._problem("DQ0607", f"nothing says where module {declaration.uri} is", declaration, _AT)
            for location in declaration.locations:
                path = Path(os.path.normpath(Path(file).parent / location))
                if path not in self._by_file:
                    self._by_file[path] = self._read(path, declaration)
                library = self._by_file[path]
                if library is None:
                    continue
                if library.library is None or library.library.uri != declaration.uri:
                    self._wrong_namespace(location, library, declaration)
                else:
                    found.append(path)
        return found

    def _read(self, path: Path, declaration: ast.ModuleImport) -> ast.Query | None:
        try:
            text = read_source(path)
        except ProgramError as failure:
            if failure.at is not None:
                self.problems.append(Diagnostic.of(failure))
            else:
                self._problem("DQ0605", f"library module {failure.message}", declaration, _RELATIVE)
            return None
        try:
            return parse_query(text, str(path))
        except ProgramError as failure:
            self.problems.append(Diagnostic.of(failure))
            return None

    def _wrong_namespace(self, location: str, library: ast.Query, declaration: ast.ModuleImport) -> None:
        if library.library is None:
            message, hint = f"{location} is no library module", f'it begins: module namespace p = "{declaration.uri}";'
        else:
            message = f"{location} is the module {library.library.uri}, not {declaration.uri}"
            hint = "the namespaces of import and module are the same"
        self._problem("DQ0606", message, declaration, hint)

    def _problem(self, code: str, message: str, declaration: ast.ModuleImport, hint: str) -> None:
        self.problems.append(error(code, message, declaration.at, hint))


_AT = 'import module namespace p = "uri" at "file.xqm";'
_RELATIVE = "files are found from the folder of the module that imports them"
