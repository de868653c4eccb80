-- Newest first: a crash damages what was written last, and there may not be time for all rows.
-- name: verify_messages
SELECT m.seq, m.queue, m.created, m.rule, m.caused_by, m.origin, m.hops, m.transient, m.timer_due, m.timer_target,
       m.request, m.processed, m.retired, m.retired_at, m.undelivered, m.slices, m.entries, m.priority, m.checksum,
       b.body, b.properties, b.checksum
FROM messages AS m LEFT JOIN bodies AS b ON b.seq = m.seq ORDER BY m.seq DESC

-- name: verify_bodies_alone
SELECT b.seq FROM bodies AS b LEFT JOIN messages AS m ON m.seq = b.seq WHERE m.seq IS NULL

-- name: verify_members
SELECT slicing, key, ended, seq FROM slice_members

-- name: verify_entries
SELECT name, value, retired, seq FROM index_entries

-- name: verify_counts
SELECT queue, visible, unprocessed FROM queue_counts WHERE visible <> 0 OR unprocessed <> 0

-- name: verify_requests
SELECT request, seq, removed, checksum FROM requests

-- name: verify_outbox_alone
SELECT o.seq FROM outbox AS o LEFT JOIN messages AS m ON m.seq = o.seq WHERE m.seq IS NULL OR m.queue <> o.queue

-- name: verify_not_to_be_sent
SELECT m.seq FROM messages AS m LEFT JOIN outbox AS o ON o.seq = m.seq WHERE m.undelivered = 1 AND o.seq IS NULL

-- name: verify_numbers
SELECT * FROM numbers
