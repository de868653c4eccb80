-- The plus keeps SQLite from an index on seq, which would visit every retired message.
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

-- Unordered: the caller sorts the messages of each key.
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

-- Entries retire with their messages, which need not be read.
-- name: find
SELECT e.value, e.seq FROM json_each(:wanted) AS w CROSS JOIN index_entries AS e
WHERE e.name = :index AND e.retired = 0 AND e.value = w.value AND e.seq <= :snapshot
UNION ALL
SELECT value, seq FROM index_entries
WHERE name = :index AND retired > :snapshot AND seq <= :snapshot AND value IN (SELECT value FROM json_each(:wanted))

-- name: count_members
SELECT e.seq FROM json_each(:wanted) AS w CROSS JOIN slice_members AS e
WHERE e.slicing = :slicing AND e.ended = 0 AND e.key = w.value LIMIT :limit

-- name: count_found
SELECT e.seq FROM json_each(:wanted) AS w CROSS JOIN index_entries AS e
WHERE e.name = :index AND e.retired = 0 AND e.value = w.value LIMIT :limit

-- name: other_pending
SELECT * FROM stored_messages
WHERE processed IS NULL AND priority IS NOT NULL AND seq NOT IN (SELECT value FROM json_each(:but))
    AND queue NOT IN (SELECT value FROM json_each(:but_of))
ORDER BY priority DESC, seq LIMIT :limit

-- name: pending_at
SELECT * FROM stored_messages
WHERE processed IS NULL AND priority IS NOT NULL AND priority = :priority AND seq > :after
    AND seq NOT IN (SELECT value FROM json_each(:but))
    AND queue NOT IN (SELECT value FROM json_each(:but_of))
ORDER BY seq LIMIT :limit

-- name: other_due_timers
SELECT * FROM stored_messages WHERE processed IS NULL AND timer_due <= :now AND queue NOT IN (SELECT value FROM json_each(:but_of))
ORDER BY timer_due, seq LIMIT :limit

-- name: other_next_due
SELECT min(timer_due) FROM (
    SELECT timer_due FROM messages WHERE processed IS NULL AND timer_due IS NOT NULL AND queue NOT IN (SELECT value FROM json_each(:but_of))
    ORDER BY timer_due, seq LIMIT 1
) AS t

-- name: messages
SELECT * FROM stored_messages WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq

-- name: slice_history
SELECT seq FROM slice_members WHERE slicing = :slicing AND key = :key ORDER BY seq LIMIT :limit

-- name: members
SELECT * FROM stored_messages WHERE seq IN (
    SELECT seq FROM slice_members WHERE slicing = :slicing AND ended = 0 AND key = :key AND seq > :after
    ORDER BY seq LIMIT :limit
)
ORDER BY seq

-- name: timers
SELECT * FROM stored_messages WHERE processed IS NULL AND timer_due IS NOT NULL AND (timer_due, seq) > (:due, :seq)
ORDER BY timer_due, seq LIMIT :limit

-- name: slice_keys
SELECT key, count(*) FROM slice_members WHERE slicing = :slicing AND ended = 0 AND key > :after
GROUP BY key ORDER BY key LIMIT :limit

-- name: first_slice_keys
SELECT key, count(*) FROM slice_members WHERE slicing = :slicing AND ended = 0
GROUP BY key ORDER BY key LIMIT :limit

-- name: first_request
SELECT request, seq FROM requests WHERE request >= :after AND request < :end ORDER BY request LIMIT 1

-- name: requests
SELECT request, seq FROM requests WHERE request >= :after AND request < :end ORDER BY request

-- Visible ones by one index, kept ones by another, merged.
-- name: stored_in_queue
SELECT * FROM stored_messages WHERE queue = :queue AND retired IS NULL AND seq > :after
UNION ALL
SELECT * FROM stored_messages WHERE queue = :queue AND retired IS NOT NULL AND seq > :after
ORDER BY seq LIMIT :limit
