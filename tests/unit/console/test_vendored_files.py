"""htmx is the published file of its version, with its licence; the README shows screenshots that exist."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from demaq.console.visits import STATIC

VERSION = "4.0.1"
SHA256 = "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130"
"""Of `dist/htmx.min.js` in the package `htmx.org` of this version, in the registry of npm."""
ROOT = Path(__file__).parents[3]
PNG = b"\x89PNG\r\n\x1a\n"
WIDTH_MIN = 600


def test_htmx_is_what_its_version_says():
    data = (STATIC / "htmx.min.js").read_bytes()
    assert re.findall(rb'this\.version="([^"]*)"', data) == [VERSION.encode()]
    assert hashlib.sha256(data).hexdigest() == SHA256, "a new version is a new checksum here, from the registry of npm"


def test_the_licence_of_htmx_is_beside_it():
    licence = (STATIC / "htmx-LICENSE.txt").read_text(encoding="utf-8")
    assert licence.startswith("Zero-Clause BSD")
    assert "without fee is hereby granted" in licence


def test_no_other_script_is_vendored():
    assert {file.name for file in STATIC.glob("*.js")} == {"htmx.min.js", "console.js"}


def test_the_readme_shows_two_screenshots_that_exist():
    shown = re.findall(r"!\[([^]]+)\]\((docs/images/[^)]+\.png)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len({address for _, address in shown}) == 2
    for words, address in shown:
        data = (ROOT / address).read_bytes()
        assert data.startswith(PNG), address
        assert int.from_bytes(data[16:20]) >= WIDTH_MIN, "wide enough to be read"
        assert len(words.split()) >= 5, "what it shows, for those who do not see it"
