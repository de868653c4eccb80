-- name: insert_pause
INSERT INTO pauses (kind, name, who, why, since, checksum)
SELECT * FROM unnest(?::text[], ?::text[], ?::text[], ?::text[], ?::bigint[], ?::bigint[]) ON CONFLICT DO NOTHING

-- name: delete_pause
DELETE FROM pauses AS p USING unnest(?::text[], ?::text[]) AS n (kind, name) WHERE p.kind = n.kind AND p.name = n.name

-- Messages that an operator removes: but for those that a reliable sequence has numbered, which would wait for them.
-- name: to_purge
SELECT seq, queue, processed, retired, request, slices, entries FROM messages
WHERE seq = ANY (ARRAY(SELECT json_array_elements_text(:seqs::json)::bigint))
  AND seq NOT IN (SELECT seq FROM sequence_messages WHERE direction = 'out' AND seq IS NOT NULL)
ORDER BY seq

-- name: scan_slice
SELECT h.* FROM slice_members AS s JOIN message_heads AS h ON h.seq = s.seq
WHERE s.slicing = :slicing AND s.ended = 0 AND left(s.key, 200) = left(:key, 200) AND s.key = :key AND s.seq > :from
ORDER BY s.seq LIMIT :rows

-- name: scan_slice_back
SELECT h.* FROM slice_members AS s JOIN message_heads AS h ON h.seq = s.seq
WHERE s.slicing = :slicing AND s.ended = 0 AND left(s.key, 200) = left(:key, 200) AND s.key = :key AND s.seq < :from
ORDER BY s.seq DESC LIMIT :rows

-- name: heads
SELECT * FROM message_heads WHERE seq = ANY (ARRAY(SELECT json_array_elements_text(?::json)::bigint)) ORDER BY seq

-- name: scan_end_in_queue
SELECT count(*), max(seq) FROM (
    SELECT seq FROM messages WHERE queue = :queue AND seq > :from ORDER BY seq LIMIT :rows
) AS s

-- name: scan_end_back_in_queue
SELECT count(*), min(seq) FROM (
    SELECT seq FROM messages WHERE queue = :queue AND seq < :from ORDER BY seq DESC LIMIT :rows
) AS s

-- name: scan_in_queue
SELECT * FROM message_heads
WHERE queue = :queue AND seq BETWEEN :first AND :last AND created >= :since AND created < :until
  AND (state & :states) <> 0
ORDER BY seq LIMIT :limit

-- name: scan_back_in_queue
SELECT * FROM message_heads
WHERE queue = :queue AND seq BETWEEN :first AND :last AND created >= :since AND created < :until
  AND (state & :states) <> 0
ORDER BY seq DESC LIMIT :limit
