"""A Kafka consumer that retries and dead-letters, to start from.

One worker per partition takes its records in order: it calls the downstream, retries in place with backoff, writes what keeps failing to
the dead-letter topic, waits until that is acknowledged, and only then reports the record as finished. The main thread alone talks to the
consumer: it polls, hands records to the workers, and commits the offsets of finished records.
"""

import http.client
import json
import logging
import os
import queue
import random
import signal
import threading
import time
import urllib.parse

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

# The promises that subject.yaml makes; times in seconds.
MAX_ATTEMPTS = 3  # the first included
FIRST_BACKOFF, MAX_BACKOFF, BACKOFF_JITTER = 0.020, 0.200, 0.010
ATTEMPT_TIMEOUT = 0.5

COMMIT_INTERVAL = 0.1
# An orderly stop waits for so long until its partitions are given up; its contract allows 5 s in all.
LEAVE_TIMEOUT = 2

# A partition is paused when its worker has this many records before it, and goes on when few are left.
PAUSE_AT, RESUME_AT = 200, 20

FAILURE_HEADERS = {"x-error-reason", "x-retry-attempt", "source-topic", "partition", "offset", "epoch"}

log = logging.getLogger("consumer")


class Failure(Exception):
    """An attempt that went wrong."""

    def __init__(self, reason, permanent=False, logical=False, retry_after=0.0):
        super().__init__(reason)
        self.reason, self.permanent, self.logical, self.retry_after = reason, permanent, logical, retry_after


class Downstream:
    """The service that every record is posted to, on one connection that is kept open."""

    def __init__(self, url):
        self.address = urllib.parse.urlsplit(url).netloc
        self.connection = None

    def call(self, record):
        """Makes one attempt; raises Failure."""
        headers = {
            "X-Kafka-Topic": record.topic(),
            "X-Kafka-Partition": str(record.partition()),
            "X-Kafka-Offset": str(record.offset()),
        }
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection(self.address, timeout=ATTEMPT_TIMEOUT)
            self.connection.request("POST", "/v1/attempt", body=record.value() or b"", headers=headers)
            response = self.connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            if self.connection is not None:
                self.connection.close()
            self.connection = None
            raise Failure(f"{type(error).__name__}: {error}") from error
        if response.status == 200:
            return
        try:
            reason = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            reason = f"HTTP {response.status}"
        raise Failure(
            reason,
            permanent=response.status == 400,
            logical=response.status == 422,
            retry_after=float(response.getheader("Retry-After") or 0),
        )


class Letters:
    """The producer of dead letters. One that met a fatal error never writes again (an idempotent producer whose sequence the broker does not know), so that
    another takes its place."""

    def __init__(self, config):
        self.config, self.producer, self.replacing = config, Producer(config), threading.Lock()

    def poll(self, producer):
        """Waits a while for acknowledgements. A producer that was replaced sends nothing any more, but what it has sent may still be acknowledged."""
        try:
            producer.poll(0.05)
        except KafkaException as error:  # raised in any thread, not only in that of the letter that it is about
            self.failed(producer, error.args[0])
        if producer is not self.producer:
            producer.purge(in_flight=False)

    def failed(self, producer, error):
        log.error("the producer of dead letters: %s", error)
        if error.fatal() or error.code() == KafkaError._FATAL:
            with self.replacing:
                if producer is self.producer:
                    self.producer = Producer(self.config)


