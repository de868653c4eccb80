-- What outgoing gateways are still to send, what became of their attempts, and answers that may be asked for again.

-- Each of these messages is sent when it is due.
CREATE TABLE outbox (
    seq      INTEGER PRIMARY KEY,
    queue    TEXT NOT NULL,
    due      INTEGER NOT NULL,
    attempts INTEGER NOT NULL
);

CREATE INDEX outbox_due ON outbox (queue, due, seq);

INSERT INTO outbox (seq, queue, due, attempts) SELECT seq, queue, created, 0 FROM messages WHERE undelivered = 1;

-- Remembered for a while longer than their messages.
CREATE TABLE attempts (
    number      INTEGER PRIMARY KEY,
    seq         INTEGER NOT NULL,
    queue       TEXT NOT NULL,
    attempt     INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    seconds     REAL NOT NULL,
    destination TEXT NOT NULL,
    result      TEXT NOT NULL,
    status      TEXT,
    kind        TEXT,
    reason      TEXT
);

CREATE INDEX attempts_of ON attempts (seq);
CREATE INDEX attempts_in ON attempts (queue, number);

CREATE TABLE answers (
    connection   TEXT PRIMARY KEY,
    status       INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    body         TEXT NOT NULL,
    at           INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX answers_at ON answers (at);

-- What this store is called by others, so that they know its messages again.
CREATE TABLE identity (
    name TEXT NOT NULL
);

INSERT INTO identity (name) VALUES (lower(hex(randomblob(16))));

PRAGMA user_version = 3;
