-- What operators have decided and done. See `operator_records.py`.
-- From here on `processed` of a message to which no rule has reacted is the negated number of its step.

CREATE TABLE pauses (
    kind     text COLLATE "C" NOT NULL,   -- 'queue', 'rule' or 'gateway'
    name     text COLLATE "C" NOT NULL,
    who      text NOT NULL,
    why      text NOT NULL,
    since    bigint NOT NULL,
    checksum bigint,
    PRIMARY KEY (kind, name)
);

CREATE TABLE audit (
    number   bigint PRIMARY KEY,
    at       bigint NOT NULL,
    who      text NOT NULL,
    action   text NOT NULL,
    subject  text NOT NULL,
    why      text NOT NULL,
    result   text NOT NULL,
    details  text NOT NULL,               -- JSON
    checksum bigint
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
