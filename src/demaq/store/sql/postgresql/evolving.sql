-- Statements for many rows take each parameter as an array, as in writing.sql.

-- One step of the index for each name, however many members there are.
-- name: slicings
WITH RECURSIVE names (name) AS (
    SELECT min(slicing) FROM slice_members
    UNION ALL
    SELECT (SELECT min(slicing) FROM slice_members WHERE slicing > name) FROM names WHERE name IS NOT NULL
)
SELECT name FROM names
WHERE name IS NOT NULL AND (SELECT true FROM slice_members WHERE slicing = name AND ended = 0 LIMIT 1)

-- name: complete_indexes
SELECT name FROM complete_indexes

-- name: next_properties
SELECT b.seq, coalesce(r.properties, b.properties) FROM bodies AS b LEFT JOIN restated AS r ON r.seq = b.seq
WHERE b.seq = ANY (ARRAY(SELECT json_array_elements_text(%s::json)::bigint))

-- name: evolution
SELECT digest, snapshot, done, number, priorities FROM evolution

-- name: delete_evolution
DELETE FROM evolution

-- name: insert_evolution
INSERT INTO evolution (digest, snapshot, done) VALUES (%s, %s, %s)

-- name: set_evolution_done
UPDATE evolution SET done = %s

-- name: decide_evolution
UPDATE evolution SET number = %s, priorities = %s

-- name: forget_restated
DELETE FROM restated

-- The last of several for one message holds.
-- name: insert_restated
INSERT INTO restated (seq, properties, slices, entries, discarded, checksum)
SELECT DISTINCT ON (n.seq) n.seq, n.properties, n.slices, n.entries, n.discarded, n.checksum
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::smallint[], %s::bigint[]) WITH ORDINALITY
     AS n (seq, properties, slices, entries, discarded, checksum, place)
ORDER BY n.seq, n.place DESC
ON CONFLICT (seq) DO UPDATE SET properties = excluded.properties, slices = excluded.slices, entries = excluded.entries,
                                discarded = excluded.discarded, checksum = excluded.checksum

-- name: next_restated
SELECT r.seq, r.properties, r.slices, r.entries, r.discarded,
       m.queue, m.processed, m.undelivered, m.slices, m.entries, m.retired,
       CASE WHEN r.properties IS NOT NULL THEN b.body END
FROM restated AS r LEFT JOIN messages AS m ON m.seq = r.seq LEFT JOIN bodies AS b ON b.seq = r.seq
ORDER BY r.seq LIMIT %s

-- name: delete_restated
DELETE FROM restated WHERE seq = ANY (%s::bigint[])

-- name: delete_complete_indexes
DELETE FROM complete_indexes

-- name: insert_complete_index
INSERT INTO complete_indexes (name, checksum) SELECT * FROM unnest(%s::text[], %s::bigint[])

-- name: set_properties
UPDATE bodies AS b SET properties = n.properties, checksum = n.checksum
FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS n (properties, checksum, seq) WHERE b.seq = n.seq

-- name: set_entries
UPDATE messages AS m SET entries = n.entries
FROM unnest(%s::text[], %s::bigint[]) AS n (entries, seq) WHERE m.seq = n.seq

-- name: end_member
UPDATE slice_members AS s SET ended = n.ended
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::bigint[]) AS n (ended, slicing, key, seq)
WHERE s.slicing = n.slicing AND s.ended = 0 AND left(s.key, 200) = left(n.key, 200) AND s.key = n.key AND s.seq = n.seq

-- name: add_checksum
UPDATE messages AS m SET checksum = m.checksum + n.checksum
FROM unnest(%s::bigint[], %s::bigint[]) AS n (checksum, seq) WHERE m.seq = n.seq

-- name: other_priorities
SELECT seq, priority FROM messages
WHERE queue = %(queue)s AND retired IS NULL AND processed IS NULL AND priority IS DISTINCT FROM %(priority)s::bigint
LIMIT %(limit)s

-- name: set_priority
UPDATE messages AS m SET priority = n.priority, checksum = m.checksum + n.checksum
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS n (priority, checksum, seq) WHERE m.seq = n.seq
