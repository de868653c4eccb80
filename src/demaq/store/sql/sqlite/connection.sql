-- In one statement, so that a store that is just being created is there as a whole or not at all.
-- name: identity
SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_application_id, pragma_user_version

-- name: version
PRAGMA user_version

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

-- The log grows while a long read is open, and shrinks afterwards.
-- name: log_size
PRAGMA journal_size_limit = 67108864

-- name: begin_write
BEGIN IMMEDIATE

-- name: begin_read
BEGIN DEFERRED

-- name: counted
SELECT commits, newest FROM numbers

-- name: count_commit
UPDATE numbers SET newest = ?, commits = ?, checksum = ?

-- name: check_pages
PRAGMA integrity_check

-- name: schema
SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master ORDER BY type, name

-- name: rebuild_indexes
REINDEX
