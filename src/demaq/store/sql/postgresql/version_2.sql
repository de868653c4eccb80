-- What outgoing gateways are still to send, what became of their attempts, and answers that may be asked for again.

-- Each of these messages is sent when it is due.
CREATE TABLE outbox (
    seq      bigint PRIMARY KEY,
    queue    text COLLATE "C" NOT NULL,
    due      bigint NOT NULL,
    attempts bigint NOT NULL
);

CREATE INDEX outbox_due ON outbox (queue, due, seq);

INSERT INTO outbox (seq, queue, due, attempts) SELECT seq, queue, created, 0 FROM messages WHERE undelivered = 1;

-- Remembered for a while longer than their messages.
CREATE TABLE attempts (
    number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq         bigint NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    attempt     bigint NOT NULL,
    at          bigint NOT NULL,
    seconds     double precision NOT NULL,
    destination text NOT NULL,
    result      text NOT NULL,
    status      text,
    kind        text,
    reason      text
);

CREATE INDEX attempts_of ON attempts (seq);
CREATE INDEX attempts_in ON attempts (queue, number);

CREATE TABLE answers (
    connection   text COLLATE "C" PRIMARY KEY,
    status       bigint NOT NULL,
    content_type text NOT NULL,
    body         text NOT NULL,
    at           bigint NOT NULL
);

CREATE INDEX answers_at ON answers (at);

-- What this store is called by others, so that they know its messages again.
CREATE TABLE identity (
    name text NOT NULL
);

INSERT INTO identity (name) VALUES (replace(gen_random_uuid()::text, '-', ''));
