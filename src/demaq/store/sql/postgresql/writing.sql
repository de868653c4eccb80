-- A statement that is run for many rows takes each parameter as an array, with a place for each row: one journey to the
-- server for all of them. Where there is one of the same name with `_in_bulk`, many rows travel by COPY instead.

-- What a step needs to know of a message.
-- name: states
SELECT seq, queue, processed, undelivered, request, slices, entries FROM messages
WHERE seq = ANY (ARRAY(SELECT json_array_elements_text(%s::json)::bigint))

-- name: states_in_slice
SELECT m.seq, m.queue, m.processed, m.undelivered, m.request, m.slices, m.entries
FROM (VALUES (%s, %s)) AS n (slicing, key)
JOIN slice_members AS s ON s.slicing = n.slicing AND s.ended = 0 AND left(s.key, 200) = left(n.key, 200) AND s.key = n.key
JOIN messages AS m ON m.seq = s.seq
ORDER BY m.seq

-- name: known_request
SELECT r.seq FROM (VALUES (%s)) AS n (request)
JOIN requests AS r ON left(r.request, 200) = left(n.request, 200) AND r.request = n.request

-- Those of one name, with whatever digest.
-- name: known_requests
SELECT request, seq FROM requests
WHERE left(request, 200) >= left(%(after)s, 200) AND left(request, 200) <= left(%(end)s, 200)
  AND request >= %(after)s AND request < %(end)s

-- name: insert_message
INSERT INTO messages (seq, queue, created, rule, caused_by, origin, hops, priority, processed, retired, retired_at,
                      transient, undelivered, timer_due, timer_target, request, slices, entries, checksum)
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[],
                     %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::smallint[], %s::smallint[],
                     %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[])

-- name: insert_message_in_bulk
COPY messages (seq, queue, created, rule, caused_by, origin, hops, priority, processed, retired, retired_at,
               transient, undelivered, timer_due, timer_target, request, slices, entries, checksum) FROM STDIN

-- name: insert_body
INSERT INTO bodies (seq, body, properties, checksum)
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::bigint[])

-- name: insert_body_in_bulk
COPY bodies (seq, body, properties, checksum) FROM STDIN

-- name: insert_member
INSERT INTO slice_members (slicing, key, ended, seq)
SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[])

-- name: insert_member_in_bulk
COPY slice_members (slicing, key, ended, seq) FROM STDIN

-- name: insert_entry
INSERT INTO index_entries (name, value, retired, seq)
SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[])

-- name: insert_entry_in_bulk
COPY index_entries (name, value, retired, seq) FROM STDIN

-- name: insert_request
INSERT INTO requests (request, seq, checksum) SELECT * FROM unnest(%s::text[], %s::bigint[], %s::bigint[])

-- name: end_slice
UPDATE slice_members AS s SET ended = n.ended
FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS n (ended, slicing, key)
WHERE s.slicing = n.slicing AND s.ended = 0 AND left(s.key, 200) = left(n.key, 200) AND s.key = n.key

-- name: set_processed
UPDATE messages AS m SET processed = n.processed, checksum = m.checksum + n.checksum
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS n (processed, checksum, seq) WHERE m.seq = n.seq

-- name: set_slices
UPDATE messages AS m SET slices = n.slices, checksum = m.checksum + n.checksum
FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS n (slices, checksum, seq) WHERE m.seq = n.seq

-- name: set_delivered
UPDATE messages AS m SET undelivered = 0, checksum = m.checksum + n.checksum
FROM unnest(%s::bigint[], %s::bigint[]) AS n (checksum, seq) WHERE m.seq = n.seq

-- name: set_retired
UPDATE messages AS m
SET processed = n.processed, retired = n.retired, retired_at = n.retired_at, slices = n.slices, undelivered = 0,
    checksum = m.checksum + n.checksum
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[])
     AS n (processed, retired, retired_at, slices, checksum, seq)
WHERE m.seq = n.seq

-- name: retire_entry
UPDATE index_entries AS e SET retired = n.retired
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::bigint[]) AS n (retired, name, value, seq)
WHERE e.name = n.name AND e.retired = 0 AND left(e.value, 200) = left(n.value, 200) AND e.value = n.value
  AND e.seq = n.seq

-- name: count
INSERT INTO queue_counts AS c (queue, visible, unprocessed)
SELECT n.queue, sum(n.visible), sum(n.unprocessed)
FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS n (queue, visible, unprocessed) GROUP BY n.queue
ON CONFLICT (queue) DO UPDATE
SET visible = c.visible + excluded.visible, unprocessed = c.unprocessed + excluded.unprocessed

-- name: set_newest_number
UPDATE numbers SET newest = %s

-- name: set_collection
INSERT INTO collections (name, version, checksum) VALUES (%s, %s, %s)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, checksum = excluded.checksum

-- name: delete_collection_documents
DELETE FROM collection_documents WHERE name = %s

-- name: insert_collection_document
INSERT INTO collection_documents (name, position, body, checksum)
SELECT * FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::bigint[])

-- name: insert_collection_document_in_bulk
COPY collection_documents (name, position, body, checksum) FROM STDIN

-- name: insert_program
INSERT INTO programs (number, digest, files, at, checksum) VALUES (%s, %s, %s, %s, %s)

-- name: garbage
SELECT seq, queue, processed, retired, request, slices, entries FROM messages
WHERE retired_at IS NOT NULL AND retired_at < %s
  AND NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.seq = messages.seq)
ORDER BY retired_at, seq LIMIT %s

-- name: transient_messages
SELECT seq, queue, processed, retired, request, slices, entries FROM messages WHERE transient = 1 ORDER BY seq LIMIT %s

-- name: delete_message
DELETE FROM messages WHERE seq = ANY (%s::bigint[])

-- name: delete_body
DELETE FROM bodies WHERE seq = ANY (%s::bigint[])

-- name: delete_member
DELETE FROM slice_members AS s
USING unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[]) AS n (slicing, key, ended, seq)
WHERE s.slicing = n.slicing AND s.ended = n.ended AND left(s.key, 200) = left(n.key, 200) AND s.key = n.key
  AND s.seq = n.seq

-- name: delete_entry
DELETE FROM index_entries AS e
USING unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[]) AS n (name, value, retired, seq)
WHERE e.name = n.name AND e.retired = n.retired AND left(e.value, 200) = left(n.value, 200) AND e.value = n.value
  AND e.seq = n.seq

-- name: mark_request_removed
UPDATE requests AS r SET removed = n.removed, checksum = r.checksum + n.removed - coalesce(r.removed, 0)
FROM unnest(%s::bigint[], %s::text[]) AS n (removed, request)
WHERE left(r.request, 200) = left(n.request, 200) AND r.request = n.request

-- name: delete_request
DELETE FROM requests AS r USING unnest(%s::text[]) AS n (request)
WHERE left(r.request, 200) = left(n.request, 200) AND r.request = n.request

-- name: forget_requests
DELETE FROM requests WHERE removed IS NOT NULL AND removed < %s
