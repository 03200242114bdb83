-- The table, columns, types and indexes of the management schema, and what locks, leases, priorities and versions need. Times are UTC.
CREATE TABLE dead_letter_queue (
    id UUID NOT NULL,
    event_id VARCHAR(255),
    subscriber_id VARCHAR(255),
    original_event JSONB NOT NULL,
    error_message TEXT,
    error_type VARCHAR(100),
    error_code VARCHAR(100),
    error_stack_trace TEXT,
    error_context JSONB,
    retry_history JSONB NOT NULL,
    retry_count INTEGER NOT NULL,
    max_retries INTEGER NOT NULL,
    status VARCHAR(50) NOT NULL,
    resolution_timestamp TIMESTAMP,
    resolution_strategy VARCHAR(50),
    resolved_by VARCHAR(255),
    resolution_notes TEXT,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,

    version BIGINT NOT NULL DEFAULT 1,
    held VARCHAR(50) NOT NULL DEFAULT '',
    source_topic TEXT NOT NULL,
    source_partition INTEGER NOT NULL,
    source_offset BIGINT NOT NULL,
    letter_topic TEXT NOT NULL,
    letter_partition INTEGER NOT NULL,
    letter_offset BIGINT NOT NULL,
    dialect TEXT NOT NULL,
    original_key BYTEA,
    original_value BYTEA,
    original_headers JSONB NOT NULL,
    first_failed_at TIMESTAMP,
    last_failed_at TIMESTAMP,
    dlq_retry_count INTEGER NOT NULL DEFAULT 0,
    retry_strategy VARCHAR(50) NOT NULL DEFAULT '',
    next_retry_at TIMESTAMP,
    priority INTEGER NOT NULL DEFAULT 0,
    locked_by VARCHAR(255),
    locked_at TIMESTAMP,
    lease_until TIMESTAMP,
    service TEXT NOT NULL DEFAULT '',
    tags JSONB NOT NULL,
    PRIMARY KEY (id, created_at)
) PARTITION BY RANGE (created_at);

CREATE INDEX dead_letter_queue_event_id_idx ON dead_letter_queue (event_id);
CREATE INDEX dead_letter_queue_subscriber_id_idx ON dead_letter_queue (subscriber_id);
CREATE INDEX dead_letter_queue_status_idx ON dead_letter_queue (status);
CREATE INDEX dead_letter_queue_error_type_idx ON dead_letter_queue (error_type);
CREATE INDEX dead_letter_queue_created_at_idx ON dead_letter_queue (created_at);
CREATE INDEX dead_letter_queue_updated_at_idx ON dead_letter_queue (updated_at);
-- text_pattern_ops: so that "payment.*" can use it whatever the database's collation is.
CREATE INDEX dead_letter_queue_original_event_pattern_idx ON dead_letter_queue ((original_event->>'pattern') text_pattern_ops);

-- What workers ask for: due entries, highest priority first, then oldest.
CREATE INDEX dead_letter_queue_claim_idx ON dead_letter_queue (status, held, priority DESC, created_at, id, next_retry_at)
    WHERE locked_by IS NULL AND next_retry_at IS NOT NULL;
-- Pages of a filtered list in the order of time, and by priority.
CREATE INDEX dead_letter_queue_status_created_at_idx ON dead_letter_queue (status, held, created_at, id);
CREATE INDEX dead_letter_queue_error_type_created_at_idx ON dead_letter_queue (error_type, created_at, id);
CREATE INDEX dead_letter_queue_priority_idx ON dead_letter_queue (priority, created_at, id);

-- One row per source coordinate: a unique index of the queue itself would have to include created_at.
CREATE TABLE dead_letter_source (
    source_topic TEXT NOT NULL,
    source_partition INTEGER NOT NULL,
    source_offset BIGINT NOT NULL,
    entry_id UUID NOT NULL UNIQUE,
    PRIMARY KEY (source_topic, source_partition, source_offset)
);
