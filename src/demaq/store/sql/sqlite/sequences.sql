-- name: known_sequence
SELECT name FROM sequences WHERE direction = ? AND name = ?

-- name: sequence_messages
SELECT direction, sequence, number, seq, held, checksum FROM sequence_messages
WHERE direction = :direction AND sequence = :name ORDER BY number

-- name: known_replays
SELECT key FROM replay_keys WHERE key IN (SELECT value FROM json_each(:keys)) AND until >= :now

-- name: write_sequence
INSERT INTO sequences (direction, name, queue, peer, has_ended, content, changed, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (direction, name) DO UPDATE
SET queue = excluded.queue, peer = excluded.peer, has_ended = excluded.has_ended, content = excluded.content,
    changed = excluded.changed, checksum = excluded.checksum

-- name: write_sequence_message
INSERT INTO sequence_messages (direction, sequence, number, seq, held, checksum) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (direction, sequence, number) DO UPDATE
SET seq = excluded.seq, held = excluded.held, checksum = excluded.checksum

-- name: delete_sequence_message
DELETE FROM sequence_messages WHERE direction = ? AND sequence = ? AND number = ?

-- name: write_replay_key
INSERT INTO replay_keys (key, until, checksum) VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET until = excluded.until, checksum = excluded.checksum WHERE excluded.until > until

-- name: forget_replay_keys
DELETE FROM replay_keys WHERE key IN (
    SELECT key FROM replay_keys WHERE until < :now ORDER BY until LIMIT :limit
)

-- Before their sequences: a sequence with many messages is removed in several steps.
-- name: forget_sequence_messages
DELETE FROM sequence_messages WHERE (direction, sequence, number) IN (
    SELECT m.direction, m.sequence, m.number
    FROM (
        SELECT direction, name FROM sequences WHERE has_ended = 1 AND changed < :before ORDER BY changed LIMIT :limit
    ) AS s
    CROSS JOIN sequence_messages AS m
    WHERE m.direction = s.direction AND m.sequence = s.name LIMIT :limit
)

-- name: forget_sequences
DELETE FROM sequences WHERE (direction, name) IN (
    SELECT s.direction, s.name
    FROM (
        SELECT direction, name FROM sequences WHERE has_ended = 1 AND changed < :before ORDER BY changed LIMIT :limit
    ) AS s
    WHERE NOT EXISTS (SELECT 1 FROM sequence_messages AS m WHERE m.direction = s.direction AND m.sequence = s.name)
)

-- name: verify_sequence_messages_alone
SELECT m.number FROM sequence_messages AS m
LEFT JOIN sequences AS s ON s.direction = m.direction AND s.name = m.sequence WHERE s.name IS NULL
