-- Names and keys may be longer than a row of an index, so indexes are on their first 200 characters, and none is unique:
-- what is written updates the row that is there, or else is inserted. Both parts of a statement see the rows as they were.

-- name: known_sequence
SELECT s.name FROM (VALUES (?, ?)) AS n (direction, name)
JOIN sequences AS s ON s.direction = n.direction AND left(s.name, 200) = left(n.name, 200) AND s.name = n.name

-- name: sequence_messages
SELECT direction, sequence, number, seq, held, checksum FROM sequence_messages
WHERE direction = :direction AND left(sequence, 200) = left(:name, 200) AND sequence = :name ORDER BY number

-- name: known_replays
SELECT key FROM replay_keys
WHERE left(key, 200) = ANY (ARRAY(SELECT left(json_array_elements_text(:keys::json), 200)))
  AND key = ANY (ARRAY(SELECT json_array_elements_text(:keys::json))) AND until >= :now

-- name: write_sequence
WITH n (direction, name, queue, peer, has_ended, content, changed, checksum) AS (
    SELECT * FROM unnest(?::text[], ?::text[], ?::text[], ?::text[], ?::smallint[], ?::text[], ?::bigint[], ?::bigint[])
), updated AS (
    UPDATE sequences AS s
    SET queue = n.queue, peer = n.peer, has_ended = n.has_ended, content = n.content, changed = n.changed,
        checksum = n.checksum
    FROM n WHERE s.direction = n.direction AND left(s.name, 200) = left(n.name, 200) AND s.name = n.name
)
INSERT INTO sequences (direction, name, queue, peer, has_ended, content, changed, checksum)
SELECT * FROM n WHERE NOT EXISTS (
    SELECT 1 FROM sequences AS s
    WHERE s.direction = n.direction AND left(s.name, 200) = left(n.name, 200) AND s.name = n.name
)

-- name: write_sequence_message
WITH n (direction, sequence, number, seq, held, checksum) AS (
    SELECT * FROM unnest(?::text[], ?::text[], ?::bigint[], ?::bigint[], ?::text[], ?::bigint[])
), updated AS (
    UPDATE sequence_messages AS m SET seq = n.seq, held = n.held, checksum = n.checksum
    FROM n WHERE m.direction = n.direction AND left(m.sequence, 200) = left(n.sequence, 200)
      AND m.sequence = n.sequence AND m.number = n.number
)
INSERT INTO sequence_messages (direction, sequence, number, seq, held, checksum)
SELECT * FROM n WHERE NOT EXISTS (
    SELECT 1 FROM sequence_messages AS m
    WHERE m.direction = n.direction AND left(m.sequence, 200) = left(n.sequence, 200)
      AND m.sequence = n.sequence AND m.number = n.number
)

-- name: delete_sequence_message
DELETE FROM sequence_messages AS m
USING unnest(?::text[], ?::text[], ?::bigint[]) AS n (direction, sequence, number)
WHERE m.direction = n.direction AND left(m.sequence, 200) = left(n.sequence, 200) AND m.sequence = n.sequence
  AND m.number = n.number

-- name: write_replay_key
WITH n (key, until, checksum) AS (SELECT * FROM unnest(?::text[], ?::bigint[], ?::bigint[])), updated AS (
    UPDATE replay_keys AS k SET until = n.until, checksum = n.checksum
    FROM n WHERE left(k.key, 200) = left(n.key, 200) AND k.key = n.key AND n.until > k.until
)
INSERT INTO replay_keys (key, until, checksum)
SELECT * FROM n WHERE NOT EXISTS (
    SELECT 1 FROM replay_keys AS k WHERE left(k.key, 200) = left(n.key, 200) AND k.key = n.key
)

-- name: forget_replay_keys
DELETE FROM replay_keys WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM replay_keys WHERE until < :now ORDER BY until LIMIT :limit
))

-- Before their sequences: a sequence with many messages is removed in several steps.
-- name: forget_sequence_messages
DELETE FROM sequence_messages WHERE ctid = ANY (ARRAY(
    SELECT m.ctid
    FROM (
        SELECT direction, name FROM sequences WHERE has_ended = 1 AND changed < :before ORDER BY changed LIMIT :limit
    ) AS s
    JOIN sequence_messages AS m
      ON m.direction = s.direction AND left(m.sequence, 200) = left(s.name, 200) AND m.sequence = s.name
    LIMIT :limit
))

-- name: forget_sequences
DELETE FROM sequences WHERE ctid = ANY (ARRAY(
    SELECT s.ctid
    FROM (
        SELECT ctid, direction, name FROM sequences
        WHERE has_ended = 1 AND changed < :before ORDER BY changed LIMIT :limit
    ) AS s
    WHERE NOT EXISTS (
        SELECT 1 FROM sequence_messages AS m
        WHERE m.direction = s.direction AND left(m.sequence, 200) = left(s.name, 200) AND m.sequence = s.name
    )
))

-- name: verify_sequence_messages_alone
SELECT m.number FROM sequence_messages AS m
LEFT JOIN sequences AS s ON s.direction = m.direction AND left(s.name, 200) = left(m.sequence, 200) AND s.name = m.sequence
WHERE s.name IS NULL
