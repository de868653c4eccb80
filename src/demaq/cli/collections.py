"""`demaq collections`: the master data that rules read."""

from __future__ import annotations

from pathlib import Path

import click

from demaq.cli.command_classes import ExampleFirst, ExampleFirstGroup
from demaq.cli.stores import (
    format_count,
    json_option,
    open_for_reading,
    open_for_writing,
    paged,
    print_empty,
    print_next_page,
    program_of,
    show_json,
    store_option,
)
from demaq.documents import parse_document
from demaq.errors import MessageError
from demaq.operations.audit import describe_action, name_of_operator
from demaq.store.location import StoreLocation


@click.group(cls=ExampleFirstGroup, example="$ demaq collections load prices prices/*.xml --store orders")
def collections() -> None:
    """Load and list the collections that rules read."""


@collections.command(cls=ExampleFirst, example="$ demaq collections load prices prices/*.xml --store orders")
@click.argument("name")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@store_option
def load(name: str, files: tuple[Path, ...], place: StoreLocation) -> None:
    """Replace a collection by the documents in these files: all of them, or none where one is wrong."""
    documents = [_document(file) for file in files]
    with open_for_writing(place) as node:
        entry = describe_action(
            "load collection",
            f"collection {name}",
            who=name_of_operator(),
            details={"name": name, "documents": len(documents)},
            result=f"{format_count(len(documents), 'document')} loaded",
        )
        version = node.load_collection(name, documents, entry)
    click.echo(f"collection {name}: {format_count(len(files), 'document')}, version {version}")


@collections.command(name="list", cls=ExampleFirst, example="$ demaq collections list --store orders")
@store_option
@paged
@json_option
def list_collections(place: StoreLocation, limit: int, after: str | None, as_json: bool) -> None:
    """List the collections that are loaded or that the application declares, with version and documents."""
    with open_for_reading(place) as store:
        known = {name: (version, documents) for name, version, documents in store.collections()}
        program = program_of(store)
    if program is not None:
        known = {**dict.fromkeys(program.collections, (0, 0)), **known}
    found = [(name, *what) for name, what in sorted(known.items()) if after is None or name > after]
    shown = found[:limit]
    if as_json:
        show_json([{"collection": name, "version": version, "documents": count} for name, version, count in shown])
    else:
        for name, version, count in shown:
            state = f"{format_count(count, 'document')}, version {version}" if version else "not loaded"
            click.echo(f"{name}: {state}")
        if not shown:
            print_empty("no collections" if after is None else f"no more collections after {after}")
    print_next_page(found, limit, lambda item: item[0])


def _document(file: Path) -> bytes:
    """Return what is in a file. Ends the command where that is not a document."""
    data = file.read_bytes()
    try:
        parse_document(data)
    except MessageError as error:
        raise click.ClickException(f"{file}: {error.message}; nothing was loaded") from None
    return data
