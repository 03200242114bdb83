-- The table, columns, types and indexes of the management schema, and what locks, leases, priorities and versions need. Times are UTC, as text
-- of one width to the millisecond (2026-02-11T12:00:00.000Z), which is in the order of time.
-- What may be long comes last: what lies behind a long value is slow to read.
CREATE TABLE dead_letter_queue (
    id TEXT NOT NULL PRIMARY KEY,
    event_id TEXT,
    subscriber_id TEXT,
    error_type TEXT,
    error_code TEXT,
    retry_count INTEGER NOT NULL,
    max_retries INTEGER NOT NULL,
    status TEXT NOT NULL,
    resolution_timestamp TEXT,
    resolution_strategy TEXT,
    resolved_by TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    held TEXT NOT NULL DEFAULT '',
    source_topic TEXT NOT NULL,
    source_partition INTEGER NOT NULL,
    source_offset INTEGER NOT NULL,
    letter_topic TEXT NOT NULL,
    letter_partition INTEGER NOT NULL,
    letter_offset INTEGER NOT NULL,
    dialect TEXT NOT NULL,
    first_failed_at TEXT,
    last_failed_at TEXT,
    dlq_retry_count INTEGER NOT NULL DEFAULT 0,
    retry_strategy TEXT NOT NULL DEFAULT '',
    next_retry_at TEXT,
    priority INTEGER NOT NULL DEFAULT 0,
    locked_by TEXT,
    locked_at TEXT,
    lease_until TEXT,
    service TEXT NOT NULL DEFAULT '',

    original_event TEXT NOT NULL,
    error_message TEXT,
    error_stack_trace TEXT,
    error_context TEXT,
    retry_history TEXT NOT NULL,
    resolution_notes TEXT,
    original_key BLOB,
    original_value BLOB,
    original_headers TEXT NOT NULL,
    tags TEXT NOT NULL
);

CREATE INDEX dead_letter_queue_event_id_idx ON dead_letter_queue (event_id);
CREATE INDEX dead_letter_queue_subscriber_id_idx ON dead_letter_queue (subscriber_id);
CREATE INDEX dead_letter_queue_status_idx ON dead_letter_queue (status);
CREATE INDEX dead_letter_queue_error_type_idx ON dead_letter_queue (error_type);
CREATE INDEX dead_letter_queue_created_at_idx ON dead_letter_queue (created_at);
CREATE INDEX dead_letter_queue_updated_at_idx ON dead_letter_queue (updated_at);
CREATE INDEX dead_letter_queue_original_event_pattern_idx ON dead_letter_queue ((original_event->>'pattern'));

-- What workers ask for: due entries, highest priority first, then oldest.
CREATE INDEX dead_letter_queue_claim_idx ON dead_letter_queue (status, held, priority DESC, created_at, id, next_retry_at)
    WHERE locked_by IS NULL AND next_retry_at IS NOT NULL;
-- Pages of a filtered list in the order of time, and by priority.
CREATE INDEX dead_letter_queue_status_created_at_idx ON dead_letter_queue (status, held, created_at, id);
CREATE INDEX dead_letter_queue_error_type_created_at_idx ON dead_letter_queue (error_type, created_at, id);
CREATE INDEX dead_letter_queue_priority_idx ON dead_letter_queue (priority, created_at, id);

-- One entry per source coordinate.
CREATE UNIQUE INDEX dead_letter_queue_source_idx ON dead_letter_queue (source_topic, source_partition, source_offset);
