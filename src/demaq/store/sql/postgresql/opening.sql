-- name: encoding
SHOW server_encoding

-- An acknowledged commit must survive a crash, whatever the server's default is. Stronger settings stay.
-- name: durable
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'

-- Every statement of ours has its index, whose order is the order of the answer, and is about few rows. PostgreSQL does
-- not know that before it has counted, and a plan may be older than the rows: none may be one that visits all of them.
-- name: no_full_scans
SELECT set_config(name, 'off', false)
FROM unnest(ARRAY['enable_seqscan', 'enable_bitmapscan', 'enable_mergejoin', 'enable_hashjoin']) AS name

-- The server ends the connection of a writer whose machine is gone, and with it its lock.
-- name: notice_dead_peers
SELECT set_config(name, value, false)
FROM (VALUES ('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3'),
             ('tcp_user_timeout', '25000')) AS settings (name, value)

-- name: read_only
SELECT set_config('default_transaction_read_only', 'on', false)

-- A reader waits for nobody but an administrator who holds a whole table. An evaluator must say so before its own time is
-- over: else the rule that it evaluates is blamed.
-- name: short_locks
SELECT set_config('lock_timeout', '1s', false)

-- name: has_tables
SELECT to_regclass(quote_ident(current_schema()) || '.demaq_store') IS NOT NULL

-- name: version
SELECT version FROM demaq_store

-- name: set_version
UPDATE demaq_store SET version = %s

-- name: next_term
UPDATE demaq_store SET term = term + 1 RETURNING term

-- name: term
SELECT term FROM demaq_store

-- The lock belongs to the connection: the server drops it with its holder, however that one ends. Asking again and again
-- instead of waiting in the server, because a statement that waits keeps the server from clearing away old rows.
-- name: system_identifier
SELECT system_identifier::text FROM pg_control_system()

-- Which of the histories of that cluster it is: another one begins where a server is restored or a standby takes over.
-- name: timeline
SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)

-- name: table_identifier
SELECT concat((SELECT oid FROM pg_database WHERE datname = current_database()), '/',
              to_regclass(quote_ident(current_schema()) || '.demaq_store')::oid)

-- name: written_at
SELECT written_at FROM demaq_store

-- name: set_written_at
UPDATE demaq_store SET written_at = %s

-- name: try_lock
SELECT pg_try_advisory_lock(1147498833, hashtext(coalesce(current_schema(), '')))

-- name: holder
SELECT a.pid, a.application_name, coalesce(a.client_addr::text, 'this machine')
FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid = 1147498833
  AND l.objid = (hashtext(coalesce(current_schema(), ''))::bigint & 4294967295)::oid
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())

-- name: end_connection
SELECT pg_terminate_backend(%s::integer)

-- The first statement of every transaction of a writer: fails where its term is over, and keeps the next one from
-- beginning before the transaction has ended.
-- name: expect_term
SELECT 1 / count(*) FROM (SELECT FROM demaq_store WHERE term = %s FOR SHARE) AS own

-- name: begin
BEGIN

-- name: begin_reading
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: commit
COMMIT

-- name: rollback
ROLLBACK
