"""The bounds that the page about security names are those of the code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "security.md"
BOUND = re.compile(r"^\| .* \| ([\d,]+) \| `(demaq\.[\w.]+)\.([A-Z_]+)` \|$", re.MULTILINE)


def test_bounds_on_the_page_are_those_of_the_code() -> None:
    bounds = BOUND.findall(PAGE.read_text(encoding="utf-8"))
    assert len(bounds) == PAGE.read_text(encoding="utf-8").count("| `demaq."), "a row that cannot be checked"
    assert len(bounds) >= 20
    said = {f"{module}.{name}": float(number.replace(",", "")) for number, module, name in bounds}
    assert said == {f"{module}.{name}": getattr(importlib.import_module(module), name) for _, module, name in bounds}
