-- The answers are those of the statements of the same names for SQLite.

-- name: to_send
SELECT o.seq, o.attempts, s.properties, s.slices FROM outbox AS o JOIN stored_messages AS s ON s.seq = o.seq
WHERE o.queue = %(queue)s AND o.due <= %(now)s
  AND o.seq <> ALL (ARRAY(SELECT json_array_elements_text(%(but)s::json)::bigint))
ORDER BY o.due, o.seq LIMIT %(limit)s

-- name: next_to_send
SELECT min(due) FROM outbox WHERE queue = %(queue)s AND due > %(after)s

-- name: sendings
SELECT q.queue, q.messages, q.due, m.created
FROM (SELECT queue, count(*) AS messages, min(due) AS due, min(seq) AS seq FROM outbox GROUP BY queue) AS q
JOIN messages AS m ON m.seq = q.seq ORDER BY q.queue

-- name: unsent
SELECT o.seq, o.queue, m.created, o.due, o.attempts FROM outbox AS o JOIN messages AS m ON m.seq = o.seq
ORDER BY o.due, o.seq LIMIT %(limit)s

-- name: unsent_in_queue
SELECT o.seq, o.queue, m.created, o.due, o.attempts FROM outbox AS o JOIN messages AS m ON m.seq = o.seq
WHERE o.queue = %(queue)s ORDER BY o.due, o.seq LIMIT %(limit)s

-- name: unsent_message
SELECT o.seq, o.queue, m.created, o.due, o.attempts FROM outbox AS o JOIN messages AS m ON m.seq = o.seq
WHERE o.seq = %(seq)s LIMIT %(limit)s

-- name: outbox_of
SELECT seq, attempts FROM outbox WHERE seq = ANY (ARRAY(SELECT json_array_elements_text(%s::json)::bigint))

-- name: queues_of
SELECT seq, queue FROM messages WHERE seq = ANY (ARRAY(SELECT json_array_elements_text(%s::json)::bigint))

-- name: insert_outbox
INSERT INTO outbox (seq, queue, due, attempts, checksum)
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])

-- name: insert_outbox_in_bulk
COPY outbox (seq, queue, due, attempts, checksum) FROM STDIN

-- name: delete_outbox
DELETE FROM outbox WHERE seq = ANY (%s::bigint[])

-- name: postpone
UPDATE outbox AS o SET due = n.due, attempts = n.attempts, checksum = n.checksum
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[]) AS n (due, attempts, checksum, seq)
WHERE o.seq = n.seq

-- name: insert_attempt
INSERT INTO attempts (seq, queue, attempt, at, seconds, destination, result, status, kind, reason, checksum)
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::double precision[], %s::text[],
                     %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[])

-- name: attempts
SELECT seq, queue, attempt, at, seconds, destination, result, status, kind, reason FROM attempts
ORDER BY number DESC LIMIT %(limit)s

-- name: attempts_in_queue
SELECT seq, queue, attempt, at, seconds, destination, result, status, kind, reason FROM attempts
WHERE queue = %(queue)s ORDER BY number DESC LIMIT %(limit)s

-- name: attempts_of_message
SELECT seq, queue, attempt, at, seconds, destination, result, status, kind, reason FROM attempts
WHERE seq = %(seq)s ORDER BY number DESC LIMIT %(limit)s

-- The oldest ones come first, so there is no need to look further.
-- name: forget_attempts
DELETE FROM attempts WHERE number IN (
    SELECT a.number FROM (SELECT number, seq, at FROM attempts ORDER BY number LIMIT %(limit)s) AS a
    WHERE (a.at < %(before)s OR a.number <= (SELECT max(number) FROM attempts) - %(most)s)
      AND NOT EXISTS (SELECT 1 FROM outbox AS o WHERE o.seq = a.seq)
)

-- name: insert_answer
INSERT INTO answers (connection, status, content_type, body, at, checksum)
SELECT * FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::bigint[])
ON CONFLICT DO NOTHING

-- name: answer
SELECT connection, status, content_type, body FROM answers WHERE connection = %s

-- name: forget_answers
DELETE FROM answers WHERE at < %s

-- name: epochs
SELECT first, name FROM epochs ORDER BY first

-- The first one is made with the tables, which know no checksums.
-- name: epochs_without_checksum
SELECT first, name FROM epochs WHERE checksum IS NULL

-- name: insert_epoch
INSERT INTO epochs (first, name, checksum) VALUES (%s, %s, %s)
ON CONFLICT (first) DO UPDATE SET name = excluded.name, checksum = excluded.checksum
