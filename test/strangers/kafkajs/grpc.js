// A service on kafkajs and grpc-js as their documentation writes one: it charges each order by a call, and writes a
// result to a topic. All settings of both clients are their defaults, but for what the work needs.
import { setTimeout as sleep } from 'node:timers/promises'
import grpc from '@grpc/grpc-js'
import loader from '@grpc/proto-loader'
import { Kafka, logLevel } from 'kafkajs'

const MAX_ATTEMPTS = 4
const BACKOFF_MS = [50, 100, 200]
const RETRYABLE = [
  grpc.status.UNAVAILABLE,
  grpc.status.RESOURCE_EXHAUSTED,
  grpc.status.DEADLINE_EXCEEDED,
  grpc.status.ABORTED,
]

// The client repeats a call that was answered UNAVAILABLE, before the service sees it.
const repeats = {
  methodConfig: [
    {
      name: [{ service: 'acme.v1.Payments' }],
      retryPolicy: {
        maxAttempts: 3,
        initialBackoff: '0.01s',
        maxBackoff: '0.02s',
        backoffMultiplier: 2,
        retryableStatusCodes: ['UNAVAILABLE'],
      },
    },
  ],
}

const { acme } = grpc.loadPackageDefinition(loader.loadSync('../grpc/payments.proto'))
const payments = new acme.v1.Payments(process.env.PAYMENTS_ADDR, grpc.credentials.createInsecure(), {
  'grpc.service_config': JSON.stringify(repeats),
})
const kafka = new Kafka({ clientId: 'orders', brokers: process.env.KAFKA_BROKERS.split(','), logLevel: logLevel.WARN })
const consumer = kafka.consumer({ groupId: process.env.KAFKA_GROUP })
const producer = kafka.producer()
let stopping = false

class Interrupted extends Error {}

function charge(order) {
  return new Promise((resolve, reject) => {
    const done = (error, receipt) => (error ? reject(error) : resolve(receipt.value))
    payments.charge({ value: order }, { deadline: Date.now() + 1000 }, done)
  })
}

async function processOrder(message) {
  const receipt = await charge(message.value.toString())
  await producer.send({
    topic: process.env.KAFKA_RESULTS_TOPIC,
    messages: [{ key: message.key, value: JSON.stringify({ order: JSON.parse(message.value), receipt }) }],
  })
}

// kafkajs reads headers without a value, but can't write them: such a value becomes an empty one.
function writable(headers) {
  const filled = (value) => (Array.isArray(value) ? value.map(filled) : value ?? '')
  return Object.fromEntries(Object.entries(headers ?? {}).map(([name, value]) => [name, filled(value)]))
}

// Resolves when the dead letter is acknowledged. Tries until then, or until the service is to stop.
async function deadLetter(topic, partition, message, attempts, error) {
  const letter = {
    key: message.key,
    value: message.value,
    headers: {
      ...writable(message.headers),
      'original-topic': topic,
      'original-partition': String(partition),
      'original-offset': message.offset,
      'error-message': error.details ?? error.message,
      attempts: String(attempts),
    },
  }
  while (!stopping) {
    try {
      await producer.send({ topic: process.env.KAFKA_DLQ_TOPIC, messages: [letter] })
      return
    } catch (failed) {
      kafka.logger().error(`dead letter of ${topic}-${partition}@${message.offset} failed: ${failed.message}`)
      await sleep(500)
    }
  }
  throw new Interrupted('stopped before the dead letter was acknowledged')
}

async function eachMessage({ topic, partition, message, heartbeat }) {
  for (let attempt = 1; !stopping; attempt++) {
    try {
      await processOrder(message)
      return
    } catch (error) {
      if (error.code === grpc.status.FAILED_PRECONDITION) return
      const final = error.code !== undefined && !RETRYABLE.includes(error.code)
      if (final || attempt === MAX_ATTEMPTS) return deadLetter(topic, partition, message, attempt, error)
      await sleep(BACKOFF_MS[attempt - 1])
    }
    await heartbeat()
  }
  throw new Interrupted('stopped') // not resolved: the message is delivered again
}

for (const signal of ['SIGTERM', 'SIGINT']) {
  process.once(signal, async () => {
    stopping = true
    await consumer.disconnect()
    await producer.disconnect()
    payments.close()
    process.exit(0)
  })
}

await producer.connect()
await consumer.connect()
await consumer.subscribe({ topics: [process.env.KAFKA_TOPIC], fromBeginning: true })
await consumer.run({ eachMessage })
