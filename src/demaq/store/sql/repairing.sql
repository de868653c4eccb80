-- name: incomplete
SELECT m.seq FROM messages AS m LEFT JOIN bodies AS b ON b.seq = m.seq WHERE b.seq IS NULL
UNION SELECT b.seq FROM bodies AS b LEFT JOIN messages AS m ON m.seq = b.seq WHERE m.seq IS NULL

-- name: delete_message
DELETE FROM messages WHERE seq = ?

-- name: delete_body
DELETE FROM bodies WHERE seq = ?

-- name: delete_outbox
DELETE FROM outbox WHERE seq = ?

-- Also the numbers that processing has taken were given out.
-- name: highest
SELECT max(seq) FROM messages UNION ALL SELECT max(processed) FROM messages UNION ALL SELECT max(retired) FROM messages

-- Nothing is known of the row any more, until the next commit.
-- name: set_numbers
UPDATE numbers SET newest = max(?, ?), checksum = NULL

-- name: epochs
SELECT first FROM epochs

-- name: insert_epoch
INSERT INTO epochs (first, name, checksum) VALUES (0, ?, ?)

-- name: clear_members
DELETE FROM slice_members

-- name: clear_entries
DELETE FROM index_entries

-- name: clear_counts
DELETE FROM queue_counts

-- Those of messages that were removed are forgotten, too.
-- name: clear_requests
DELETE FROM requests

-- name: messages
SELECT seq, retired, request, slices, entries FROM messages ORDER BY seq

-- name: count_anew
INSERT INTO queue_counts (queue, visible, unprocessed)
SELECT queue, sum(retired IS NULL), sum(processed IS NULL) FROM messages GROUP BY queue

-- What was to be sent and has lost its row is sent, with attempts counted anew.
-- name: send_anew
INSERT INTO outbox (seq, queue, due, attempts)
SELECT seq, queue, created, 0 FROM messages WHERE undelivered = 1 AND seq NOT IN (SELECT seq FROM outbox)
