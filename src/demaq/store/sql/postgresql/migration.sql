-- Statements for many rows take each parameter as an array, as in commit.sql.

-- One step of the index for each name, however many members there are.
-- name: slicings
WITH RECURSIVE names (name) AS (
    SELECT min(slicing) FROM slice_members
    UNION ALL
    SELECT (SELECT min(slicing) FROM slice_members WHERE slicing > name) FROM names WHERE name IS NOT NULL
)
SELECT name FROM names
WHERE name IS NOT NULL AND (SELECT true FROM slice_members WHERE slicing = name AND ended = 0 LIMIT 1)

-- name: next_properties
SELECT b.seq, coalesce(r.properties, b.properties) FROM bodies AS b LEFT JOIN restated AS r ON r.seq = b.seq
WHERE b.seq = ANY (ARRAY(SELECT json_array_elements_text(?::json)::bigint))

-- The last of several for one message holds.
-- name: insert_migrated
INSERT INTO restated (seq, properties, slices, entries, discarded, checksum)
SELECT DISTINCT ON (n.seq) n.seq, n.properties, n.slices, n.entries, n.discarded, n.checksum
FROM unnest(?::bigint[], ?::text[], ?::text[], ?::text[], ?::smallint[], ?::bigint[]) WITH ORDINALITY
     AS n (seq, properties, slices, entries, discarded, checksum, place)
ORDER BY n.seq, n.place DESC
ON CONFLICT (seq) DO UPDATE SET properties = excluded.properties, slices = excluded.slices, entries = excluded.entries,
                                discarded = excluded.discarded, checksum = excluded.checksum

-- name: delete_migrated
DELETE FROM restated WHERE seq = ANY (?::bigint[])

-- name: insert_complete_index
INSERT INTO complete_indexes (name, checksum) SELECT * FROM unnest(?::text[], ?::bigint[])

-- name: set_properties
UPDATE bodies AS b SET properties = n.properties, checksum = n.checksum
FROM unnest(?::text[], ?::bigint[], ?::bigint[]) AS n (properties, checksum, seq) WHERE b.seq = n.seq

-- name: set_entries
UPDATE messages AS m SET entries = n.entries
FROM unnest(?::text[], ?::bigint[]) AS n (entries, seq) WHERE m.seq = n.seq

-- name: end_member
UPDATE slice_members AS s SET ended = n.ended
FROM unnest(?::bigint[], ?::text[], ?::text[], ?::bigint[]) AS n (ended, slicing, key, seq)
WHERE s.slicing = n.slicing AND s.ended = 0 AND left(s.key, 200) = left(n.key, 200) AND s.key = n.key AND s.seq = n.seq

-- name: add_checksum
UPDATE messages AS m SET checksum = m.checksum + n.checksum
FROM unnest(?::bigint[], ?::bigint[]) AS n (checksum, seq) WHERE m.seq = n.seq

-- name: other_priorities
SELECT seq, priority FROM messages
WHERE queue = :queue AND retired IS NULL AND processed IS NULL AND priority IS DISTINCT FROM :priority::bigint
LIMIT :limit

-- name: set_priority
UPDATE messages AS m SET priority = n.priority, checksum = m.checksum + n.checksum
FROM unnest(?::bigint[], ?::bigint[], ?::bigint[]) AS n (priority, checksum, seq) WHERE m.seq = n.seq
