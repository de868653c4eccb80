"""`demaq record`: a scenario of `demaq test` out of real traffic."""

from __future__ import annotations

import secrets
from pathlib import Path

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.stores import format_count, open_for_reading, parse_number, program_of, store_option, tell
from demaq.errors import OperatorError
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.state.slice_keys import SliceKeys
from demaq.language.program.program import Program
from demaq.operations.recorded_traffic import RecordedTraffic, find_traffic
from demaq.operations.value_masks import parse_mask_path
from demaq.store.location import StoreLocation
from demaq.store.sql_store import SqlStore
from demaq.suggestions import describe_unknown

MEMBERS_MAX = 1_000
"""So many messages of a slice are looked at."""


@click.command(cls=ExampleFirst, example="$ demaq record --message 17 --store orders --mask //customer > scenario.yaml")
@click.option("--slice", "slice_", nargs=2, metavar="SLICING KEY", help="Record the messages of a slice.")
@click.option("--message", "message_id", metavar="ID", help="Record the conversation of a message.")
@click.option(
    "--mask",
    "masked",
    multiple=True,
    metavar="PATH",
    help="Replace values there, such as //name. May be repeated.",
)
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write it there.")
@store_option
def record(
    slice_: tuple[str, str] | None,
    message_id: str | None,
    masked: tuple[str, ...],
    output: Path | None,
    place: StoreLocation,
) -> None:
    """Make a scenario of real traffic, for `demaq test`: what came in, when, and what it led to."""
    if (slice_ is None) == (message_id is None):
        raise click.UsageError("record either --message ID or --slice SLICING KEY")
    seq = parse_number(message_id, "--message") if message_id is not None else None
    paths = [parse_mask_path(path) for path in masked]
    with open_for_reading(place) as store, store.at_one_snapshot():
        program = program_of(store)
        if program is None:
            raise OperatorError("the application that ran on the store is not known, or its files have gone")
        if slice_ is not None:
            traffic = _find_slice(store, program, *slice_)
            name = f"slice {slice_[0]} {slice_[1]}" if not masked else f"a slice of {slice_[0]}"
        else:
            assert seq is not None
            if store.message(seq) is None:
                raise OperatorError(f"there is no message {seq}: it never was, or it was removed")
            traffic = find_traffic(store, program, [seq])
            name = f"message {seq}"
    from demaq.testing.recording import record_scenario  # compiles rules

    found = record_scenario(program, traffic, f"{name} as recorded", paths, secrets.token_bytes(16))
    if output is None:
        click.echo(found.text, nl=False)
    else:
        output.write_text(found.text, encoding="utf-8")
    for notice in found.notices:
        tell(f"notice: {notice}")
    tell(f"{format_count(found.inputs, 'message')} from outside")


def _find_slice(store: SqlStore, program: Program, slicing: str, key: str) -> RecordedTraffic:
    if slicing not in program.slicings:
        raise OperatorError(describe_unknown("slicing", slicing, program.slicings))
    known = SliceKeys(program, compile_program(program).saxon).key(slicing, key)
    members = store.slice_history(slicing, known, MEMBERS_MAX)
    if not members:
        raise OperatorError(f"no message that was in slice {slicing} {key} is stored")
    return find_traffic(store, program, members)
