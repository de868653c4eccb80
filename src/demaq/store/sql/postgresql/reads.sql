-- Texts may be longer than a row of an index, so indexes are on the first 200 characters: see version_1.sql.

-- name: queue
SELECT * FROM stored_messages WHERE queue = :queue AND retired IS NULL AND seq <= :snapshot
UNION ALL
SELECT * FROM stored_messages WHERE queue = :queue AND retired > :snapshot AND seq <= :snapshot
ORDER BY seq

-- A message that is in a slice has not retired, so the membership alone decides.
-- name: slice
SELECT * FROM stored_messages WHERE seq IN (
    SELECT seq FROM slice_members
    WHERE slicing = :slicing AND ended = 0 AND left(key, 200) = left(:key, 200) AND key = :key
      AND seq <= :snapshot
    UNION ALL
    SELECT seq FROM slice_members
    WHERE slicing = :slicing AND ended > :snapshot AND left(key, 200) = left(:key, 200) AND key = :key
      AND seq <= :snapshot
)
ORDER BY seq

-- name: lookup
SELECT * FROM stored_messages WHERE seq IN (
    SELECT seq FROM index_entries
    WHERE name = :index AND retired = 0 AND seq <= :snapshot
      AND left(value, 200) = ANY (ARRAY(SELECT left(json_array_elements_text(:wanted::json), 200)))
      AND value = ANY (ARRAY(SELECT json_array_elements_text(:wanted::json)))
    UNION ALL
    SELECT seq FROM index_entries
    WHERE name = :index AND retired > :snapshot AND seq <= :snapshot
      AND value = ANY (ARRAY(SELECT json_array_elements_text(:wanted::json)))
)
ORDER BY seq

-- Unordered: the caller sorts the messages of each key.
-- name: slices
SELECT found.key, s.* FROM (
    SELECT key, seq FROM slice_members
    WHERE slicing = :slicing AND ended = 0 AND seq <= :snapshot
      AND left(key, 200) = ANY (ARRAY(SELECT left(json_array_elements_text(:wanted::json), 200)))
      AND key = ANY (ARRAY(SELECT json_array_elements_text(:wanted::json)))
    UNION ALL
    SELECT key, seq FROM slice_members
    WHERE slicing = :slicing AND ended > :snapshot AND seq <= :snapshot
      AND key = ANY (ARRAY(SELECT json_array_elements_text(:wanted::json)))
) AS found JOIN stored_messages AS s ON s.seq = found.seq

-- name: lookups
SELECT found.value, s.* FROM (
    SELECT value, seq FROM index_entries
    WHERE name = :index AND retired = 0 AND seq <= :snapshot
      AND left(value, 200) = ANY (ARRAY(SELECT left(json_array_elements_text(:wanted::json), 200)))
      AND value = ANY (ARRAY(SELECT json_array_elements_text(:wanted::json)))
    UNION ALL
    SELECT value, seq FROM index_entries
    WHERE name = :index AND retired > :snapshot AND seq <= :snapshot
      AND value = ANY (ARRAY(SELECT json_array_elements_text(:wanted::json)))
) AS found JOIN stored_messages AS s ON s.seq = found.seq

-- Entries retire with their messages, which need not be read.
-- name: find
SELECT value, seq FROM index_entries
WHERE name = :index AND retired = 0 AND seq <= :snapshot
  AND left(value, 200) = ANY (ARRAY(SELECT left(json_array_elements_text(:wanted::json), 200)))
  AND value = ANY (ARRAY(SELECT json_array_elements_text(:wanted::json)))
UNION ALL
SELECT value, seq FROM index_entries
WHERE name = :index AND retired > :snapshot AND seq <= :snapshot
  AND value = ANY (ARRAY(SELECT json_array_elements_text(:wanted::json)))

