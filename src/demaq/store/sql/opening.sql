-- name: application_id
PRAGMA application_id

-- name: version
PRAGMA user_version

-- name: table_count
SELECT count(*) FROM sqlite_master

-- Only a new file takes the page size; the first table fixes it.
-- name: page_size
PRAGMA page_size = 4096

-- name: write_ahead
PRAGMA journal_mode = WAL

-- name: synchronous
PRAGMA synchronous = FULL

-- Sorting must not need room on a full disk.
-- name: temporary
PRAGMA temp_store = MEMORY

-- name: cache
PRAGMA cache_size = -65536

-- Every checkpoint costs a sync of the whole file: fewer and larger ones, 16 MB.
-- name: checkpoint
PRAGMA wal_autocheckpoint = 4000

-- A log that grew while somebody was reading shrinks again.
-- name: log_size
PRAGMA journal_size_limit = 67108864

-- name: begin
BEGIN IMMEDIATE

-- name: begin_reading
BEGIN

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: counted
SELECT commits, newest FROM numbers

-- name: newest
SELECT newest FROM numbers

-- name: count_commit
UPDATE numbers SET commits = ?, checksum = ?

-- name: check_pages
PRAGMA integrity_check

-- name: schema
SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master ORDER BY type, name

-- name: rebuild_indexes
REINDEX
