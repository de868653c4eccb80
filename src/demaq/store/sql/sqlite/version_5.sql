-- Sequences of WS-ReliableMessaging, their messages, and what WS-Security remembers to recognise repeated messages.

CREATE TABLE sequences (
    direction TEXT NOT NULL,     -- 'in' or 'out'
    name      TEXT NOT NULL,
    queue     TEXT NOT NULL,
    peer      TEXT NOT NULL,
    has_ended INTEGER NOT NULL,
    content   TEXT NOT NULL,
    changed   INTEGER NOT NULL,
    checksum  INTEGER,
    PRIMARY KEY (direction, name)
) WITHOUT ROWID;

CREATE INDEX sequences_in ON sequences (queue, direction, name);
CREATE INDEX sequences_ended ON sequences (changed) WHERE has_ended = 1;

-- Each belongs to a row of `sequences`, which is not removed before it.
CREATE TABLE sequence_messages (
    direction TEXT NOT NULL,
    sequence  TEXT NOT NULL,
    number    INTEGER NOT NULL,
    seq       INTEGER,           -- of an outgoing message
    held      TEXT,              -- an incoming message that waits for those before it
    checksum  INTEGER,
    PRIMARY KEY (direction, sequence, number)
) WITHOUT ROWID;

CREATE TABLE replay_keys (
    key      TEXT PRIMARY KEY,
    until    INTEGER NOT NULL,
    checksum INTEGER
) WITHOUT ROWID;

CREATE INDEX replay_keys_until ON replay_keys (until);

PRAGMA user_version = 5;
