-- name: next_to_send
SELECT min(due) FROM outbox WHERE queue = :queue AND due > :after

-- name: sendings
SELECT q.queue, q.messages, q.due, m.created
FROM (SELECT queue, count(*) AS messages, min(due) AS due, min(seq) AS seq FROM outbox GROUP BY queue) AS q
JOIN messages AS m ON m.seq = q.seq ORDER BY q.queue

-- name: unsent
SELECT o.seq, o.queue, m.created, o.due, o.attempts FROM outbox AS o JOIN messages AS m ON m.seq = o.seq
ORDER BY o.due, o.seq LIMIT :limit

-- name: unsent_in_queue
SELECT o.seq, o.queue, m.created, o.due, o.attempts FROM outbox AS o JOIN messages AS m ON m.seq = o.seq
WHERE o.queue = :queue ORDER BY o.due, o.seq LIMIT :limit

-- name: unsent_message
SELECT o.seq, o.queue, m.created, o.due, o.attempts FROM outbox AS o JOIN messages AS m ON m.seq = o.seq
WHERE o.seq = :seq LIMIT :limit

-- name: attempts
SELECT seq, queue, attempt, at, seconds, destination, result, status, kind, reason FROM attempts
ORDER BY number DESC LIMIT :limit

-- name: attempts_in_queue
SELECT seq, queue, attempt, at, seconds, destination, result, status, kind, reason FROM attempts
WHERE queue = :queue ORDER BY number DESC LIMIT :limit

-- name: attempts_of_message
SELECT seq, queue, attempt, at, seconds, destination, result, status, kind, reason FROM attempts
WHERE seq = :seq ORDER BY number DESC LIMIT :limit

-- Oldest first, so that a limited number of rows is read.
-- name: forget_attempts
DELETE FROM attempts WHERE number IN (
    SELECT a.number FROM (SELECT number, seq, at FROM attempts ORDER BY number LIMIT :limit) AS a
    WHERE (a.at < :before OR a.number <= (SELECT max(number) FROM attempts) - :most)
      AND NOT EXISTS (SELECT 1 FROM outbox AS o WHERE o.seq = a.seq)
)

-- name: answer
SELECT connection, status, content_type, body FROM answers WHERE connection = ?

-- name: forget_answers
DELETE FROM answers WHERE at < ?

-- name: epochs
SELECT first, name FROM epochs ORDER BY first

-- The script that creates the tables writes the first epoch, without a checksum.
-- name: epochs_without_checksum
SELECT first, name FROM epochs WHERE checksum IS NULL

-- name: insert_epoch
INSERT INTO epochs (first, name, checksum) VALUES (?, ?, ?)
ON CONFLICT (first) DO UPDATE SET name = excluded.name, checksum = excluded.checksum
