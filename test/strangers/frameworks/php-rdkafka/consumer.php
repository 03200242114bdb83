<?php
// A service on php-rdkafka as its documentation writes one: a loop over RdKafka\KafkaConsumer, and a commit after each
// message. All settings are the client's defaults, but for what the work needs.
declare(strict_types=1);

const MAX_ATTEMPTS = 3;
const BACKOFF_MS = 100; // after the first attempt; twice as long after the second

// A mistake that tests plant, to see it named; none otherwise.
define('PLANTED_BUG', getenv('PLANTED_BUG') ?: '');

function report(string $level, string $text): void
{
    fwrite(STDERR, sprintf("[%s] %s: %s\n", date('c'), $level, $text));
}

final class Rejected extends Exception
{
    public function __construct(string $reason, public readonly bool $permanent)
    {
        parent::__construct($reason);
    }
}

final class Orders
{
    private bool $stopping = false;
    private ?int $delivered = null;
    private RdKafka\KafkaConsumer $consumer;
    private RdKafka\Producer $producer;
    private RdKafka\ProducerTopic $letters;

    public function __construct()
    {
        $conf = new RdKafka\Conf();
        $conf->set('bootstrap.servers', getenv('KAFKA_BROKERS'));
        $conf->set('group.id', getenv('KAFKA_GROUP'));
        $conf->set('auto.offset.reset', 'earliest');
        $conf->set('enable.auto.commit', PLANTED_BUG === 'auto-commit' ? 'true' : 'false');
        $conf->setErrorCb(fn ($kafka, $error, $reason) => report('warning', $reason)); // librdkafka recovers by itself
        $this->consumer = new RdKafka\KafkaConsumer($conf);

        $conf = new RdKafka\Conf();
        $conf->set('bootstrap.servers', getenv('KAFKA_BROKERS'));
        $conf->set('message.max.bytes', '1048588'); // a dead letter is a little larger than its record
        $conf->setErrorCb(fn ($kafka, $error, $reason) => report('warning', $reason));
        $conf->setDrMsgCb(fn ($kafka, $message) => $this->delivered = $message->err);
        $this->producer = new RdKafka\Producer($conf);
        $this->letters = $this->producer->newTopic(getenv('KAFKA_DLQ_TOPIC'));
    }

    public function run(): void
    {
        pcntl_async_signals(true);
        foreach ([SIGTERM, SIGINT] as $signal) {
            pcntl_signal($signal, fn () => $this->stopping = true);
        }
        $this->consumer->subscribe([getenv('KAFKA_TOPIC')]);
        while (!$this->stopping) {
            $message = $this->consumer->consume(1000);
            switch ($message->err) {
                case RD_KAFKA_RESP_ERR_NO_ERROR:
                    if ($this->process($message)) {
                        $this->commit($message);
                    }
                    break;
                case RD_KAFKA_RESP_ERR__PARTITION_EOF:
                case RD_KAFKA_RESP_ERR__TIMED_OUT:
                    break;
                default:
                    report('warning', $message->errstr());
            }
        }
        if (PLANTED_BUG === 'closed') {
            $this->consumer->close();
        }
        unset($this->consumer); // it leaves the group and ends its threads, which close() would leave running
    }

    private function commit(RdKafka\Message $message): void
    {
        if (PLANTED_BUG === 'auto-commit') {
            return;
        }
        try {
            $this->consumer->commit($message);
        } catch (RdKafka\Exception $e) {
            report('warning', 'not committed: ' . $e->getMessage()); // the next commit or the next owner makes up for it
        }
    }

    // Returns true when the message is finished, and false if the service is to stop before.
    private function process(RdKafka\Message $message): bool
    {
        for ($attempt = 1; ; $attempt++) {
            try {
                $this->charge($message);
                return true;
            } catch (Rejected $failure) {
                if ($failure->permanent || $attempt === MAX_ATTEMPTS) {
                    return $this->deadLetter($message, $attempt, $failure->getMessage());
                }
            }
            $this->pause(BACKOFF_MS * 2 ** ($attempt - 1));
            if ($this->stopping) {
                return false;
            }
        }
    }

    // Uses a handle for each call: curl repeats a call by itself if a connection that it kept breaks before the answer.
    private function charge(RdKafka\Message $message): void
    {
        $http = curl_init(getenv('DOWNSTREAM_URL') . '/v1/attempt');
        curl_setopt_array($http, [
            CURLOPT_POSTFIELDS => $message->payload ?? '',
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_TIMEOUT_MS => 1000,
            CURLOPT_HTTPHEADER => [
                'Content-Type: application/json',
                'Expect:',
                'X-Kafka-Topic: ' . $message->topic_name,
                'X-Kafka-Partition: ' . $message->partition,
                'X-Kafka-Offset: ' . $message->offset,
            ],
        ]);
        $body = curl_exec($http);
        if ($body === false) {
            throw new Rejected(curl_error($http), false);
        }
        $status = curl_getinfo($http, CURLINFO_RESPONSE_CODE);
        if ($status !== 200) {
            throw new Rejected("$status $body", $status === 400 || $status === 422);
        }
    }

    // Writes the message to the dead-letter topic until it is acknowledged.
    private function deadLetter(RdKafka\Message $message, int $attempts, string $reason): bool
    {
        $headers = [
            'orders.topic' => $message->topic_name,
            'orders.partition' => (string) $message->partition,
            'orders.offset' => (string) $message->offset,
            'orders.attempts' => (string) $attempts,
            'orders.reason' => $reason,
        ] + ($message->headers ?? []);
        while (true) {
            $error = $this->write($message, $headers);
            if ($error === null) {
                return true;
            }
            if ($this->stopping) {
                return false;
            }
            report('error', "dead letter: $error");
            $this->pause(500);
        }
    }

    // Returns what is wrong, or null.
    private function write(RdKafka\Message $letter, array $headers): ?string
    {
        $this->delivered = null;
        try {
            $this->letters->producev(RD_KAFKA_PARTITION_UA, 0, $letter->payload, $letter->key, $headers);
        } catch (RdKafka\Exception $e) {
            return $e->getMessage(); // such as a topic that librdkafka knows to be forbidden
        }
        if (PLANTED_BUG === 'poll-only') {
            $this->producer->poll(0);
            return null;
        }
        do {
            $flushed = $this->producer->flush(1000);
        } while ($flushed === RD_KAFKA_RESP_ERR__TIMED_OUT && !$this->stopping);
        if (PLANTED_BUG === 'flush-is-delivery') {
            return $flushed === RD_KAFKA_RESP_ERR_NO_ERROR ? null : rd_kafka_err2str($flushed);
        }
        if ($this->delivered === RD_KAFKA_RESP_ERR_NO_ERROR) {
            return null;
        }
        return rd_kafka_err2str($this->delivered ?? $flushed);
    }

    private function pause(int $milliseconds): void
    {
        usleep($milliseconds * 1000); // a signal ends it
    }
}

(new Orders())->run();
