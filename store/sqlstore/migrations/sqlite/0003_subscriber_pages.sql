-- Pages of a subscriber's list in the order of time, as of a status and an error type: a subscriber with some thousand entries among a million would else have them all read and sorted. What the
-- index on subscriber_id alone served, this one serves too, so that it takes its place and its name, and taking entries in costs no more.
DROP INDEX dead_letter_queue_subscriber_id_idx;
CREATE INDEX dead_letter_queue_subscriber_id_idx ON dead_letter_queue (subscriber_id, created_at, id);
