-- name: incomplete
SELECT m.seq FROM messages AS m LEFT JOIN bodies AS b ON b.seq = m.seq WHERE b.seq IS NULL
UNION SELECT b.seq FROM bodies AS b LEFT JOIN messages AS m ON m.seq = b.seq WHERE m.seq IS NULL

-- Processing and retiring take numbers of the same sequence.
-- name: highest
SELECT max(seq) FROM messages UNION ALL SELECT max(abs(processed)) FROM messages UNION ALL SELECT max(retired) FROM messages

-- Without a checksum until the next commit.
-- name: set_numbers
UPDATE numbers SET newest = max(?, ?), checksum = NULL

-- name: clear_members
DELETE FROM slice_members

-- name: clear_entries
DELETE FROM index_entries

-- name: clear_counts
DELETE FROM queue_counts

-- Also those of removed messages.
-- name: clear_requests
DELETE FROM requests

-- name: derived_columns
SELECT seq, retired, request, slices, entries FROM messages ORDER BY seq

-- name: rebuild_counts
INSERT INTO queue_counts (queue, visible, unprocessed)
SELECT queue, sum(retired IS NULL), sum(processed IS NULL) FROM messages GROUP BY queue

-- Undelivered messages without a row in the outbox are sent, with attempts counted from 0.
-- name: rebuild_outbox
INSERT INTO outbox (seq, queue, due, attempts)
SELECT seq, queue, created, 0 FROM messages WHERE undelivered = 1 AND seq NOT IN (SELECT seq FROM outbox)

-- Of sequences that were damaged.
-- name: delete_sequence_messages_alone
DELETE FROM sequence_messages
WHERE NOT EXISTS (SELECT 1 FROM sequences AS s WHERE s.direction = sequence_messages.direction AND s.name = sequence)
