"""Needs a database: TEST_DATABASE_URL=postgres://…"""

import os
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from uuid import uuid4

import psycopg
import pytest

from payments.charges import Charges
from payments.errors import Refused, Unavailable
from payments.payment import Payment

URL = os.environ.get("TEST_DATABASE_URL")

pytestmark = pytest.mark.skipif(not URL, reason="TEST_DATABASE_URL names no database")


@pytest.fixture
def charges():
    charges = Charges(URL)
    charges.migrate()
    yield charges
    charges.close()


@pytest.fixture
def payment():
    return Payment(uuid4(), 7, Decimal("12.50"), "EUR", datetime(2026, 3, 2, tzinfo=timezone.utc))


def stored(payment):
    with psycopg.connect(URL) as connection:
        return connection.execute(
            "SELECT charge, customer, amount FROM charges WHERE payment_id = %s", (payment.payment_id,)
        ).fetchall()


def test_stores(charges, payment):
    charges.store(payment, "c-1")
    assert stored(payment) == [("c-1", 7, Decimal("12.50"))]


def test_stores_once(charges, payment):
    charges.store(payment, "c-1")
    charges.store(payment, "c-1")
    assert stored(payment) == [("c-1", 7, Decimal("12.50"))]


def test_makes_its_table_once(charges):
    charges.migrate()


def test_refuses_what_does_not_fit(charges, payment):
    with pytest.raises(Refused, match="charged as c-1"):
        charges.store(replace(payment, amount=Decimal("1e12")), "c-1")


def test_says_that_the_database_is_away(charges, payment):
    with psycopg.connect(URL, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                           " AND datname = current_database() AND backend_type = 'client backend'")
    with pytest.raises(Unavailable):
        charges.store(payment, "c-1")
    charges.store(payment, "c-1")
    assert stored(payment) == [("c-1", 7, Decimal("12.50"))]
