"""`demaq collections`: the master data that rules read."""

from __future__ import annotations

from pathlib import Path

import click

from demaq.cli.example_first import ExampleFirst, ExampleFirstGroup
from demaq.cli.stores import counted, store_option, told
from demaq.server.at_rest import writable


@click.group(cls=ExampleFirstGroup, example="$ demaq collections load prices prices/*.xml --store orders")
def collections() -> None:
    """Load the collections that rules read."""


@collections.command(cls=ExampleFirst, example="$ demaq collections load prices prices/*.xml --store orders")
@click.argument("name")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@store_option
def load(name: str, files: tuple[Path, ...], folder: Path) -> None:
    """Replace a collection by the documents in these files."""
    with told():
        node = writable(folder)
        try:
            version = node.load_collection(name, [file.read_bytes() for file in files])
        finally:
            node.close()
    click.echo(f"collection {name}: {counted(len(files), 'document')}, version {version}")
