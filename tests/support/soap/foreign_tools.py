"""Other people's SOAP tools for the tests: gSOAP of Debian and the npm package soap, fetched once and kept.

They are got by name with the usual clients, without being root, into a folder of the user's cache. Where the machine has
no such client, or it cannot get them, the tests that need them are left out and say why.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

FETCH_SECONDS_MAX = 240
NODE_SOAP = "soap@1.13.0"
INSTALLED = Path("/usr")
GSOAP_PARTS = (
    "bin/soapcpp2",
    "bin/wsdl2h",
    "share/gsoap/plugin/wsrmapi.c",
    "lib/*/libgsoapssl.a",
    "include/stdsoap2.h",
)
"""What is there if the packages of Debian are installed."""


def gsoap() -> Path:
    """Return the folder `usr` of gSOAP's packages: its compilers, headers and libraries."""
    needed("gcc")
    if all([any(INSTALLED.glob(name)) for name in GSOAP_PARTS]):
        return INSTALLED
    needed("apt-get", "dpkg-deb")
    return kept("gsoap", _fetch_gsoap) / "usr"


def node_modules() -> Path:
    """Return the folder of modules that holds the package soap."""
    needed("npm", "node")
    return kept(NODE_SOAP.replace("@", "-"), _fetch_node_soap) / "node_modules"


def needed(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"there is no {' and no '.join(missing)} on this machine")


def kept(name: str, fetch: Callable[[Path], None]) -> Path:
    """Return a folder of the cache; the first caller fills it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "demaq-tests"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / name
    with _locked(cache / f"{name}.lock"):
        if not folder.is_dir():
            begun = cache / f"{name}.begun"
            shutil.rmtree(begun, ignore_errors=True)
            begun.mkdir()
            fetch(begun)
            begun.rename(folder)
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch_gsoap(folder: Path) -> None:
    own = folder / "apt"  # for lists of packages, where the machine has none
    (own / "lists" / "partial").mkdir(parents=True)
    options = ["-o", f"Dir::State::lists={own}/lists", "-o", f"Dir::Cache={own}", "-o", "Debug::NoLocking=1"]
    debs = folder / "debs"
    debs.mkdir()
    if not _succeeds(["apt-get", "-qq", "download", "gsoap", "libgsoap-dev"], debs):
        _expect(["apt-get", "-qq", *options, "update"], debs)
        _expect(["apt-get", "-qq", *options, "download", "gsoap", "libgsoap-dev"], debs)
    else:
        options = []
    [tools] = debs.glob("gsoap_*.deb")
    depends = _expect(["dpkg-deb", "-f", str(tools), "Depends"], debs)
    library = re.search(r"libgsoap-[0-9.]+", depends)
    assert library is not None, depends
    _expect(["apt-get", "-qq", *options, "download", library[0]], debs)
    for deb in sorted(debs.glob("*.deb")):
        _expect(["dpkg-deb", "-x", str(deb), str(folder)], debs)


def _fetch_node_soap(folder: Path) -> None:
    words = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    _expect(["npm", "install", "--prefix", str(folder), *words, NODE_SOAP], folder)


def _succeeds(command: Sequence[str], folder: Path) -> bool:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=FETCH_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _expect(command: Sequence[str], folder: Path) -> str:
    """Return what a command prints; where it fails, the test is left out."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{' '.join(command)} did not end in {FETCH_SECONDS_MAX} s")
    if done.returncode != 0:
        pytest.skip(f"{' '.join(command)} failed: {done.stderr.strip()[-300:]}")
    return done.stdout
