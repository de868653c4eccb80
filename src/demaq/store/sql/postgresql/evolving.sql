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
INSERT INTO restated (seq, properties, slices, entries, discarded)
SELECT DISTINCT ON (n.seq) n.seq, n.properties, n.slices, n.entries, n.discarded
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::smallint[]) WITH ORDINALITY
     AS n (seq, properties, slices, entries, discarded, place)
ORDER BY n.seq, n.place DESC
ON CONFLICT (seq) DO UPDATE SET properties = excluded.properties, slices = excluded.slices, entries = excluded.entries,
                                discarded = excluded.discarded

-- name: next_restated
SELECT r.seq, r.properties, r.slices, r.entries, r.discarded,
       m.queue, m.processed, m.undelivered, m.slices, m.entries, m.retired
FROM restated AS r LEFT JOIN messages AS m ON m.seq = r.seq ORDER BY r.seq LIMIT %s

-- name: delete_restated
DELETE FROM restated WHERE seq = ANY (%s::bigint[])

-- name: delete_complete_indexes
DELETE FROM complete_indexes

-- name: insert_complete_index
INSERT INTO complete_indexes (name) SELECT unnest(%s::text[])

-- name: set_properties
UPDATE bodies AS b SET properties = n.properties
FROM unnest(%s::text[], %s::bigint[]) AS n (properties, seq) WHERE b.seq = n.seq

-- name: set_entries
UPDATE messages AS m SET entries = n.entries
FROM unnest(%s::text[], %s::bigint[]) AS n (entries, seq) WHERE m.seq = n.seq

-- name: end_member
UPDATE slice_members AS s SET ended = n.ended
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::bigint[]) AS n (ended, slicing, key, seq)
WHERE s.slicing = n.slicing AND s.ended = 0 AND left(s.key, 200) = left(n.key, 200) AND s.key = n.key AND s.seq = n.seq

-- name: set_priority
UPDATE messages SET priority = %(priority)s
WHERE queue = %(queue)s AND retired IS NULL AND processed IS NULL AND priority IS DISTINCT FROM %(priority)s::bigint
