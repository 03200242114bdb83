"""consumer.py with the orders of a poll in one transaction. Orders of one that was refused are written one by one."""

import os

import psycopg

from consumer import INSERT, PLANTED_BUG, logger, process, row, start, stopping, store

SIZE = 50
COLUMNS = "id, customer, total, document"


def executemany(connection, rows):
    with connection.cursor() as cursor:
        cursor.executemany(INSERT, rows)
    return {}


def values(connection, rows):
    places = ", ".join(["(%s, %s, %s, %s)"] * len(rows))
    connection.execute(INSERT.replace("(%s, %s, %s, %s)", places), [value for one in rows for value in one])
    return {}


def copy(connection, rows):
    connection.execute("CREATE TEMPORARY TABLE incoming (LIKE orders) ON COMMIT DROP")
    with connection.cursor() as cursor, cursor.copy(f"COPY incoming ({COLUMNS}) FROM STDIN") as into:
        for one in rows:
            into.write_row(one)
    connection.execute(f"INSERT INTO orders ({COLUMNS}) SELECT {COLUMNS} FROM incoming ON CONFLICT (id) DO NOTHING")
    return {}


def savepoints(connection, rows):
    """Each order is taken back alone if it fails. Returns the failures by the numbers of their orders."""
    failures = {}
    for number, one in enumerate(rows):
        try:
            with connection.transaction():
                connection.execute(INSERT, one)
        except psycopg.Error as failure:
            if connection.broken:
                raise
            failures[number] = failure
    return failures


WAYS = {way.__name__: way for way in (executemany, values, copy, savepoints)}


def write(database, way, messages):
    """Returns what is left to do: messages that are not written, each with its failure if that is known."""
    orders, rows, left = [], [], []
    for message in messages:
        try:
            rows.append(row(message))
            orders.append(message)
        except (ValueError, KeyError, TypeError):
            left.append((message, None))
    if len(rows) < 2:  # alone, as any order that fails
        return [(message, None) for message in messages]
    try:
        with database as connection, connection.transaction():
            failures = way(connection, rows)
    except psycopg.Error as failure:
        logger.info("refused, so one by one: %s", failure)
        return [] if PLANTED_BUG == "refused-ignored" else [(message, None) for message in messages]
    if PLANTED_BUG == "failures-ignored":
        failures = {}
    return left + [(message, failures[number]) for number, message in enumerate(orders) if number in failures]


def main():
    database, producer, consumer = start()
    way = WAYS[os.environ.get("WAY", "executemany")]
    try:
        while not stopping.is_set():
            messages = []
            for message in consumer.consume(SIZE, 1.0):
                if message.error():
                    logger.error("consuming: %s", message.error())
                else:
                    messages.append(message)
            if not messages:
                continue
            left = sorted(write(database, way, messages), key=lambda one: messages.index(one[0]))
            if not all(process(database, producer, message, failure) for message, failure in left):
                break
            for message in messages:
                store(consumer, message)
    finally:
        consumer.close()
    logger.info("closed")


if __name__ == "__main__":
    main()
