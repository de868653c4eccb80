-- The tables `evolution` (one row: a migration that was begun) and `restated` (migrated messages) keep the names under
-- which stores on disk have them.

-- name: complete_indexes
SELECT name FROM complete_indexes

-- name: migration
SELECT digest, snapshot, done, number, priorities FROM evolution

-- One step of the index for each name, however many members there are.
-- name: former_slicings
WITH RECURSIVE names (name) AS (
    SELECT min(slicing) FROM slice_members
    UNION ALL
    SELECT (SELECT min(slicing) FROM slice_members WHERE slicing > name) FROM names WHERE name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL

-- name: delete_migration
DELETE FROM evolution

-- name: insert_migration
INSERT INTO evolution (digest, snapshot, done) VALUES (?, ?, ?)

-- name: set_migration_done
UPDATE evolution SET done = ?

-- name: decide_migration
UPDATE evolution SET number = ?, priorities = ?

-- Without a condition SQLite drops the pages instead of visiting the rows.
-- name: clear_migrated
DELETE FROM restated

-- name: next_migrated
SELECT r.seq, r.properties, r.slices, r.entries, r.discarded,
       m.queue, m.processed, m.undelivered, m.slices, m.entries, m.retired,
       CASE WHEN r.properties IS NOT NULL THEN b.body END
FROM restated AS r LEFT JOIN messages AS m ON m.seq = r.seq LEFT JOIN bodies AS b ON b.seq = r.seq
ORDER BY r.seq LIMIT ?

-- name: delete_complete_indexes
DELETE FROM complete_indexes
