-- Sequences of WS-ReliableMessaging, their messages, and what WS-Security remembers to recognise repeated messages.
-- Names and keys come from other nodes and may be long: see version_1.sql.

CREATE TABLE sequences (
    direction text COLLATE "C" NOT NULL,  -- 'in' or 'out'
    name      text COLLATE "C" NOT NULL,
    queue     text COLLATE "C" NOT NULL,
    peer      text NOT NULL,
    has_ended smallint NOT NULL,
    content   text NOT NULL,
    changed   bigint NOT NULL,
    checksum  bigint
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX sequences_by_name ON sequences (direction, left(name, 200));
CREATE INDEX sequences_in ON sequences (queue, direction);
CREATE INDEX sequences_ended ON sequences (changed) WHERE has_ended = 1;

-- Each belongs to a row of `sequences`, which is not removed before it.
CREATE TABLE sequence_messages (
    direction text COLLATE "C" NOT NULL,
    sequence  text COLLATE "C" NOT NULL,
    number    bigint NOT NULL,
    seq       bigint,                     -- of an outgoing message
    held      text,                       -- an incoming message that waits for those before it
    checksum  bigint
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX sequence_messages_by_number ON sequence_messages (direction, left(sequence, 200), number);

CREATE TABLE replay_keys (
    key      text COLLATE "C" NOT NULL,
    until    bigint NOT NULL,
    checksum bigint
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX replay_keys_by_key ON replay_keys (left(key, 200));
CREATE INDEX replay_keys_until ON replay_keys (until);
