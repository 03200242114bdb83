-- Each transfer has two entries, which add up to zero.
CREATE TABLE IF NOT EXISTS entries (
    transfer_id uuid        NOT NULL,
    account     text        NOT NULL,
    cents       bigint      NOT NULL CHECK (cents <> 0),
    currency    char(3)     NOT NULL,
    booked_for  timestamptz NOT NULL,
    reference   text        NOT NULL,
    PRIMARY KEY (transfer_id, account)
);
