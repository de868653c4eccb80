"""Bring this package to executors on other machines: as an archive that Python imports from.

Only Demaq itself travels. What it depends on holds compiled code, and must be installed where the executors are.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import demaq

ARCHIVE_NAME = "demaq-package.zip"
_LEFT_OUT = "__pycache__"


def package_archive(folder: Path) -> Path:
    """The package with all its files, not only Python's, as an archive in that folder."""
    source = Path(demaq.__file__).parent
    archive = folder / ARCHIVE_NAME
    unfinished = archive.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as target:
        for file in sorted(source.rglob("*")):  # folders too: without their entries Python finds no namespace packages
            if _LEFT_OUT not in file.parts:
                target.write(file, Path(source.name) / file.relative_to(source))
    os.replace(unfinished, archive)
    return archive
