-- name: pauses
SELECT kind, name, who, why, since, checksum FROM pauses ORDER BY kind, name

-- name: next_audit_number
SELECT coalesce(max(number), 0) + 1 FROM audit

-- name: write_audit
INSERT INTO audit (number, at, who, action, subject, why, result, details, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (number) DO UPDATE
SET at = excluded.at, who = excluded.who, action = excluded.action, subject = excluded.subject, why = excluded.why,
    result = excluded.result, details = excluded.details, checksum = excluded.checksum

-- name: audit
SELECT number, at, who, action, subject, why, result, details, checksum FROM audit
WHERE number < :before ORDER BY number DESC LIMIT :limit

-- A scan looks at a bounded number of narrow rows, found by an index in their order. First its end is found, by which it
-- is continued; then the rows up to it that match.
-- name: scan_end
SELECT count(*), max(seq) FROM (SELECT seq FROM messages WHERE seq > :from ORDER BY seq LIMIT :rows) AS s

-- name: scan_end_back
SELECT count(*), min(seq) FROM (SELECT seq FROM messages WHERE seq < :from ORDER BY seq DESC LIMIT :rows) AS s

-- name: scan
SELECT * FROM message_heads
WHERE seq BETWEEN :first AND :last AND created >= :since AND created < :until AND (state & :states) <> 0
ORDER BY seq LIMIT :limit

-- name: scan_back
SELECT * FROM message_heads
WHERE seq BETWEEN :first AND :last AND created >= :since AND created < :until AND (state & :states) <> 0
ORDER BY seq DESC LIMIT :limit
