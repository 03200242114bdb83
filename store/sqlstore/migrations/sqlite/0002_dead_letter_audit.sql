-- Every change of an entry, whoever makes it, by the database's clock: seq is the order of the commits, for there is one writer at a time.
CREATE TABLE dead_letter_audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    operation TEXT NOT NULL,
    entry_id TEXT NOT NULL,
    old_status TEXT,
    new_status TEXT,
    old_held TEXT,
    new_held TEXT,
    old_locked_by TEXT,
    new_locked_by TEXT,
    old_version INTEGER,
    new_version INTEGER,
    dlq_retry_count INTEGER,
    next_retry_at TEXT,
    lease_until TEXT,
    resolution_strategy TEXT,
    retry_strategy TEXT
);
CREATE INDEX dead_letter_audit_entry_id_idx ON dead_letter_audit (entry_id);

CREATE TRIGGER dead_letter_queue_audit_insert AFTER INSERT ON dead_letter_queue BEGIN
    INSERT INTO dead_letter_audit (operation, entry_id, new_status, new_held, new_locked_by, new_version, dlq_retry_count, next_retry_at, lease_until, resolution_strategy, retry_strategy)
    VALUES ('insert', NEW.id, NEW.status, NEW.held, NEW.locked_by, NEW.version, NEW.dlq_retry_count, NEW.next_retry_at, NEW.lease_until, NEW.resolution_strategy, NEW.retry_strategy);
END;
CREATE TRIGGER dead_letter_queue_audit_update AFTER UPDATE ON dead_letter_queue BEGIN
    INSERT INTO dead_letter_audit (operation, entry_id, old_status, new_status, old_held, new_held, old_locked_by, new_locked_by, old_version, new_version, dlq_retry_count, next_retry_at, lease_until, resolution_strategy, retry_strategy)
    VALUES ('update', NEW.id, OLD.status, NEW.status, OLD.held, NEW.held, OLD.locked_by, NEW.locked_by, OLD.version, NEW.version, NEW.dlq_retry_count, NEW.next_retry_at, NEW.lease_until, NEW.resolution_strategy, NEW.retry_strategy);
END;
CREATE TRIGGER dead_letter_queue_audit_delete AFTER DELETE ON dead_letter_queue BEGIN
    INSERT INTO dead_letter_audit (operation, entry_id, old_status, old_held, old_locked_by, old_version, dlq_retry_count, next_retry_at, lease_until, resolution_strategy, retry_strategy)
    VALUES ('delete', OLD.id, OLD.status, OLD.held, OLD.locked_by, OLD.version, OLD.dlq_retry_count, OLD.next_retry_at, OLD.lease_until, OLD.resolution_strategy, OLD.retry_strategy);
END;
