-- COPY for statements of the same names, for many rows: more round trips to the server, but cheaper for each row.

-- name: insert_message
COPY messages (seq, queue, created, rule, caused_by, origin, hops, priority, processed, retired, retired_at,
               transient, undelivered, timer_due, timer_target, request, slices, entries, checksum) FROM STDIN

-- name: insert_body
COPY bodies (seq, body, properties, checksum) FROM STDIN

-- name: insert_member
COPY slice_members (slicing, key, ended, seq) FROM STDIN

-- name: insert_entry
COPY index_entries (name, value, retired, seq) FROM STDIN

-- name: insert_collection_document
COPY collection_documents (name, position, body, checksum) FROM STDIN

-- name: insert_outbox
COPY outbox (seq, queue, due, attempts, checksum) FROM STDIN
