"""The charges, in PostgreSQL."""

from importlib import resources

import psycopg
from psycopg_pool import ConnectionPool

from payments.errors import Refused, Unavailable

INSERT = """
    INSERT INTO charges (payment_id, charge, customer, amount, currency, ordered_at)
    VALUES (%(payment_id)s, %(charge)s, %(customer)s, %(amount)s, %(currency)s, %(ordered_at)s)
    ON CONFLICT (payment_id) DO NOTHING
"""


class Charges:
    def __init__(self, url):
        # The worker handles one payment at a time. The pool makes a new connection when the database was away.
        options = {"connect_timeout": 2, "options": "-c statement_timeout=2000"}
        self._pool = ConnectionPool(url, kwargs=options, min_size=1, max_size=1, timeout=2.0, open=True)

    def close(self):
        self._pool.close()

    def migrate(self):
        """Makes the table. The lock keeps workers that start together apart."""
        schema = resources.files("payments").joinpath("schema.sql").read_text(encoding="utf-8")
        with self._pool.connection(timeout=30.0) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(20260302)")
            connection.execute(schema)

    def store(self, payment, charge):
        """Stores the charge of a payment. One that came before is there already."""
        try:
            with self._pool.connection() as connection:
                connection.execute(INSERT, vars(payment) | {"charge": charge})
        except psycopg.OperationalError as error:
            raise Unavailable(f"the database: {error!r}") from error
        except psycopg.Error as error:
            raise Refused(f"charged as {charge}, but not stored: {error}") from error
