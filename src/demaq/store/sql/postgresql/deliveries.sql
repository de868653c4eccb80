-- In the order of the primary key: by the index on due all of them would be sorted for each page.
-- name: to_send
SELECT o.seq, o.due, o.attempts, s.properties, s.slices FROM outbox AS o JOIN stored_messages AS s ON s.seq = o.seq
WHERE o.queue || '' = :queue AND o.due + 0 <= :now AND o.seq > :after
ORDER BY o.seq LIMIT :limit

-- name: to_send_again
SELECT o.seq, o.due, o.attempts, s.properties, s.slices FROM outbox AS o JOIN stored_messages AS s ON s.seq = o.seq
WHERE o.queue = :queue AND o.due <= :now AND (o.due, o.seq) > (:due, :seq) AND o.seq <= :until
ORDER BY o.due, o.seq LIMIT :limit

-- name: outbox_of
SELECT seq, attempts FROM outbox WHERE seq = ANY (ARRAY(SELECT json_array_elements_text(?::json)::bigint))

-- name: queues_of
SELECT seq, queue FROM messages WHERE seq = ANY (ARRAY(SELECT json_array_elements_text(?::json)::bigint))

-- name: insert_outbox
INSERT INTO outbox (seq, queue, due, attempts, checksum)
SELECT * FROM unnest(?::bigint[], ?::text[], ?::bigint[], ?::bigint[], ?::bigint[])

-- name: delete_outbox
DELETE FROM outbox WHERE seq = ANY (?::bigint[])

-- name: postpone
UPDATE outbox AS o SET due = n.due, attempts = n.attempts, checksum = n.checksum
FROM unnest(?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[]) AS n (due, attempts, checksum, seq)
WHERE o.seq = n.seq

-- name: insert_attempt
INSERT INTO attempts (seq, queue, attempt, at, seconds, destination, result, status, kind, reason, checksum)
SELECT * FROM unnest(?::bigint[], ?::text[], ?::bigint[], ?::bigint[], ?::double precision[], ?::text[],
                     ?::text[], ?::text[], ?::text[], ?::text[], ?::bigint[])

-- name: insert_answer
INSERT INTO answers (connection, status, content_type, body, at, checksum)
SELECT * FROM unnest(?::text[], ?::bigint[], ?::text[], ?::text[], ?::bigint[], ?::bigint[])
ON CONFLICT DO NOTHING
