-- A change of the program: what stored messages will be under the next version, until all of it holds.

CREATE TABLE restated (
    seq        INTEGER PRIMARY KEY,
    properties TEXT,             -- as in `bodies`; NULL where they stay as they are
    slices     TEXT,             -- as in `messages`
    entries    TEXT,             -- as in `messages`
    discarded  INTEGER NOT NULL
);

-- At most one row.
CREATE TABLE evolution (
    digest     TEXT NOT NULL,    -- of the next version
    snapshot   INTEGER NOT NULL, -- the newest number when it began: what was noted is about the store as it was then
    done       INTEGER NOT NULL, -- messages up to this number were looked at
    number     INTEGER,          -- the number its activation took: from then on it holds, and is only to be written
    priorities TEXT              -- {queue: priority or null}, to be set last
);

-- Indexes that every visible message of their queues has its entries in.
CREATE TABLE complete_indexes (
    name TEXT PRIMARY KEY
) WITHOUT ROWID;

-- What waits in mailboxes, where messages that were taken may stay in slices.
CREATE INDEX messages_waiting ON messages (queue, seq) WHERE processed IS NULL AND priority IS NULL;

PRAGMA user_version = 2;
