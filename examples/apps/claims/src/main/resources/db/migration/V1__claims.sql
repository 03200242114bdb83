CREATE TABLE claim (
    id          uuid    PRIMARY KEY,
    policy      text    NOT NULL,
    kind        text    NOT NULL,
    cents       bigint  NOT NULL CHECK (cents > 0),
    happened_on date    NOT NULL,
    risk        int     NOT NULL
);
