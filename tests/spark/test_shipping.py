"""The package as an archive: all of it works from there."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import demaq
from demaq.spark.shipping import package_archive

# Every module is imported, with nothing else of ours on the path, and files that are not Python's are read.
IMPORT_ALL = """
import sys, zipfile
archive = sys.argv[1]
sys.path[:] = [archive, *[path for path in sys.path if not path.endswith("/src")]]
import importlib, demaq
assert demaq.__file__.startswith(archive), demaq.__file__
for name in zipfile.ZipFile(archive).namelist():
    if name.endswith(".py") and not name.endswith(("__init__.py", "__main__.py")):
        importlib.import_module(name.removesuffix(".py").replace("/", "."))
from demaq.language.load import load_program_texts
from demaq.rounds.compiled import compile_program
compile_program(load_program_texts({"p.dmq": "create queue a create rule r for a if (//x) then do enqueue <y/> into a"}))
"""


def test_everything_can_be_imported_and_read_from_the_archive(tmp_path: Path) -> None:
    archive = package_archive(tmp_path)

    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, str(archive)], capture_output=True, text=True, cwd=tmp_path
    )

    assert done.returncode == 0, done.stderr


def test_the_archive_holds_every_file_of_the_package_and_nothing_else(tmp_path: Path) -> None:
    archive = package_archive(tmp_path)

    source = Path(demaq.__file__).parent
    files = {
        f"demaq/{p.relative_to(source)}" for p in source.rglob("*") if p.is_file() and "__pycache__" not in p.parts
    }
    assert {name for name in zipfile.ZipFile(archive).namelist() if not name.endswith("/")} == files
    assert [path.name for path in tmp_path.iterdir()] == [archive.name]