-- name: other_pending
SELECT * FROM stored_messages
WHERE processed IS NULL AND priority IS NOT NULL AND seq NOT IN (SELECT value::bigint FROM json_array_elements_text(:but::json) AS value)
    AND queue NOT IN (SELECT json_array_elements_text(:but_of::json))
ORDER BY priority DESC, seq LIMIT :limit

-- name: pending_at
SELECT * FROM stored_messages
WHERE processed IS NULL AND priority IS NOT NULL AND priority = :priority AND seq > :after
    AND seq NOT IN (SELECT value::bigint FROM json_array_elements_text(:but::json) AS value)
    AND queue NOT IN (SELECT json_array_elements_text(:but_of::json))
ORDER BY seq LIMIT :limit

-- name: other_due_timers
SELECT * FROM stored_messages WHERE processed IS NULL AND timer_due <= :now AND queue NOT IN (SELECT json_array_elements_text(:but_of::json))
ORDER BY timer_due, seq LIMIT :limit

-- name: other_next_due
SELECT min(timer_due) FROM (
    SELECT timer_due FROM messages WHERE processed IS NULL AND timer_due IS NOT NULL AND queue NOT IN (SELECT json_array_elements_text(:but_of::json))
    ORDER BY timer_due, seq LIMIT 1
) AS t

-- name: messages
SELECT * FROM stored_messages WHERE seq = ANY (ARRAY(SELECT json_array_elements_text(?::json)::bigint)) ORDER BY seq

-- name: slice_history
SELECT seq FROM slice_members WHERE slicing = :slicing AND left(key, 200) = left(:key, 200) AND key = :key
ORDER BY seq LIMIT :limit

-- name: members
SELECT * FROM stored_messages WHERE seq IN (
    SELECT seq FROM slice_members
    WHERE slicing = :slicing AND ended = 0 AND left(key, 200) = left(:key, 200) AND key = :key
      AND seq > :after
    ORDER BY seq LIMIT :limit
)
ORDER BY seq

-- name: timers
SELECT * FROM stored_messages
WHERE processed IS NULL AND timer_due IS NOT NULL AND (timer_due, seq) > (:due::bigint, :seq)
ORDER BY timer_due, seq LIMIT :limit

-- Prefixes have the order of the keys.
-- name: slice_keys
SELECT key, count(*) FROM slice_members
WHERE slicing = :slicing AND ended = 0 AND left(key, 200) >= left(:after, 200) AND key > :after
GROUP BY left(key, 200), key ORDER BY left(key, 200), key LIMIT :limit

-- name: first_slice_keys
SELECT key, count(*) FROM slice_members WHERE slicing = :slicing AND ended = 0
GROUP BY left(key, 200), key ORDER BY left(key, 200), key LIMIT :limit

-- name: first_request
SELECT request, seq FROM requests
WHERE left(request, 200) >= left(:after, 200) AND left(request, 200) <= left(:end, 200)
  AND request >= :after AND request < :end
ORDER BY left(request, 200), request LIMIT 1

-- name: requests
SELECT request, seq FROM requests
WHERE left(request, 200) >= left(:after, 200) AND left(request, 200) <= left(:end, 200)
  AND request >= :after AND request < :end
ORDER BY left(request, 200), request

-- name: count_members
SELECT seq FROM slice_members
WHERE slicing = :slicing AND ended = 0
  AND left(key, 200) = ANY (ARRAY(SELECT left(json_array_elements_text(:wanted::json), 200)))
  AND key = ANY (ARRAY(SELECT json_array_elements_text(:wanted::json)))
LIMIT :limit

-- name: count_found
SELECT seq FROM index_entries
WHERE name = :index AND retired = 0
  AND left(value, 200) = ANY (ARRAY(SELECT left(json_array_elements_text(:wanted::json), 200)))
  AND value = ANY (ARRAY(SELECT json_array_elements_text(:wanted::json)))
LIMIT :limit

-- name: stored_in_queue
SELECT * FROM stored_messages WHERE queue = :queue AND seq > :after ORDER BY seq LIMIT :limit
