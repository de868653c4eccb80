-- name: sequences
SELECT direction, name, queue, peer, has_ended, content, changed, checksum FROM sequences
ORDER BY direction, queue, name

-- name: sequences_in_queue
SELECT direction, name, queue, peer, has_ended, content, changed, checksum FROM sequences
WHERE queue = :queue ORDER BY direction, queue, name

-- name: sequences_in_direction
SELECT direction, name, queue, peer, has_ended, content, changed, checksum FROM sequences
WHERE direction = :direction ORDER BY direction, queue, name

-- name: delete_outgoing_sequence_messages
DELETE FROM sequence_messages WHERE direction = 'out'

-- name: delete_outgoing_sequences
DELETE FROM sequences WHERE direction = 'out'
