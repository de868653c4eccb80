"""Addresses as they may be shown: without names and passwords in front of the host, and without values of the query.

Many services take their keys in the query, `?key=…`. So whatever shows an address, or a text that may quote one, shows
it as this module writes it: logs, error messages, deliveries, listings.

    https://joe:secret@api.example/v1?key=abc&page=2#x   ->   https://…@api.example/v1?key=…&page=…#…
"""

from __future__ import annotations

import re

MASK = "…"

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s<>\"`]*[^\s<>\"`,;.:!?)']")
_SCHEME = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?/{0,3}")
_SERVER = re.compile(r"(?:\[[^\]/]*\]|[^/:@]*)(?::[0-9]*)?")


def mask_address(address: str) -> str:
    """Return an address, whole or broken, without what may be secret in it. That of a mail has nothing that is."""
    if address.lstrip()[:7].lower() == "mailto:":
        return address
    before, fragment_mark, _ = address.partition("#")
    place, query_mark, query = before.partition("?")
    masked_query = "&".join([_mask_part(part) for part in query.split("&")]) if query else ""
    return f"{_mask_place(place)}{query_mark}{masked_query}{fragment_mark}{MASK if fragment_mark else ''}"


def mask_addresses(text: str) -> str:
    """Return a text in which every address is masked."""
    return _ADDRESS.sub(lambda match: mask_address(match[0]), text) if "://" in text else text


def _mask_place(place: str) -> str:
    match = _SCHEME.match(place)
    scheme = match[0] if match is not None else ""
    server, slash, path = place[len(scheme) :].partition("/")
    if "@" in server:
        return f"{scheme}{MASK}@{server.rpartition('@')[2]}{slash}{path}"
    if _SERVER.fullmatch(server):
        return place
    if "@" in path:  # a password with a slash in it: no address, but no less secret
        return f"{scheme}{MASK}@{path.rpartition('@')[2]}"
    return f"{scheme}{server.rpartition(':')[0]}:{MASK}{slash}{path}" if ":" in server else place


def _mask_part(part: str) -> str:
    if "=" in part:
        return f"{part.partition('=')[0]}={MASK}"
    return MASK if part else ""
