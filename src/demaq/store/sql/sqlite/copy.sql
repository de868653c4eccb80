-- name: columns
SELECT t.name, c.name FROM sqlite_master AS t, pragma_table_info(t.name) AS c
WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' ORDER BY t.name, c.cid

-- A file that is removed unless all of it was written and synced needs no journal.
-- name: no_journal
PRAGMA journal_mode = OFF

-- name: no_sync
PRAGMA synchronous = OFF

-- The pages of a store say that it has a write-ahead log. A backup is a single file, which may be read-only.
-- name: without_log
PRAGMA journal_mode = DELETE
