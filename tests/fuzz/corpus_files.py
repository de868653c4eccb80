"""Inputs in files: `corpus` is what inputs are made from, `findings` is what once went wrong. Folders name the kind."""

from __future__ import annotations

import hashlib
from pathlib import Path

HERE = Path(__file__).parent
CORPUS, FINDINGS = HERE / "corpus", HERE / "findings"


def load(folder: Path) -> list[tuple[str, Path]]:
    """Return kinds and files."""
    return [(file.parent.name, file) for file in sorted(folder.glob("*/*")) if file.is_file()]


def keep_finding(kind: str, data: bytes) -> Path:
    """Write an input to where the tests find it."""
    file = FINDINGS / kind / hashlib.sha256(data).hexdigest()[:12]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file
