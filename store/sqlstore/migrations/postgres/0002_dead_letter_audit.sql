-- Every change of an entry, whoever makes it, by the database's clock (see docs/dead-letter-store.md for how to read it without missing a row).
CREATE TABLE dead_letter_audit (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    transaction_id XID8 NOT NULL DEFAULT pg_current_xact_id(),
    at TIMESTAMP NOT NULL DEFAULT (clock_timestamp() AT TIME ZONE 'UTC'),
    operation VARCHAR(10) NOT NULL,
    entry_id UUID NOT NULL,
    old_status VARCHAR(50),
    new_status VARCHAR(50),
    old_held VARCHAR(50),
    new_held VARCHAR(50),
    old_locked_by VARCHAR(255),
    new_locked_by VARCHAR(255),
    old_version BIGINT,
    new_version BIGINT,
    dlq_retry_count INTEGER,
    next_retry_at TIMESTAMP,
    lease_until TIMESTAMP,
    resolution_strategy VARCHAR(50),
    retry_strategy VARCHAR(50)
);
CREATE INDEX dead_letter_audit_transaction_id_idx ON dead_letter_audit (transaction_id, seq);
CREATE INDEX dead_letter_audit_entry_id_idx ON dead_letter_audit (entry_id);

CREATE FUNCTION dead_letter_queue_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO dead_letter_audit (operation, entry_id, new_status, new_held, new_locked_by, new_version, dlq_retry_count, next_retry_at, lease_until, resolution_strategy, retry_strategy)
        VALUES ('insert', NEW.id, NEW.status, NEW.held, NEW.locked_by, NEW.version, NEW.dlq_retry_count, NEW.next_retry_at, NEW.lease_until, NEW.resolution_strategy, NEW.retry_strategy);
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO dead_letter_audit (operation, entry_id, old_status, new_status, old_held, new_held, old_locked_by, new_locked_by, old_version, new_version, dlq_retry_count, next_retry_at, lease_until, resolution_strategy, retry_strategy)
        VALUES ('update', NEW.id, OLD.status, NEW.status, OLD.held, NEW.held, OLD.locked_by, NEW.locked_by, OLD.version, NEW.version, NEW.dlq_retry_count, NEW.next_retry_at, NEW.lease_until, NEW.resolution_strategy, NEW.retry_strategy);
    ELSE
        INSERT INTO dead_letter_audit (operation, entry_id, old_status, old_held, old_locked_by, old_version, dlq_retry_count, next_retry_at, lease_until, resolution_strategy, retry_strategy)
        VALUES ('delete', OLD.id, OLD.status, OLD.held, OLD.locked_by, OLD.version, OLD.dlq_retry_count, OLD.next_retry_at, OLD.lease_until, OLD.resolution_strategy, OLD.retry_strategy);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER dead_letter_queue_audit AFTER INSERT OR UPDATE OR DELETE ON dead_letter_queue
    FOR EACH ROW EXECUTE FUNCTION dead_letter_queue_audit();
