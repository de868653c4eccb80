"""What a client finds that reads a published WSDL and follows every reference, also as files of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from lxml import etree

from demaq.soap import Interface

HERE = "http://here.invalid/q"


def fetch_all(
    interface: Interface, address: str = HERE, others: Sequence[tuple[Interface, str]] = ()
) -> dict[str, bytes]:
    """Return all files of a published interface by their addresses, the WSDL first."""
    found: dict[str, bytes] = {}
    waiting = [f"{address}?wsdl"]
    while waiting:
        place = waiting.pop()
        if place in found:
            continue
        assert place.startswith(f"{address}?"), place
        query = parse_qs(urlsplit(place).query, keep_blank_values=True)
        [name] = query.get("wsdl") or query.get("xsd") or []
        data = interface.publish_file(name, address, others) if name else interface.publish(address, others)
        assert data is not None, place
        found[place] = data
        root = etree.fromstring(data)
        named = [one.get("schemaLocation") or one.get("location") for one in root.iter("{*}import", "{*}include")]
        waiting += [one for one in named if one is not None]
    return found


def save_all(found: Mapping[str, bytes], folder: Path) -> Path:
    """Write all files into one folder, with references to each other; return the path of the WSDL."""
    names = {place: f"published-{number}.xml" for number, place in enumerate(found)}
    for place, data in found.items():
        root = etree.fromstring(data)
        for one in root.iter("{*}import", "{*}include"):
            for attribute in ("schemaLocation", "location"):
                if one.get(attribute) in names:
                    one.set(attribute, names[one.get(attribute, "")])
        (folder / names[place]).write_bytes(etree.tostring(root))
    return folder / next(iter(names.values()))
