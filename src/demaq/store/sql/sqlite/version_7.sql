-- All messages of a queue, in order, are the visible ones and the kept ones: an index of the kept ones alone takes the place
-- of one of all, which each new message had to be written to although it is in `messages_visible` anyway.

DROP INDEX messages_stored;
-- With `retired`, so that a scan finds its end without the rows.
CREATE INDEX messages_kept ON messages (queue, seq, retired) WHERE retired IS NOT NULL;

PRAGMA user_version = 7;
