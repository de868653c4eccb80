-- name: insert_pause
INSERT INTO pauses (kind, name, who, why, since, checksum) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: delete_pause
DELETE FROM pauses WHERE kind = ? AND name = ?

-- Messages that an operator removes: but for those that a reliable sequence has numbered, which would wait for them.
-- name: to_purge
SELECT seq, queue, processed, retired, request, slices, entries FROM messages
WHERE seq IN (SELECT value FROM json_each(:seqs))
  AND seq NOT IN (SELECT seq FROM sequence_messages WHERE direction = 'out' AND seq IS NOT NULL)
ORDER BY seq

-- name: scan_slice
SELECT h.* FROM slice_members AS s CROSS JOIN message_heads AS h
WHERE s.slicing = :slicing AND s.ended = 0 AND s.key = :key AND s.seq > :from AND h.seq = s.seq ORDER BY s.seq LIMIT :rows

-- name: scan_slice_back
SELECT h.* FROM slice_members AS s CROSS JOIN message_heads AS h
WHERE s.slicing = :slicing AND s.ended = 0 AND s.key = :key AND s.seq < :from AND h.seq = s.seq
ORDER BY s.seq DESC LIMIT :rows

-- name: heads
SELECT * FROM message_heads WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq

-- Visible ones by one index, kept ones by another, merged: as in `stored_in_queue`.
-- name: scan_end_in_queue
SELECT count(*), max(seq) FROM (
    SELECT seq FROM messages WHERE queue = :queue AND retired IS NULL AND seq > :from
    UNION ALL
    SELECT seq FROM messages WHERE queue = :queue AND retired IS NOT NULL AND seq > :from
    ORDER BY seq LIMIT :rows
) AS s

-- name: scan_end_back_in_queue
SELECT count(*), min(seq) FROM (
    SELECT seq FROM messages WHERE queue = :queue AND retired IS NULL AND seq < :from
    UNION ALL
    SELECT seq FROM messages WHERE queue = :queue AND retired IS NOT NULL AND seq < :from
    ORDER BY seq DESC LIMIT :rows
) AS s

-- name: scan_in_queue
SELECT * FROM message_heads
WHERE queue = :queue AND retired IS NULL AND seq BETWEEN :first AND :last AND created >= :since AND created < :until
  AND (state & :states) <> 0
UNION ALL
SELECT * FROM message_heads
WHERE queue = :queue AND retired IS NOT NULL AND seq BETWEEN :first AND :last AND created >= :since AND created < :until
  AND (state & :states) <> 0
ORDER BY seq LIMIT :limit

-- name: scan_back_in_queue
SELECT * FROM message_heads
WHERE queue = :queue AND retired IS NULL AND seq BETWEEN :first AND :last AND created >= :since AND created < :until
  AND (state & :states) <> 0
UNION ALL
SELECT * FROM message_heads
WHERE queue = :queue AND retired IS NOT NULL AND seq BETWEEN :first AND :last AND created >= :since AND created < :until
  AND (state & :states) <> 0
ORDER BY seq DESC LIMIT :limit
