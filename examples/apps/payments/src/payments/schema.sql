CREATE TABLE IF NOT EXISTS charges (
    payment_id uuid          PRIMARY KEY,
    charge     text          NOT NULL,
    customer   bigint        NOT NULL,
    amount     numeric(12,2) NOT NULL,
    currency   char(3)       NOT NULL,
    ordered_at timestamptz   NOT NULL,
    charged_at timestamptz   NOT NULL DEFAULT now()
)
