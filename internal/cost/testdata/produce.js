// Sends COUNT records as fast as it can, like the other ways of BenchmarkProduce, and prints what k6 counted.
import { Producer } from "k6/x/kafka";

const { BROKER, TOPIC, COUNT, SIZE, KEYS } = __ENV;
const batch = 500;

export const options = { scenarios: { all: { executor: "shared-iterations", vus: 4, iterations: COUNT / batch } } };

// batchTimeout is librdkafka's linger.ms, in nanoseconds. Compression is off by default, and so is idempotence, which
// has no setting here.
const producer = new Producer({ brokers: [BROKER], topic: TOPIC, requiredAcks: -1, batchTimeout: 1000000 });

// Each virtual user sends the same records again and again, so that building them is not measured.
const pad = "x".repeat(SIZE);
const messages = Array.from({ length: batch }, (_, i) => ({
  key: "key-" + (i % KEYS),
  value: `{"id":"${i}","pad":"${pad}`.slice(0, SIZE - 2) + '"}',
  headers: { "dlqbench-id": "" + i },
}));

export default function () {
  producer.produce({ messages });
}

export function handleSummary({ metrics, state }) {
  const count = (name) => (metrics[name] ? metrics[name].values.count : 0);
  return {
    stdout: JSON.stringify({
      Records: count("kafka_writer_message_count"), Errors: count("kafka_writer_error_count"),
      Milliseconds: state.testRunDurationMs,
    }),
  };
}