class Worker:
    """Processes one partition, in order, in a thread of its own."""

    def __init__(self, url, dlq_topic, letters, finished):
        self.downstream, self.dlq_topic, self.letters, self.finished = Downstream(url), dlq_topic, letters, finished
        self.records, self.paused = queue.Queue(), False
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stopping.is_set():
            record = self.records.get()
            if record is None or not self.process(record):
                return  # stopped: this record and those behind it stay uncommitted
            self.finished.put(record)

    def stop(self):
        self.stopping.set()
        self.records.put(None)

    def process(self, record):
        """Brings a record to its end: success, a business failure, or an acknowledged dead letter. False when stopped before."""
        attempt = 0
        while not self.stopping.is_set():
            attempt += 1
            try:
                self.downstream.call(record)
                return True
            except Failure as failure:
                if failure.logical:
                    log.info("refused by the business: offset %d", record.offset())
                    return True
                if failure.permanent or attempt == MAX_ATTEMPTS:
                    return self.dead_letter(record, attempt, failure.reason)
                self.stopping.wait(max(backoff(attempt), failure.retry_after))
        return False

    def dead_letter(self, record, attempts, reason):
        """Writes the dead letter and returns when it is acknowledged; does not give up. False when stopped before."""
        while not self.stopping.is_set():
            error = self.write(record, dead_letter_headers(record, attempts, reason))
            if error is None:
                return True
            log.error("writing the dead letter of offset %d: %s", record.offset(), error)
            self.stopping.wait(0.1)
        return False

    def write(self, record, headers):
        """Produces and waits for the acknowledgement; returns the error. The client sends again by itself for as long as that may help; that
        no answer has come yet is an error to be seen all the same."""
        answers, producer = [], self.letters.producer
        try:
            producer.produce(
                self.dlq_topic, key=record.key(), value=record.value(), headers=headers,
                on_delivery=lambda error, _: answers.append(error),
            )
        except KafkaException as error:
            self.letters.failed(producer, error.args[0])
            return error
        except BufferError as error:
            return error
        waited = 0
        while not answers:
            if self.stopping.is_set():
                return "stopped before it was acknowledged"
            self.letters.poll(producer)
            waited += 1
            if waited % 10 == 0:
                log.error("the dead letter of offset %d is not acknowledged yet, nothing is committed past it", record.offset())
        return answers[0]


def backoff(n):
    """The wait after the nth failed attempt."""
    return min(FIRST_BACKOFF * 2 ** (n - 1), MAX_BACKOFF) + random.uniform(0, BACKOFF_JITTER)


def own_headers(headers):
    """The application's headers. A letter that was put back and fails again must not carry two failures: it has all FAILURE_HEADERS, and the last of each
    is left out. A record that has only some of these names has them from its application."""
    last = {name: index for index, (name, _) in enumerate(headers) if name in FAILURE_HEADERS}
    out = set(last.values()) if len(last) == len(FAILURE_HEADERS) else ()
    return [header for index, header in enumerate(headers) if index not in out]


def dead_letter_headers(record, attempts, reason):
    """The record's own headers, and six more."""
    epoch = record.leader_epoch()
    return own_headers(record.headers() or []) + [
        ("x-error-reason", reason.encode("utf-8", "replace")),
        ("x-retry-attempt", str(attempts).encode()),
        ("source-topic", record.topic().encode()),
        ("partition", str(record.partition()).encode()),
        ("offset", str(record.offset()).encode()),
        ("epoch", str(-1 if epoch is None else epoch).encode()),
    ]


