-- One step of the index for each name, however many members there are.
-- name: slicings
WITH RECURSIVE names (name) AS (
    SELECT min(slicing) FROM slice_members
    UNION ALL
    SELECT (SELECT min(slicing) FROM slice_members WHERE slicing > name) FROM names WHERE name IS NOT NULL
)
SELECT name FROM names
WHERE name IS NOT NULL AND EXISTS (SELECT 1 FROM slice_members WHERE slicing = name AND ended = 0)

-- name: next_properties
SELECT b.seq, coalesce(r.properties, b.properties) FROM bodies AS b LEFT JOIN restated AS r ON r.seq = b.seq
WHERE b.seq IN (SELECT value FROM json_each(?))

-- name: insert_migrated
INSERT OR REPLACE INTO restated (seq, properties, slices, entries, discarded, checksum) VALUES (?, ?, ?, ?, ?, ?)

-- name: delete_migrated
DELETE FROM restated WHERE seq = ?

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
