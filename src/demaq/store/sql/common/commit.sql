-- name: set_newest_number
UPDATE numbers SET newest = ?

-- name: set_collection
INSERT INTO collections (name, version, checksum) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, checksum = excluded.checksum

-- name: delete_collection_documents
DELETE FROM collection_documents WHERE name = ?

-- name: insert_program
INSERT INTO programs (number, digest, files, at, checksum) VALUES (?, ?, ?, ?, ?)

-- name: garbage
SELECT seq, queue, processed, retired, request, slices, entries FROM messages
WHERE retired_at IS NOT NULL AND retired_at < ?
  AND NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.seq = messages.seq)
ORDER BY retired_at, seq LIMIT ?

-- name: transient_messages
SELECT seq, queue, processed, retired, request, slices, entries FROM messages WHERE transient = 1 ORDER BY seq LIMIT ?

-- name: forget_requests
DELETE FROM requests WHERE removed IS NOT NULL AND removed < ?
