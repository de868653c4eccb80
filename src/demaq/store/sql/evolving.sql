-- One step of the index for each name, however many members there are.
-- name: slicings
WITH RECURSIVE names (name) AS (
    SELECT min(slicing) FROM slice_members
    UNION ALL
    SELECT (SELECT min(slicing) FROM slice_members WHERE slicing > name) FROM names WHERE name IS NOT NULL
)
SELECT name FROM names
WHERE name IS NOT NULL AND EXISTS (SELECT 1 FROM slice_members WHERE slicing = name AND ended = 0)

-- name: complete_indexes
SELECT name FROM complete_indexes

-- name: next_properties
SELECT b.seq, coalesce(r.properties, b.properties) FROM bodies AS b LEFT JOIN restated AS r ON r.seq = b.seq
WHERE b.seq IN (SELECT value FROM json_each(?))

-- name: evolution
SELECT digest, snapshot, done, number, priorities FROM evolution

-- name: delete_evolution
DELETE FROM evolution

-- name: insert_evolution
INSERT INTO evolution (digest, snapshot, done) VALUES (?, ?, ?)

-- name: set_evolution_done
UPDATE evolution SET done = ?

-- name: decide_evolution
UPDATE evolution SET number = ?, priorities = ?

-- Without a condition SQLite drops the pages instead of visiting the rows.
-- name: forget_restated
DELETE FROM restated

-- name: insert_restated
INSERT OR REPLACE INTO restated (seq, properties, slices, entries, discarded, checksum) VALUES (?, ?, ?, ?, ?, ?)

-- name: next_restated
SELECT r.seq, r.properties, r.slices, r.entries, r.discarded,
       m.queue, m.processed, m.undelivered, m.slices, m.entries, m.retired,
       CASE WHEN r.properties IS NOT NULL THEN b.body END
FROM restated AS r LEFT JOIN messages AS m ON m.seq = r.seq LEFT JOIN bodies AS b ON b.seq = r.seq
ORDER BY r.seq LIMIT ?

-- name: delete_restated
DELETE FROM restated WHERE seq = ?

-- name: delete_complete_indexes
DELETE FROM complete_indexes

-- name: insert_complete_index
INSERT INTO complete_indexes (name, checksum) VALUES (?, ?)

-- name: set_properties
UPDATE bodies SET properties = ?, checksum = ? WHERE seq = ?

-- name: set_entries
UPDATE messages SET entries = ? WHERE seq = ?

-- name: end_member
UPDATE slice_members SET ended = ? WHERE slicing = ? AND ended = 0 AND key = ? AND seq = ?

-- name: add_checksum
UPDATE messages SET checksum = checksum + ? WHERE seq = ?

-- name: other_priorities
SELECT seq, priority FROM messages
WHERE queue = :queue AND retired IS NULL AND processed IS NULL AND priority IS NOT :priority
LIMIT :limit

-- name: set_priority
UPDATE messages SET priority = ?, checksum = checksum + ? WHERE seq = ?
