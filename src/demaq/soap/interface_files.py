"""The files of an interface: WSDL and schemas, read locally, never from the network."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote

from lxml import etree

from demaq.errors import ProgramError
from demaq.xml_parsers import parse_file_content

FILES_MAX = 500
"""The most files of one interface."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def refuse_interface(message: str) -> NoReturn:
    """Raises ProgramError: the interface cannot be used, for this reason."""
    raise ProgramError(message, code="DQ0602")


class Files:
    """The files of an interface, each read once."""

    def __init__(self) -> None:
        self._roots: dict[Path, etree._Element] = {}

    def root(self, path: Path, named_in: Path | None = None) -> etree._Element:
        """Return the root element of a file. An error names the file that references it."""
        if path not in self._roots:
            if len(self._roots) >= FILES_MAX:
                refuse_interface(f"it is made of more than {FILES_MAX} files")
            self._roots[path] = _read(path, named_in)
        return self._roots[path]

    def paths(self) -> list[Path]:
        """Return the paths of the files in the order in which they were read."""
        return list(self._roots)

    def path(self, location: str, named_in: Path) -> Path | None:
        """Return the path that a location in a file refers to; None if it is on the network."""
        if _URL.match(location):
            return None
        return Path(os.path.normpath(named_in.parent / unquote(location.partition("#")[0])))


def _read(path: Path, named_in: Path | None) -> etree._Element:
    prefix = "" if named_in is None else f"{path.name}, named in {named_in.name}: "
    try:
        data = path.read_bytes()
    except OSError as failure:
        refuse_interface(f"{prefix}{failure.strerror or failure}")
    try:
        root = parse_file_content(data)
    except (etree.XMLSyntaxError, ValueError) as failure:
        refuse_interface(f"{prefix}{str(failure).splitlines()[0] if str(failure) else 'it is not well-formed'}")
    if root.getroottree().docinfo.internalDTD is not None:
        refuse_interface(f"{prefix}a document type declaration is not allowed")
    return root
