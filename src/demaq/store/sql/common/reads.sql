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

-- name: due_timers
SELECT * FROM stored_messages WHERE processed IS NULL AND timer_due <= :now ORDER BY timer_due, seq LIMIT :limit

-- name: next_due
SELECT min(timer_due) FROM messages WHERE processed IS NULL AND timer_due IS NOT NULL

-- name: message
SELECT * FROM stored_messages WHERE seq = ?

-- name: caused_by
SELECT seq FROM messages WHERE caused_by = ? ORDER BY seq

-- name: stored
SELECT * FROM stored_messages WHERE seq > :after ORDER BY seq LIMIT :limit

-- name: stored_in_queue
SELECT * FROM stored_messages WHERE queue = :queue AND seq > :after ORDER BY seq LIMIT :limit

-- name: visible
SELECT * FROM stored_messages WHERE queue = :queue AND retired IS NULL AND seq > :after ORDER BY seq LIMIT :limit

-- name: first_timers
SELECT * FROM stored_messages WHERE processed IS NULL AND timer_due IS NOT NULL ORDER BY timer_due, seq LIMIT :limit

-- name: collections
SELECT c.name, c.version, count(d.name) FROM collections AS c LEFT JOIN collection_documents AS d ON d.name = c.name
GROUP BY c.name ORDER BY c.name

-- name: counts
SELECT queue, visible, unprocessed FROM queue_counts WHERE visible > 0 ORDER BY queue

-- name: newest_program
SELECT number, digest, files FROM programs ORDER BY number DESC LIMIT 1
