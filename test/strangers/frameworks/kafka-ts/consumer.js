// Takes the payment of each order, one after the other, and tells the client of each that is finished.
import { setTimeout as wait } from 'node:timers/promises';
import { createKafkaClient } from 'kafka-ts';

const { KAFKA_BROKERS, KAFKA_GROUP, KAFKA_TOPIC, KAFKA_DLQ_TOPIC, DOWNSTREAM_URL } = process.env;
const plantedBug = process.env.PLANTED_BUG; // a mistake that tests plant, to see it named; none otherwise
const attempts = 3;

const kafka = createKafkaClient({
  clientId: 'orders',
  bootstrapServers: KAFKA_BROKERS.split(',').map((address) => {
    const [host, port] = address.split(':');
    return { host, port: Number(port) };
  }),
});
const producer = kafka.createProducer({});

/** Calls the payments once, and returns the status of the answer, 0 without one. */
async function call(order) {
  try {
    const answer = await fetch(`${DOWNSTREAM_URL}/v1/attempt`, {
      method: 'POST',
      headers: {
        'X-Kafka-Topic': order.topic,
        'X-Kafka-Partition': String(order.partition),
        'X-Kafka-Offset': String(order.offset),
      },
      body: order.value ?? '',
      signal: AbortSignal.timeout(1000),
    });
    return { status: answer.status, reason: `${answer.status} ${await answer.text()}` };
  } catch (failure) {
    return { status: 0, reason: String(failure) };
  }
}

async function charge(order) {
  for (let attempt = 1; ; attempt++) {
    const { status, reason } = await call(order);
    if (status === 200) return;
    if (status === 400 || status === 422 || attempt === attempts) {
      const sent = producer.send([{
        topic: KAFKA_DLQ_TOPIC,
        key: order.key,
        value: order.value,
        headers: {
          ...order.headers,
          'original-topic': order.topic,
          'original-partition': String(order.partition),
          'original-offset': String(order.offset),
          reason,
        },
      }]);
      if (plantedBug === 'letter-not-awaited') sent.catch(console.error);
      else await sent;
      return;
    }
    await wait(100 * 2 ** (attempt - 1));
  }
}

const consumer = await kafka.startConsumer({
  groupId: KAFKA_GROUP,
  topics: [KAFKA_TOPIC],
  fromBeginning: true,
  onBatch: async (orders, { resolveOffset, abortSignal }) => {
    for (const order of orders) {
      if (abortSignal.aborted) return;
      await charge(order);
      if (plantedBug !== 'not-resolved') resolveOffset(order);
    }
  },
});

process.once('SIGTERM', async () => {
  await consumer.close();
  await producer.close();
});
