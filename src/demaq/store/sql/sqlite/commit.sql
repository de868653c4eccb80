-- A statement with its parameters after VALUES is run for many rows at once: see `Database.execute_many`.

-- The state of messages that steps change, and whether they are in the outbox.
-- name: states
SELECT seq, queue, processed, undelivered, request, slices, entries,
       EXISTS (SELECT 1 FROM outbox WHERE outbox.seq = messages.seq)
FROM messages
WHERE seq IN (SELECT value FROM json_each(?))

-- name: states_in_slice
SELECT m.seq, m.queue, m.processed, m.undelivered, m.request, m.slices, m.entries,
       EXISTS (SELECT 1 FROM outbox WHERE outbox.seq = m.seq)
FROM slice_members AS s JOIN messages AS m ON m.seq = s.seq
WHERE s.slicing = ? AND s.ended = 0 AND s.key = ?
ORDER BY m.seq

-- name: with_property
SELECT seq FROM bodies WHERE seq IN (SELECT value FROM json_each(?)) AND properties LIKE ?

-- name: known_request
SELECT seq FROM requests WHERE request = ?

-- All requests of one name, with any digest.
-- name: known_requests
SELECT request, seq FROM requests WHERE request >= :after AND request < :end

-- name: insert_message
INSERT INTO messages (seq, queue, created, rule, caused_by, origin, hops, priority, processed, retired, retired_at,
                      transient, undelivered, timer_due, timer_target, request, slices, entries, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- One that waits, in no slice, index or outbox. What many of them share comes first: each parameter takes time.
-- name: insert_fresh_message
INSERT INTO messages (queue, created, rule, hops, priority, transient, undelivered, request, caused_by, origin, seq, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_body
INSERT INTO bodies (seq, body, properties, checksum) VALUES (?, ?, ?, ?)

-- name: insert_member
INSERT INTO slice_members (slicing, key, ended, seq) VALUES (?, ?, ?, ?)

-- name: insert_entry
INSERT INTO index_entries (name, value, retired, seq) VALUES (?, ?, ?, ?)

-- name: insert_request
INSERT INTO requests (request, seq, checksum) VALUES (?, ?, ?)

-- name: end_slice
UPDATE slice_members SET ended = ? WHERE slicing = ? AND ended = 0 AND key = ?

-- Several narrow statements: each updates only the indexes of the columns it sets. `checksum` is a difference to be added.
-- name: set_processed
WITH rows (processed, checksum, seq) AS (VALUES (?, ?, ?))
UPDATE messages SET processed = rows.processed, checksum = messages.checksum + rows.checksum FROM rows WHERE messages.seq = rows.seq

-- name: set_slices
WITH rows (slices, checksum, seq) AS (VALUES (?, ?, ?))
UPDATE messages SET slices = rows.slices, checksum = messages.checksum + rows.checksum FROM rows WHERE messages.seq = rows.seq

-- name: set_delivered
WITH rows (checksum, seq) AS (VALUES (?, ?))
UPDATE messages SET undelivered = 0, checksum = messages.checksum + rows.checksum FROM rows
WHERE messages.seq = rows.seq

-- name: set_retired
WITH rows (processed, retired, retired_at, slices, checksum, seq) AS (VALUES (?, ?, ?, ?, ?, ?))
UPDATE messages
SET processed = rows.processed, retired = rows.retired, retired_at = rows.retired_at, slices = rows.slices,
    undelivered = 0, checksum = messages.checksum + rows.checksum
FROM rows WHERE messages.seq = rows.seq

-- name: retire_entry
WITH rows (retired, name, value, seq) AS (VALUES (?, ?, ?, ?))
UPDATE index_entries SET retired = rows.retired FROM rows
WHERE index_entries.name = rows.name AND index_entries.retired = 0 AND index_entries.value = rows.value
  AND index_entries.seq = rows.seq

-- name: count
INSERT INTO queue_counts (queue, visible, unprocessed) VALUES (?, ?, ?)
ON CONFLICT (queue) DO UPDATE SET visible = visible + excluded.visible, unprocessed = unprocessed + excluded.unprocessed

-- name: insert_collection_document
INSERT INTO collection_documents (name, position, body, checksum) VALUES (?, ?, ?, ?)

-- name: delete_message
DELETE FROM messages WHERE seq IN (VALUES (?))

-- name: delete_body
DELETE FROM bodies WHERE seq IN (VALUES (?))

-- name: delete_member
DELETE FROM slice_members WHERE slicing = ? AND key = ? AND ended = ? AND seq = ?

-- name: delete_entry
DELETE FROM index_entries WHERE name = ? AND value = ? AND retired = ? AND seq = ?

-- name: mark_request_removed
WITH rows (removed, request) AS (VALUES (?, ?))
UPDATE requests SET removed = rows.removed, checksum = requests.checksum + rows.removed - coalesce(requests.removed, 0)
FROM rows WHERE requests.request = rows.request

-- name: delete_request
DELETE FROM requests WHERE request = ?
