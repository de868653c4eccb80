-- Every row can be told intact or not: see `checksums.py`. Rows from before have no checksum, and nothing is known of them.
-- What follows from the messages has none of its own: members, index entries and counts.

ALTER TABLE messages ADD COLUMN checksum INTEGER;
ALTER TABLE bodies ADD COLUMN checksum INTEGER;
ALTER TABLE requests ADD COLUMN checksum INTEGER;
ALTER TABLE outbox ADD COLUMN checksum INTEGER;
ALTER TABLE attempts ADD COLUMN checksum INTEGER;
ALTER TABLE answers ADD COLUMN checksum INTEGER;
ALTER TABLE collections ADD COLUMN checksum INTEGER;
ALTER TABLE collection_documents ADD COLUMN checksum INTEGER;
ALTER TABLE programs ADD COLUMN checksum INTEGER;
ALTER TABLE restated ADD COLUMN checksum INTEGER;
ALTER TABLE complete_indexes ADD COLUMN checksum INTEGER;

-- How many transactions there were: with each the store's mark says the same, so that a log that was cut is noticed.
ALTER TABLE numbers ADD COLUMN commits INTEGER NOT NULL DEFAULT 0;
ALTER TABLE numbers ADD COLUMN checksum INTEGER;

DROP VIEW stored_messages;

CREATE VIEW stored_messages AS
    SELECT m.seq AS seq, m.queue AS queue, b.body AS body, b.properties AS properties, m.created AS created,
           m.rule AS rule, m.caused_by AS caused_by, m.origin AS origin, m.hops AS hops, m.slices AS slices,
           m.processed AS processed, m.retired AS retired, m.timer_due AS timer_due, m.timer_target AS timer_target,
           m.transient AS transient, m.undelivered AS undelivered, m.priority AS priority, b.checksum AS checksum
    FROM messages m JOIN bodies b ON b.seq = m.seq;

-- What this store is called by others. A new name holds from a number on: those of older messages stay as they are.
CREATE TABLE epochs (
    first    INTEGER PRIMARY KEY,
    name     TEXT NOT NULL,
    checksum INTEGER
);

INSERT INTO epochs (first, name) SELECT 0, name FROM identity;
DROP TABLE identity;

PRAGMA user_version = 4;