class Service:
    """The main thread's part: partitions come and go, records go to their workers, offsets follow what is finished."""

    def __init__(self, environment):
        self.url, self.dlq_topic = environment["DLQBENCH_ORACLE_URL"], environment["DLQBENCH_DLQ_TOPIC"]
        self.topic = environment["DLQBENCH_INPUT_TOPIC"]
        self.workers, self.finished = {}, queue.Queue()
        # The newest offset to commit of each partition, whether there is any that was not sent yet, and whether one is under way.
        self.offsets, self.uncommitted, self.committing, self.next_commit = {}, False, False, 0.0
        brokers = {
            "bootstrap.servers": environment["DLQBENCH_BOOTSTRAP_SERVERS"], "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.fast.interval.ms": 100, "enable.metrics.push": False,
        }
        # A lost acknowledgement is asked for again after request.timeout.ms; the broker drops an idempotent producer's repeats. A dead letter is larger than
        # its record, by the headers, so it may be larger than the client's default of 1 MB: how large it may be is for the broker to say.
        self.letters = Letters({
            **brokers, "enable.idempotence": True, "linger.ms": 0, "retry.backoff.max.ms": 200, "message.max.bytes": 10_000_000,
            "request.timeout.ms": 1000, "socket.timeout.ms": 3000,
        })
        self.consumer = Consumer({
            **brokers,
            "group.id": environment["DLQBENCH_GROUP_ID"], "auto.offset.reset": "earliest",
            # A member that dies is noticed after its session: the client's default of 45 s is a long time to do nothing.
            "session.timeout.ms": 6000, "heartbeat.interval.ms": 500, "socket.timeout.ms": 10000,
            "enable.auto.commit": False, "on_commit": self.committed,
        })

    def run(self, stopping):
        self.consumer.subscribe([self.topic], on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.lost)
        log.info("consuming")
        while not stopping.is_set():
            for record in self.consumer.consume(num_messages=100, timeout=0.02):
                if record.error() is None:
                    self.hand(record)
                elif record.error().code() != KafkaError._PARTITION_EOF:
                    log.error("fetching: %s", record.error())
            self.collect()
            self.commit()
        # Leaving the group calls revoked, which stops the workers and commits what they have finished. close would call it, too, but a callback that runs
        # in there may never come back, where another member leaves at the same time (librdkafka, #4041).
        self.consumer.unsubscribe()
        limit = time.monotonic() + LEAVE_TIMEOUT
        while self.workers and time.monotonic() < limit:
            self.consumer.consume(num_messages=100, timeout=0.02)  # what it still returns is the next owner's
        self.consumer.close()
        log.info("stopped")

    def assigned(self, _, partitions):
        for partition in partitions:
            self.workers[partition.partition] = Worker(self.url, self.dlq_topic, self.letters, self.finished)

    def hand(self, record):
        """Gives a record to its worker; a partition whose worker is far behind is not fetched for a while, so the others go on."""
        worker = self.workers.get(record.partition())
        if worker is None:
            return  # taken away since it was fetched: the next owner reads it
        worker.records.put(record)
        if worker.records.qsize() >= PAUSE_AT and not worker.paused:
            worker.paused = True
            self.consumer.pause([TopicPartition(record.topic(), record.partition())])

    def collect(self):
        """Notes the offsets of finished records, and lets paused partitions go on whose workers have caught up."""
        while not self.finished.empty():
            record = self.finished.get()
            self.uncommitted = True
            self.offsets[record.partition()] = TopicPartition(
                record.topic(), record.partition(), record.offset() + 1, leader_epoch=record.leader_epoch()
            )
        for number, worker in self.workers.items():
            if worker.paused and worker.records.qsize() <= RESUME_AT:
                worker.paused = False
                self.consumer.resume([TopicPartition(self.topic, number)])

    def commit(self):
        """Commits what is finished, at intervals. One commit at a time: the client sends an unanswered one again, and an older one must
        not come after a newer."""
        if self.uncommitted and not self.committing and time.monotonic() >= self.next_commit:
            self.uncommitted, self.committing, self.next_commit = False, True, time.monotonic() + COMMIT_INTERVAL
            try:
                self.consumer.commit(offsets=list(self.offsets.values()), asynchronous=True)
            except KafkaException as error:
                self.committed(error, None)

    def committed(self, error, _):
        self.committing = False
        if error is not None:
            log.error("committing: %s", error)
            self.uncommitted = True

    def revoked(self, consumer, partitions):
        """Gives partitions up in order: what is finished is committed, the rest is the next owner's."""
        self.drop(partitions)
        self.collect()
        offsets = [self.offsets.pop(p.partition) for p in partitions if p.partition in self.offsets]
        try:
            if offsets:
                consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            log.error("committing before the partitions are given up: %s", error)

    def lost(self, _, partitions):
        """Gives partitions up that are another's already: nothing of them may be committed any more."""
        self.drop(partitions)
        self.collect()
        for partition in partitions:
            self.offsets.pop(partition.partition, None)

    def drop(self, partitions):
        # librdkafka keeps a partition paused beyond its assignment: it would still be paused when it comes back to this process.
        paused = [p for p in partitions if p.partition in self.workers and self.workers[p.partition].paused]
        if paused:
            self.consumer.resume(paused)
        workers = [worker for worker in (self.workers.pop(p.partition, None) for p in partitions) if worker]
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.thread.join()


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    Service(os.environ).run(stopping)


if __name__ == "__main__":
    main()
