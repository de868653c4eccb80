-- A statement for many rows takes each parameter as an array with one element for each row: one round trip for all of
-- them. Where bulk.sql has a COPY of the same name, many rows are sent by that instead.

-- The state of messages that steps change, and whether they are in the outbox.
-- name: states
SELECT m.seq, m.queue, m.processed, m.undelivered, m.request, m.slices, m.entries, o.seq IS NOT NULL
FROM messages AS m LEFT JOIN outbox AS o ON o.seq = m.seq
WHERE m.seq = ANY (ARRAY(SELECT json_array_elements_text(?::json)::bigint))

-- name: states_in_slice
SELECT m.seq, m.queue, m.processed, m.undelivered, m.request, m.slices, m.entries, o.seq IS NOT NULL
FROM (VALUES (?, ?)) AS n (slicing, key)
JOIN slice_members AS s ON s.slicing = n.slicing AND s.ended = 0 AND left(s.key, 200) = left(n.key, 200) AND s.key = n.key
JOIN messages AS m ON m.seq = s.seq
LEFT JOIN outbox AS o ON o.seq = m.seq
ORDER BY m.seq

-- name: with_property
SELECT seq FROM bodies WHERE seq = ANY (ARRAY(SELECT json_array_elements_text(?::json)::bigint)) AND properties LIKE ?

-- name: known_request
SELECT r.seq FROM (VALUES (?)) AS n (request)
JOIN requests AS r ON left(r.request, 200) = left(n.request, 200) AND r.request = n.request

-- All requests of one name, with any digest.
-- name: known_requests
SELECT request, seq FROM requests
WHERE left(request, 200) >= left(:after, 200) AND left(request, 200) <= left(:end, 200)
  AND request >= :after AND request < :end

-- name: insert_message
INSERT INTO messages (seq, queue, created, rule, caused_by, origin, hops, priority, processed, retired, retired_at,
                      transient, undelivered, timer_due, timer_target, request, slices, entries, checksum)
SELECT * FROM unnest(?::bigint[], ?::text[], ?::bigint[], ?::text[], ?::bigint[], ?::bigint[], ?::bigint[],
                     ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::smallint[], ?::smallint[],
                     ?::bigint[], ?::text[], ?::text[], ?::text[], ?::text[], ?::bigint[])

-- One that waits, in no slice, index or outbox.
-- name: insert_fresh_message
INSERT INTO messages (queue, created, rule, hops, priority, transient, undelivered, request, caused_by, origin, seq, checksum)
SELECT * FROM unnest(?::text[], ?::bigint[], ?::text[], ?::bigint[], ?::bigint[], ?::smallint[], ?::smallint[],
                     ?::text[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[])

-- name: insert_body
INSERT INTO bodies (seq, body, properties, checksum)
SELECT * FROM unnest(?::bigint[], ?::text[], ?::text[], ?::bigint[])

-- name: insert_member
INSERT INTO slice_members (slicing, key, ended, seq)
SELECT * FROM unnest(?::text[], ?::text[], ?::bigint[], ?::bigint[])

-- name: insert_entry
INSERT INTO index_entries (name, value, retired, seq)
SELECT * FROM unnest(?::text[], ?::text[], ?::bigint[], ?::bigint[])

-- name: insert_request
INSERT INTO requests (request, seq, checksum) SELECT * FROM unnest(?::text[], ?::bigint[], ?::bigint[])

-- name: end_slice
UPDATE slice_members AS s SET ended = n.ended
FROM unnest(?::bigint[], ?::text[], ?::text[]) AS n (ended, slicing, key)
WHERE s.slicing = n.slicing AND s.ended = 0 AND left(s.key, 200) = left(n.key, 200) AND s.key = n.key

-- name: set_processed
UPDATE messages AS m SET processed = n.processed, checksum = m.checksum + n.checksum
FROM unnest(?::bigint[], ?::bigint[], ?::bigint[]) AS n (processed, checksum, seq) WHERE m.seq = n.seq

-- name: set_slices
UPDATE messages AS m SET slices = n.slices, checksum = m.checksum + n.checksum
FROM unnest(?::text[], ?::bigint[], ?::bigint[]) AS n (slices, checksum, seq) WHERE m.seq = n.seq

-- name: set_delivered
UPDATE messages AS m SET undelivered = 0, checksum = m.checksum + n.checksum
FROM unnest(?::bigint[], ?::bigint[]) AS n (checksum, seq) WHERE m.seq = n.seq

-- name: set_retired
UPDATE messages AS m
SET processed = n.processed, retired = n.retired, retired_at = n.retired_at, slices = n.slices, undelivered = 0,
    checksum = m.checksum + n.checksum
FROM unnest(?::bigint[], ?::bigint[], ?::bigint[], ?::text[], ?::bigint[], ?::bigint[])
     AS n (processed, retired, retired_at, slices, checksum, seq)
WHERE m.seq = n.seq

-- name: retire_entry
UPDATE index_entries AS e SET retired = n.retired
FROM unnest(?::bigint[], ?::text[], ?::text[], ?::bigint[]) AS n (retired, name, value, seq)
WHERE e.name = n.name AND e.retired = 0 AND left(e.value, 200) = left(n.value, 200) AND e.value = n.value
  AND e.seq = n.seq

-- name: count
INSERT INTO queue_counts AS c (queue, visible, unprocessed)
SELECT n.queue, sum(n.visible), sum(n.unprocessed)
FROM unnest(?::text[], ?::bigint[], ?::bigint[]) AS n (queue, visible, unprocessed) GROUP BY n.queue
ON CONFLICT (queue) DO UPDATE
SET visible = c.visible + excluded.visible, unprocessed = c.unprocessed + excluded.unprocessed

-- name: insert_collection_document
INSERT INTO collection_documents (name, position, body, checksum)
SELECT * FROM unnest(?::text[], ?::bigint[], ?::text[], ?::bigint[])

-- name: delete_message
DELETE FROM messages WHERE seq = ANY (?::bigint[])

-- name: delete_body
DELETE FROM bodies WHERE seq = ANY (?::bigint[])

-- name: delete_member
DELETE FROM slice_members AS s
USING unnest(?::text[], ?::text[], ?::bigint[], ?::bigint[]) AS n (slicing, key, ended, seq)
WHERE s.slicing = n.slicing AND s.ended = n.ended AND left(s.key, 200) = left(n.key, 200) AND s.key = n.key
  AND s.seq = n.seq

-- name: delete_entry
DELETE FROM index_entries AS e
USING unnest(?::text[], ?::text[], ?::bigint[], ?::bigint[]) AS n (name, value, retired, seq)
WHERE e.name = n.name AND e.retired = n.retired AND left(e.value, 200) = left(n.value, 200) AND e.value = n.value
  AND e.seq = n.seq

-- name: mark_request_removed
UPDATE requests AS r SET removed = n.removed, checksum = r.checksum + n.removed - coalesce(r.removed, 0)
FROM unnest(?::bigint[], ?::text[]) AS n (removed, request)
WHERE left(r.request, 200) = left(n.request, 200) AND r.request = n.request

-- name: delete_request
DELETE FROM requests AS r USING unnest(?::text[]) AS n (request)
WHERE left(r.request, 200) = left(n.request, 200) AND r.request = n.request
