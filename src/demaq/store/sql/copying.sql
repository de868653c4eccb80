-- name: columns
SELECT t.name, c.name FROM sqlite_master AS t, pragma_table_info(t.name) AS c
WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' ORDER BY t.name, c.cid

-- Only a new file takes the page size; the first table fixes it.
-- name: page_size
PRAGMA page_size = 4096

-- A file that is removed unless all of it was written and synced needs no journal.
-- name: no_journal
PRAGMA journal_mode = OFF

-- name: no_sync
PRAGMA synchronous = OFF

-- The pages of a store say that it has a log beside it. A backup is one file, also for who may only read it.
-- name: without_log
PRAGMA journal_mode = DELETE

-- name: begin
BEGIN

-- name: commit
COMMIT

-- name: newest
SELECT newest FROM numbers

-- name: set_commits
UPDATE numbers SET commits = ?, checksum = ?
