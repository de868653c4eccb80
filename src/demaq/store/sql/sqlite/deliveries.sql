-- In the order of the primary key: by the index on due all of them would be sorted for each page.
-- name: to_send
SELECT o.seq, o.due, o.attempts, s.properties, s.slices FROM outbox AS o JOIN stored_messages AS s ON s.seq = o.seq
WHERE +o.queue = :queue AND +o.due <= :now AND o.seq > :after
ORDER BY o.seq LIMIT :limit

-- name: to_send_again
SELECT o.seq, o.due, o.attempts, s.properties, s.slices FROM outbox AS o JOIN stored_messages AS s ON s.seq = o.seq
WHERE o.queue = :queue AND o.due <= :now AND (o.due, o.seq) > (:due, :seq) AND +o.seq <= :until
ORDER BY o.due, o.seq LIMIT :limit

-- name: outbox_of
SELECT seq, attempts FROM outbox WHERE seq IN (SELECT value FROM json_each(?))

-- name: queues_of
SELECT seq, queue FROM messages WHERE seq IN (SELECT value FROM json_each(?))

-- name: insert_outbox
INSERT INTO outbox (seq, queue, due, attempts, checksum) VALUES (?, ?, ?, ?, ?)

-- name: delete_outbox
DELETE FROM outbox WHERE seq IN (VALUES (?))

-- name: postpone
UPDATE outbox SET due = ?, attempts = ?, checksum = ? WHERE seq = ?

-- name: insert_attempt
INSERT INTO attempts (seq, queue, attempt, at, seconds, destination, result, status, kind, reason, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_answer
INSERT INTO answers (connection, status, content_type, body, at, checksum) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
