-- name: encoding
SHOW server_encoding

-- An acknowledged commit must survive a crash, whatever the server's default is. Stronger settings stay.
-- name: durable
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'

-- Every statement has an index in the order of its result and reads few rows. The planner does not know that before the
-- tables are analyzed, and a cached plan may be older than the rows: no plan may scan a whole table.
-- name: no_full_scans
SELECT set_config(name, 'off', false)
FROM unnest(ARRAY['enable_seqscan', 'enable_bitmapscan', 'enable_mergejoin', 'enable_hashjoin']) AS name

-- The server closes the connection of a writer whose machine has failed, and with it releases the writer's lock.
-- name: notice_dead_peers
SELECT set_config(name, value, false)
FROM (VALUES ('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3'),
             ('tcp_user_timeout', '25000')) AS settings (name, value)

-- name: read_only
SELECT set_config('default_transaction_read_only', 'on', false)

-- A reader waits for locks on whole tables only, which an administrator takes. An evaluator must fail with that before its
-- own timeout, which would be attributed to a rule.
-- name: short_locks
SELECT set_config('lock_timeout', '1s', false)

-- name: limit_statements
SELECT set_config('statement_timeout', ?, false)

-- name: has_tables
SELECT to_regclass(quote_ident(current_schema()) || '.demaq_store') IS NOT NULL

-- name: version
SELECT version FROM demaq_store

-- name: set_version
UPDATE demaq_store SET version = ?

-- name: next_term
UPDATE demaq_store SET term = term + 1 RETURNING term

-- name: term
SELECT term FROM demaq_store

-- name: system_identifier
SELECT system_identifier::text FROM pg_control_system()

-- A new timeline begins when a server is restored or a standby takes over.
-- name: timeline
SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)

-- name: table_identifier
SELECT concat((SELECT oid FROM pg_database WHERE datname = current_database()), '/',
              to_regclass(quote_ident(current_schema()) || '.demaq_store')::oid)

-- name: written_at
SELECT written_at FROM demaq_store

-- name: set_written_at
UPDATE demaq_store SET written_at = ?

-- The lock belongs to the connection: the server releases it when the connection ends, for whatever reason. Polled, because
-- a statement that waits in the server would keep VACUUM from removing old rows.
-- name: try_lock
SELECT pg_try_advisory_lock(1147498833, hashtext(coalesce(current_schema(), '')))

-- name: holder
SELECT a.pid, a.application_name, coalesce(a.client_addr::text, 'this machine')
FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid = 1147498833
  AND l.objid = (hashtext(coalesce(current_schema(), ''))::bigint & 4294967295)::oid
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())

-- name: end_connection
SELECT pg_terminate_backend(?::integer)

-- The first statement of every transaction of a writer: fails (division by zero) if its term is over, and keeps the next
-- term from beginning before the transaction has ended.
-- name: expect_term
SELECT 1 / count(*) FROM (SELECT FROM demaq_store WHERE term = ? FOR SHARE) AS own

-- name: begin_write
BEGIN

-- name: begin_read
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY
