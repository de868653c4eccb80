"""Repair a damaged store without what it has lost, if its operator accepts that.

Damaged rows are removed, rows that are derived from messages are rebuilt, and a new epoch begins, because it is not
known which numbers were assigned.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from demaq.errors import StoreDamaged, StoreError
from demaq.store import continuity
from demaq.store.checksums import ROW_TABLES, checksum_of, request_checksum
from demaq.store.encoding import decode_list
from demaq.store.epochs import new_name, write_epoch
from demaq.store.folder import expect_database
from demaq.store.mark import MARK_NAME
from demaq.store.row_verification import VerificationReport
from demaq.store.sql_statements import load_statements
from demaq.store.sqlite_database import FILE_NAME, Database
from demaq.store.store_verification import verify_folder
from demaq.store.writer_lock import WriterLock

_SQL = load_statements("sqlite", "repair")


def accept_loss(folder: Path) -> Iterator[str]:
    """Make a store usable that has lost something, and yield what was done.

    Raises StoreDamaged if that is impossible.
    """
    if not (folder / FILE_NAME).exists():
        raise StoreError(f"there is no store in {folder}")
    lock = WriterLock(folder)
    try:
        expect_database(folder)
        went_back = continuity.accept_loss(folder)
        if went_back is not None:
            yield went_back
        report = verify_folder(folder)
        if report.findings:
            yield from _repair(folder, report)
        if went_back is not None or report.findings:
            (folder / MARK_NAME).unlink(missing_ok=True)  # a store without a mark begins a new epoch
        else:
            yield "nothing is lost"
    finally:
        lock.release()


def _repair(folder: Path, report: VerificationReport) -> Iterator[str]:
    database = Database(folder, read_only=False)
    try:
        database.allow_invalid_text()
        database.rebuild_indexes()
        with database.transaction():
            removed = _remove_messages(database, report)
            rows = _remove_rows(database)
            _rebuild(database)
    finally:
        database.close()
    yield f"removed {removed:,} damaged messages and {rows:,} other rows"
    left = verify_folder(folder).findings
    if left:
        raise StoreDamaged(f"the store {folder} cannot be mended. {left[0]}. Restore a backup (demaq restore)")


def _remove_messages(database: Database, report: VerificationReport) -> int:
    damaged = {*report.damaged, *[seq for (seq,) in database.rows(_SQL["incomplete"])]}
    for name in ("delete_message", "delete_body", "delete_outbox"):
        database.execute_many(database.sql[name], [(seq,) for seq in sorted(damaged)])
    newest = max([report.newest, *[seq for (seq,) in database.rows(_SQL["highest"]) if seq is not None]])
    database.execute(_SQL["set_numbers"], [newest, newest])
    return len(damaged)


def _remove_rows(database: Database) -> int:
    """Remove rows with wrong checksums from the other tables. Return how many there were."""
    removed = 0
    for table, columns in ROW_TABLES.items():
        key = ", ".join(columns)
        rows = database.rows(f"SELECT {key}, checksum FROM {table}")
        intact = [row for row in rows if row[-1] is None or _checksum(*row[:-1]) == row[-1]]
        removed += len(rows) - len(intact)
        if len(intact) == len(rows):
            continue
        if table == "outbox":  # its rows are rebuilt from the messages, and their checksums leave out the queue
            intact_seqs = {row[0] for row in intact}
            database.execute_many(
                database.sql["delete_outbox"], [(row[0],) for row in rows if row[0] not in intact_seqs]
            )
        else:
            places = ", ".join("?" * (len(columns) + 1))
            database.execute(f"DELETE FROM {table}")
            database.execute_many(f"INSERT INTO {table} ({key}, checksum) VALUES ({places})", intact)
    removed += len(database.rows(database.sql["verify_sequence_messages_alone"]))
    database.execute(_SQL["delete_sequence_messages_alone"])
    if not database.rows(database.sql["epochs"]):
        write_epoch(database, 0, new_name())
    return removed


def _rebuild(database: Database) -> None:
    """Rebuild the rows that are derived from messages."""
    for name in ("clear_members", "clear_entries", "clear_counts", "clear_requests"):
        database.execute(_SQL[name])
    members, entries, requests = [], [], []
    for seq, retired, request, slices, listed in database.rows(_SQL["derived_columns"]):
        members += [(slicing, key, ended, seq) for slicing, key, ended in decode_list(slices)]
        entries += [(name, value, retired or 0, seq) for name, value in decode_list(listed)]
        if request is not None:
            requests.append((request, seq, request_checksum(request, seq, None)))
    database.execute_many(database.sql["insert_member"], members)
    database.execute_many(database.sql["insert_entry"], entries)
    database.execute_many(database.sql["insert_request"], requests)
    database.execute(_SQL["rebuild_counts"])
    database.execute(_SQL["rebuild_outbox"])


def _checksum(*values: str | int | float | None) -> int | None:
    try:
        return checksum_of(*values)
    except ValueError:
        return None
