-- The first tables: those of SQLite, with indexes as PostgreSQL needs them. What a message says never changes and lies
-- in `bodies`; what becomes of it lies in the narrow rows of `messages`.
-- Times are microseconds since 1970, in UTC. Texts compare by code point. An index takes only the start of a text that
-- comes from messages, because PostgreSQL refuses to index long ones: the start narrows, the whole text decides.
-- Rows that change leave old ones behind, which readers of an index pass by until they are cleared away: soon, please.

CREATE TABLE demaq_store (
    version integer NOT NULL,
    term    bigint NOT NULL  -- how many writers there have been
);

INSERT INTO demaq_store (version, term) VALUES (1, 0);

CREATE TABLE messages (
    seq          bigint PRIMARY KEY,
    queue        text COLLATE "C" NOT NULL,
    created      bigint NOT NULL,
    rule         text,
    caused_by    bigint,
    origin       bigint NOT NULL,
    hops         bigint NOT NULL,
    priority     bigint,
    processed    bigint,
    retired      bigint,
    retired_at   bigint,
    transient    smallint NOT NULL,
    undelivered  smallint NOT NULL,
    timer_due    bigint,
    timer_target text,
    request      text,
    slices       text,  -- [[slicing, key, ended], …], ended 0 while it is in the slice
    entries      text   -- [[index, value], …]
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX messages_stored ON messages (queue, seq);
-- Messages kept for audit must not slow down a queue's readers.
CREATE INDEX messages_visible ON messages (queue, seq) WHERE retired IS NULL;
CREATE INDEX messages_retired_since ON messages (queue, retired) WHERE retired IS NOT NULL;
CREATE INDEX messages_pending ON messages (priority DESC, seq) WHERE processed IS NULL AND priority IS NOT NULL;
CREATE INDEX messages_waiting ON messages (queue, seq) WHERE processed IS NULL AND priority IS NULL;
CREATE INDEX messages_timers ON messages (timer_due, seq) WHERE processed IS NULL AND timer_due IS NOT NULL;
CREATE INDEX messages_retired ON messages (retired_at, seq) WHERE retired_at IS NOT NULL;
CREATE INDEX messages_caused ON messages (caused_by, seq) WHERE caused_by IS NOT NULL;
CREATE INDEX messages_transient ON messages (seq) WHERE transient = 1;

CREATE TABLE bodies (
    seq        bigint PRIMARY KEY,
    body       text NOT NULL,
    properties text NOT NULL  -- {name: [type, text] or [type, text, key]}
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
    slicing text COLLATE "C" NOT NULL,
    ended   bigint NOT NULL,
    key     text COLLATE "C" NOT NULL,
    seq     bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX slice_members_by_key ON slice_members (slicing, ended, left(key, 200), seq);

-- The same for index entries: those of visible messages have retired = 0.
CREATE TABLE index_entries (
    name    text COLLATE "C" NOT NULL,
    retired bigint NOT NULL,
    value   text COLLATE "C" NOT NULL,
    seq     bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX index_entries_by_value ON index_entries (name, retired, left(value, 200), seq);

-- A request is remembered for a while after its message was removed.
CREATE TABLE requests (
    request text COLLATE "C" NOT NULL,
    seq     bigint NOT NULL,
    removed bigint
);

CREATE INDEX requests_by_name ON requests (left(request, 200));
CREATE INDEX requests_removed ON requests (removed) WHERE removed IS NOT NULL;

-- Written with every commit: room in each page keeps the new rows beside the old ones.
CREATE TABLE queue_counts (
    queue       text COLLATE "C" PRIMARY KEY,
    visible     bigint NOT NULL,
    unprocessed bigint NOT NULL
) WITH (fillfactor = 20);

CREATE TABLE numbers (
    newest bigint NOT NULL
) WITH (fillfactor = 20);

INSERT INTO numbers (newest) VALUES (0);

CREATE TABLE collections (
    name    text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL
);

CREATE TABLE collection_documents (
    name     text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    body     text NOT NULL,
    PRIMARY KEY (name, position)
);

CREATE TABLE programs (
    number bigint PRIMARY KEY,
    digest text NOT NULL,
    files  text NOT NULL,
    at     bigint NOT NULL
);

-- A change of the program: what stored messages will be under the next version, until all of it holds.
CREATE TABLE restated (
    seq        bigint PRIMARY KEY,
    properties text,             -- as in `bodies`; NULL where they stay as they are
    slices     text,             -- as in `messages`
    entries    text,             -- as in `messages`
    discarded  smallint NOT NULL
);

-- At most one row.
CREATE TABLE evolution (
    digest     text NOT NULL,    -- of the next version
    snapshot   bigint NOT NULL,  -- the newest number when it began: what was noted is about the store as it was then
    done       bigint NOT NULL,  -- messages up to this number were looked at
    number     bigint,           -- the number its activation took: from then on it holds, and is only to be written
    priorities text              -- {queue: priority or null}, to be set last
);

-- Indexes that every visible message of their queues has its entries in.
CREATE TABLE complete_indexes (
    name text COLLATE "C" NOT NULL
);
