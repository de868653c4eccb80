"""Restore a store from a backup.

It begins an epoch, so that its new messages differ from those sent after the backup.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from demaq.errors import StoreError
from demaq.store.address import Address
from demaq.store.backup import copy_folder, create_folder, expect_no_findings
from demaq.store.copying import copy_to_server
from demaq.store.epochs import Epochs
from demaq.store.location import StoreLocation, store_argument
from demaq.store.postgresql_database import ServerDatabase
from demaq.store.row_verification import VerificationReport, verify_tables
from demaq.store.sqlite import SqliteStore
from demaq.store.sqlite_database import FILE_NAME, Database
from demaq.store.store_verification import verify_folder, verify_store


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored."""

    messages: int
    newest: int
    """The newest number: an epoch begins after it."""


def restore(backup: Path, place: StoreLocation) -> Restored:
    """Create a store from a backup. Raises StoreDamaged if the backup is damaged."""
    if not (backup / FILE_NAME).is_file():
        raise StoreError(f"there is no backup in {backup}")
    report = verify_store(backup)
    expect_no_findings(
        report,
        f"the backup {backup} is damaged, so nothing was restored",
        f"{store_argument(backup)}; restore another one",
    )
    restored = _restore_to_server(backup, place) if place.is_on_server else _restore_to_folder(backup, place)
    return Restored(restored.messages, restored.newest)


def _restore_to_folder(backup: Path, place: StoreLocation) -> VerificationReport:
    with create_folder(place.folder) as unfinished:
        copy_folder(backup, unfinished / FILE_NAME)
        store = SqliteStore(unfinished)
        try:
            with closing(Database(backup, read_only=True)) as former:
                if store.identity() == Epochs(former.rows(former.sql["epochs"])).current:
                    store.begin_epoch()
        finally:
            store.close()
        report = verify_folder(unfinished)
        expect_no_findings(report, f"{backup} was damaged on the way to {place}", store_argument(backup))
        return report


def _restore_to_server(backup: Path, place: StoreLocation) -> VerificationReport:
    with (
        closing(Database(backup, read_only=True)) as source,
        closing(ServerDatabase(Address(str(place.where)), read_only=False)) as target,
    ):
        copy_to_server(source, target)
        target.write_origin()
        report = verify_tables(target)
    expect_no_findings(report, f"{backup} was damaged on the way to {place}", store_argument(place))
    return report
