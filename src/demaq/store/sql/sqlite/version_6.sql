-- What operators have decided and done. See `operator_records.py`.
-- From here on `processed` of a message to which no rule has reacted is the negated number of its step.

CREATE TABLE pauses (
    kind     TEXT NOT NULL,      -- 'queue', 'rule' or 'gateway'
    name     TEXT NOT NULL,
    who      TEXT NOT NULL,
    why      TEXT NOT NULL,
    since    INTEGER NOT NULL,
    checksum INTEGER,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;

CREATE TABLE audit (
    number   INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,
    who      TEXT NOT NULL,
    action   TEXT NOT NULL,
    subject  TEXT NOT NULL,
    why      TEXT NOT NULL,
    result   TEXT NOT NULL,
    details  TEXT NOT NULL,      -- JSON
    checksum INTEGER
);

-- A message without its text, for searches. `state` has one bit for what becomes of it next (see `message_scan.py`), and
-- 32 if no rule has reacted to it.
CREATE VIEW message_heads AS
    SELECT seq, queue, created, rule, caused_by, origin, processed, retired, timer_due, undelivered, slices,
           CASE WHEN undelivered = 1 THEN 1
                WHEN processed IS NULL AND timer_due IS NOT NULL THEN 4
                WHEN processed IS NULL AND priority IS NOT NULL THEN 1
                WHEN processed IS NULL THEN 2
                WHEN retired IS NULL THEN 8
                ELSE 16 END
           + CASE WHEN processed < 0 THEN 32 ELSE 0 END AS state
    FROM messages;

PRAGMA user_version = 6;
