-- name: newest_number
SELECT newest FROM numbers

-- An empty collection has a version too: one row without a body.
-- name: collection
SELECT c.version, d.body FROM collections AS c LEFT JOIN collection_documents AS d ON d.name = c.name
WHERE c.name = ? ORDER BY d.position

-- name: pending
SELECT * FROM stored_messages WHERE processed IS NULL AND priority IS NOT NULL ORDER BY priority DESC, seq LIMIT :limit

-- name: waiting
SELECT * FROM stored_messages WHERE queue = :queue AND processed IS NULL AND priority IS NULL ORDER BY seq LIMIT :limit

-- The first ones of a priority, from the index of what is pending: how long each queue has waited.
-- name: pending_times
SELECT queue, created FROM messages WHERE processed IS NULL AND priority = :priority ORDER BY seq LIMIT :limit

-- name: waiting_time
SELECT created FROM messages WHERE queue = :queue AND processed IS NULL AND priority IS NULL ORDER BY seq LIMIT 1

-- name: due_timers
SELECT * FROM stored_messages WHERE processed IS NULL AND timer_due <= :now ORDER BY timer_due, seq LIMIT :limit

-- name: next_due
SELECT min(timer_due) FROM messages WHERE processed IS NULL AND timer_due IS NOT NULL

-- name: message
SELECT * FROM stored_messages WHERE seq = ?

-- name: caused_by
SELECT seq FROM messages WHERE caused_by = ? ORDER BY seq

-- name: conversation
SELECT seq, caused_by FROM (
    SELECT seq, caused_by, origin FROM messages WHERE seq >= :seq ORDER BY seq LIMIT :limit
) AS following WHERE origin = :seq ORDER BY seq

-- name: request_of_message
SELECT request FROM messages WHERE seq = ?

-- Of a message that is not stored any more. Not by an index: only commands for operators ask for it.
-- name: request_of_removed
SELECT request FROM requests WHERE seq = ?

-- name: stored
SELECT * FROM stored_messages WHERE seq > :after ORDER BY seq LIMIT :limit

-- name: visible
SELECT * FROM stored_messages WHERE queue = :queue AND retired IS NULL AND seq > :after ORDER BY seq LIMIT :limit

-- name: first_timers
SELECT * FROM stored_messages WHERE processed IS NULL AND timer_due IS NOT NULL ORDER BY timer_due, seq LIMIT :limit

-- name: collections
SELECT c.name, c.version, count(d.name) FROM collections AS c LEFT JOIN collection_documents AS d ON d.name = c.name
GROUP BY c.name ORDER BY c.name

-- name: counts
SELECT queue, visible, unprocessed FROM queue_counts WHERE visible > 0 ORDER BY queue

-- Only so many memberships are looked at: operators wait for it.
-- name: largest_slices
SELECT key, count(*), min(seq) FROM (
    SELECT key, seq FROM slice_members WHERE slicing = :slicing AND ended = 0 LIMIT :rows
) AS members
GROUP BY key ORDER BY count(*) DESC, min(seq) LIMIT :limit

-- name: oldest_slices
SELECT key, count(*), min(seq) FROM (
    SELECT key, seq FROM slice_members WHERE slicing = :slicing AND ended = 0 LIMIT :rows
) AS members
GROUP BY key ORDER BY min(seq), key LIMIT :limit

-- name: ended_members
SELECT seq, ended FROM (
    SELECT key, seq, ended FROM slice_members WHERE slicing = :slicing AND ended > 0 ORDER BY ended DESC LIMIT :rows
) AS members
WHERE key = :key ORDER BY seq

-- name: newest_program
SELECT number, digest, files FROM programs ORDER BY number DESC LIMIT 1
