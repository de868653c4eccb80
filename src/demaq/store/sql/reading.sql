-- name: newest_number
SELECT newest FROM numbers

-- The plus keeps SQLite from narrowing by seq, which would lead past every message that has retired.
-- name: queue
SELECT * FROM stored_messages WHERE queue = :queue AND retired IS NULL AND +seq <= :snapshot
UNION ALL
SELECT * FROM stored_messages WHERE queue = :queue AND retired > :snapshot AND +seq <= :snapshot
ORDER BY seq

-- A message that is in a slice has not retired, so the membership alone decides.
-- name: slice
SELECT * FROM stored_messages WHERE seq IN (
    SELECT seq FROM slice_members WHERE slicing = :slicing AND ended = 0 AND key = :key AND seq <= :snapshot
    UNION ALL
    SELECT seq FROM slice_members WHERE slicing = :slicing AND ended > :snapshot AND key = :key AND seq <= :snapshot
)
ORDER BY seq

-- name: lookup
SELECT * FROM stored_messages WHERE seq IN (
    SELECT e.seq FROM json_each(:wanted) AS w CROSS JOIN index_entries AS e
    WHERE e.name = :index AND e.retired = 0 AND e.value = w.value AND e.seq <= :snapshot
    UNION ALL
    SELECT seq FROM index_entries
    WHERE name = :index AND retired > :snapshot AND seq <= :snapshot AND value IN (SELECT value FROM json_each(:wanted))
)
ORDER BY seq

-- In no order: whoever asks sorts what he finds for each.
-- name: slices
SELECT found.key, s.* FROM (
    SELECT e.key AS key, e.seq AS seq FROM json_each(:wanted) AS w CROSS JOIN slice_members AS e
    WHERE e.slicing = :slicing AND e.ended = 0 AND e.key = w.value AND e.seq <= :snapshot
    UNION ALL
    SELECT key, seq FROM slice_members
    WHERE slicing = :slicing AND ended > :snapshot AND seq <= :snapshot AND key IN (SELECT value FROM json_each(:wanted))
) AS found CROSS JOIN stored_messages AS s
WHERE s.seq = found.seq

-- name: lookups
SELECT found.value, s.* FROM (
    SELECT e.value AS value, e.seq AS seq FROM json_each(:wanted) AS w CROSS JOIN index_entries AS e
    WHERE e.name = :index AND e.retired = 0 AND e.value = w.value AND e.seq <= :snapshot
    UNION ALL
    SELECT value, seq FROM index_entries
    WHERE name = :index AND retired > :snapshot AND seq <= :snapshot AND value IN (SELECT value FROM json_each(:wanted))
) AS found CROSS JOIN stored_messages AS s
WHERE s.seq = found.seq

-- An empty collection has a version too: one row without a body.
-- name: collection
SELECT c.version, d.body FROM collections AS c LEFT JOIN collection_documents AS d ON d.name = c.name
WHERE c.name = ? ORDER BY d.position

-- name: pending
SELECT * FROM stored_messages WHERE processed IS NULL AND priority IS NOT NULL ORDER BY priority DESC, seq LIMIT :limit

-- name: other_pending
SELECT * FROM stored_messages
WHERE processed IS NULL AND priority IS NOT NULL AND seq NOT IN (SELECT value FROM json_each(:but))
    AND queue NOT IN (SELECT value FROM json_each(:but_of))
ORDER BY priority DESC, seq LIMIT :limit

-- name: waiting
SELECT * FROM stored_messages WHERE queue = :queue AND processed IS NULL AND priority IS NULL ORDER BY seq LIMIT :limit

-- name: due_timers
SELECT * FROM stored_messages WHERE processed IS NULL AND timer_due <= :now ORDER BY timer_due, seq LIMIT :limit

-- name: next_due
SELECT min(timer_due) FROM messages WHERE processed IS NULL AND timer_due IS NOT NULL

-- name: message
SELECT * FROM stored_messages WHERE seq = ?

-- name: messages
SELECT * FROM stored_messages WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq

-- name: caused_by
SELECT seq FROM messages WHERE caused_by = ? ORDER BY seq

-- name: stored
SELECT * FROM stored_messages WHERE seq > :after ORDER BY seq LIMIT :limit

-- name: stored_in_queue
SELECT * FROM stored_messages WHERE queue = :queue AND seq > :after ORDER BY seq LIMIT :limit

-- name: visible
SELECT * FROM stored_messages WHERE queue = :queue AND retired IS NULL AND seq > :after ORDER BY seq LIMIT :limit

-- name: members
SELECT * FROM stored_messages WHERE seq IN (
    SELECT seq FROM slice_members WHERE slicing = :slicing AND ended = 0 AND key = :key AND seq > :after
    ORDER BY seq LIMIT :limit
)
ORDER BY seq

-- name: first_timers
SELECT * FROM stored_messages WHERE processed IS NULL AND timer_due IS NOT NULL ORDER BY timer_due, seq LIMIT :limit

-- name: timers
SELECT * FROM stored_messages WHERE processed IS NULL AND timer_due IS NOT NULL AND (timer_due, seq) > (:due, :seq)
ORDER BY timer_due, seq LIMIT :limit

-- name: collections
SELECT c.name, c.version, count(d.name) FROM collections AS c LEFT JOIN collection_documents AS d ON d.name = c.name
GROUP BY c.name ORDER BY c.name

-- name: slice_keys
SELECT key, count(*) FROM slice_members WHERE slicing = :slicing AND ended = 0 AND key > :after
GROUP BY key ORDER BY key LIMIT :limit

-- name: first_slice_keys
SELECT key, count(*) FROM slice_members WHERE slicing = :slicing AND ended = 0
GROUP BY key ORDER BY key LIMIT :limit

-- name: counts
SELECT queue, visible, unprocessed FROM queue_counts WHERE visible > 0 ORDER BY queue

-- name: newest_program
SELECT number, digest, files FROM programs ORDER BY number DESC LIMIT 1

-- name: requests
SELECT request, seq FROM requests WHERE request >= :after AND request < :end ORDER BY request
