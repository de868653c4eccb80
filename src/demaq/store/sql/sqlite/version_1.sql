-- The first tables. What a message says never changes and lies in `bodies`; what becomes of it lies in the narrow rows
-- of `messages`, so that a processed mark rewrites a few bytes and not a document.
-- Times are microseconds since 1970, in UTC.

CREATE TABLE messages (
    seq          INTEGER PRIMARY KEY,
    queue        TEXT NOT NULL,
    created      INTEGER NOT NULL,
    rule         TEXT,
    caused_by    INTEGER,
    origin       INTEGER NOT NULL,
    hops         INTEGER NOT NULL,
    priority     INTEGER,
    processed    INTEGER,
    retired      INTEGER,
    retired_at   INTEGER,
    transient    INTEGER NOT NULL,
    undelivered  INTEGER NOT NULL,
    timer_due    INTEGER,
    timer_target TEXT,
    request      TEXT,
    slices       TEXT,  -- [[slicing, key, ended], …], ended 0 while it is in the slice
    entries      TEXT   -- [[index, value], …]
);

CREATE INDEX messages_stored ON messages (queue);
-- Messages kept for audit must not slow down a queue's readers: NULLs first, so the visible ones lie together.
CREATE INDEX messages_visible ON messages (queue, retired);
CREATE INDEX messages_pending ON messages (priority DESC, seq) WHERE processed IS NULL AND priority IS NOT NULL;
CREATE INDEX messages_timers ON messages (timer_due, seq) WHERE processed IS NULL AND timer_due IS NOT NULL;
CREATE INDEX messages_retired ON messages (retired_at, seq) WHERE retired_at IS NOT NULL;
CREATE INDEX messages_caused ON messages (caused_by) WHERE caused_by IS NOT NULL;
CREATE INDEX messages_transient ON messages (seq) WHERE transient = 1;

CREATE TABLE bodies (
    seq        INTEGER PRIMARY KEY,
    body       TEXT NOT NULL,
    properties TEXT NOT NULL  -- {name: [type, text] or [type, text, key]}
);

CREATE VIEW stored_messages AS
    SELECT m.seq AS seq, m.queue AS queue, b.body AS body, b.properties AS properties, m.created AS created,
           m.rule AS rule, m.caused_by AS caused_by, m.origin AS origin, m.hops AS hops, m.slices AS slices,
           m.processed AS processed, m.retired AS retired, m.timer_due AS timer_due, m.timer_target AS timer_target,
           m.transient AS transient, m.undelivered AS undelivered, m.priority AS priority
    FROM messages m JOIN bodies b ON b.seq = m.seq;

-- Current memberships (ended = 0) lie together by key; those that a reset ended lie behind them, by its number, for
-- snapshots taken before it.
CREATE TABLE slice_members (
    slicing TEXT NOT NULL,
    ended   INTEGER NOT NULL,
    key     TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    PRIMARY KEY (slicing, ended, key, seq)
) WITHOUT ROWID;

-- The same for index entries: those of visible messages have retired = 0.
CREATE TABLE index_entries (
    name    TEXT NOT NULL,
    retired INTEGER NOT NULL,
    value   TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    PRIMARY KEY (name, retired, value, seq)
) WITHOUT ROWID;

-- A request is remembered for a while after its message was removed.
CREATE TABLE requests (
    request TEXT PRIMARY KEY,
    seq     INTEGER NOT NULL,
    removed INTEGER
) WITHOUT ROWID;

CREATE INDEX requests_removed ON requests (removed) WHERE removed IS NOT NULL;

CREATE TABLE queue_counts (
    queue       TEXT PRIMARY KEY,
    visible     INTEGER NOT NULL,
    unprocessed INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE numbers (
    newest INTEGER NOT NULL
);

INSERT INTO numbers (newest) VALUES (0);

CREATE TABLE collections (
    name    TEXT PRIMARY KEY,
    version INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE collection_documents (
    name     TEXT NOT NULL,
    position INTEGER NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (name, position)
);

CREATE TABLE programs (
    number INTEGER PRIMARY KEY,
    digest TEXT NOT NULL,
    files  TEXT NOT NULL,
    at     INTEGER NOT NULL
);

PRAGMA application_id = 1147498833; -- "DemQ"
PRAGMA user_version = 1;
