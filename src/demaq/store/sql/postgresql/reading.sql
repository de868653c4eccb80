-- The answers are those of the statements of the same names for SQLite.

-- name: newest_number
SELECT newest FROM numbers

-- name: queue
SELECT * FROM stored_messages WHERE queue = %(queue)s AND retired IS NULL AND seq <= %(snapshot)s
UNION ALL
SELECT * FROM stored_messages WHERE queue = %(queue)s AND retired > %(snapshot)s AND seq <= %(snapshot)s
ORDER BY seq

-- A message that is in a slice has not retired, so the membership alone decides.
-- name: slice
SELECT * FROM stored_messages WHERE seq IN (
    SELECT seq FROM slice_members
    WHERE slicing = %(slicing)s AND ended = 0 AND left(key, 200) = left(%(key)s, 200) AND key = %(key)s
      AND seq <= %(snapshot)s
    UNION ALL
    SELECT seq FROM slice_members
    WHERE slicing = %(slicing)s AND ended > %(snapshot)s AND left(key, 200) = left(%(key)s, 200) AND key = %(key)s
      AND seq <= %(snapshot)s
)
ORDER BY seq

-- name: lookup
SELECT * FROM stored_messages WHERE seq IN (
    SELECT seq FROM index_entries
    WHERE name = %(index)s AND retired = 0 AND seq <= %(snapshot)s
      AND left(value, 200) = ANY (ARRAY(SELECT left(json_array_elements_text(%(wanted)s::json), 200)))
      AND value = ANY (ARRAY(SELECT json_array_elements_text(%(wanted)s::json)))
    UNION ALL
    SELECT seq FROM index_entries
    WHERE name = %(index)s AND retired > %(snapshot)s AND seq <= %(snapshot)s
      AND value = ANY (ARRAY(SELECT json_array_elements_text(%(wanted)s::json)))
)
ORDER BY seq

-- In no order: whoever asks sorts what he finds for each.
-- name: slices
SELECT found.key, s.* FROM (
    SELECT key, seq FROM slice_members
    WHERE slicing = %(slicing)s AND ended = 0 AND seq <= %(snapshot)s
      AND left(key, 200) = ANY (ARRAY(SELECT left(json_array_elements_text(%(wanted)s::json), 200)))
      AND key = ANY (ARRAY(SELECT json_array_elements_text(%(wanted)s::json)))
    UNION ALL
    SELECT key, seq FROM slice_members
    WHERE slicing = %(slicing)s AND ended > %(snapshot)s AND seq <= %(snapshot)s
      AND key = ANY (ARRAY(SELECT json_array_elements_text(%(wanted)s::json)))
) AS found JOIN stored_messages AS s ON s.seq = found.seq

-- name: lookups
SELECT found.value, s.* FROM (
    SELECT value, seq FROM index_entries
    WHERE name = %(index)s AND retired = 0 AND seq <= %(snapshot)s
      AND left(value, 200) = ANY (ARRAY(SELECT left(json_array_elements_text(%(wanted)s::json), 200)))
      AND value = ANY (ARRAY(SELECT json_array_elements_text(%(wanted)s::json)))
    UNION ALL
    SELECT value, seq FROM index_entries
    WHERE name = %(index)s AND retired > %(snapshot)s AND seq <= %(snapshot)s
      AND value = ANY (ARRAY(SELECT json_array_elements_text(%(wanted)s::json)))
) AS found JOIN stored_messages AS s ON s.seq = found.seq

-- An empty collection has a version too: one row without a body.
-- name: collection
SELECT c.version, d.body FROM collections AS c LEFT JOIN collection_documents AS d ON d.name = c.name
WHERE c.name = %s ORDER BY d.position

-- name: pending
SELECT * FROM stored_messages WHERE processed IS NULL AND priority IS NOT NULL
ORDER BY priority DESC, seq LIMIT %(limit)s

-- name: other_pending
SELECT * FROM stored_messages
WHERE processed IS NULL AND priority IS NOT NULL AND seq NOT IN (SELECT value::bigint FROM json_array_elements_text(%(but)s::json) AS value)
    AND queue NOT IN (SELECT json_array_elements_text(%(but_of)s::json))
ORDER BY priority DESC, seq LIMIT %(limit)s

-- name: waiting
SELECT * FROM stored_messages WHERE queue = %(queue)s AND processed IS NULL AND priority IS NULL
ORDER BY seq LIMIT %(limit)s

-- name: due_timers
SELECT * FROM stored_messages WHERE processed IS NULL AND timer_due <= %(now)s ORDER BY timer_due, seq LIMIT %(limit)s

-- name: next_due
SELECT min(timer_due) FROM messages WHERE processed IS NULL AND timer_due IS NOT NULL

-- name: message
SELECT * FROM stored_messages WHERE seq = %s

-- name: messages
SELECT * FROM stored_messages WHERE seq = ANY (ARRAY(SELECT json_array_elements_text(%s::json)::bigint)) ORDER BY seq

-- name: caused_by
SELECT seq FROM messages WHERE caused_by = %s ORDER BY seq

-- name: stored
SELECT * FROM stored_messages WHERE seq > %(after)s ORDER BY seq LIMIT %(limit)s

-- name: stored_in_queue
SELECT * FROM stored_messages WHERE queue = %(queue)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s

-- name: visible
SELECT * FROM stored_messages WHERE queue = %(queue)s AND retired IS NULL AND seq > %(after)s
ORDER BY seq LIMIT %(limit)s

-- name: members
SELECT * FROM stored_messages WHERE seq IN (
    SELECT seq FROM slice_members
    WHERE slicing = %(slicing)s AND ended = 0 AND left(key, 200) = left(%(key)s, 200) AND key = %(key)s
      AND seq > %(after)s
    ORDER BY seq LIMIT %(limit)s
)
ORDER BY seq

-- name: first_timers
SELECT * FROM stored_messages WHERE processed IS NULL AND timer_due IS NOT NULL
ORDER BY timer_due, seq LIMIT %(limit)s

-- name: timers
SELECT * FROM stored_messages
WHERE processed IS NULL AND timer_due IS NOT NULL AND (timer_due, seq) > (%(due)s::bigint, %(seq)s)
ORDER BY timer_due, seq LIMIT %(limit)s

-- name: collections
SELECT c.name, c.version, count(d.name) FROM collections AS c LEFT JOIN collection_documents AS d ON d.name = c.name
GROUP BY c.name ORDER BY c.name

-- Starts of keys lie in the order of the keys.
-- name: slice_keys
SELECT key, count(*) FROM slice_members
WHERE slicing = %(slicing)s AND ended = 0 AND left(key, 200) >= left(%(after)s, 200) AND key > %(after)s
GROUP BY left(key, 200), key ORDER BY left(key, 200), key LIMIT %(limit)s

-- name: first_slice_keys
SELECT key, count(*) FROM slice_members WHERE slicing = %(slicing)s AND ended = 0
GROUP BY left(key, 200), key ORDER BY left(key, 200), key LIMIT %(limit)s

-- name: counts
SELECT queue, visible, unprocessed FROM queue_counts WHERE visible > 0 ORDER BY queue

-- name: newest_program
SELECT number, digest, files FROM programs ORDER BY number DESC LIMIT 1

-- name: requests
SELECT request, seq FROM requests
WHERE left(request, 200) >= left(%(after)s, 200) AND left(request, 200) <= left(%(end)s, 200)
  AND request >= %(after)s AND request < %(end)s
ORDER BY left(request, 200), request
