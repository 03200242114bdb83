// A consumer on kafkajs with kafkajs-async-retry, as its documentation writes one: a message that fails is read again
// from a topic for each retry, behind a pause, and is dead-lettered after the last.
import { Kafka, logLevel } from 'kafkajs'
import asyncRetry from 'kafkajs-async-retry'

const { default: AsyncRetryHelper, DeadLetter } = asyncRetry
const { DOWNSTREAM_URL, KAFKA_BROKERS, KAFKA_GROUP, KAFKA_TOPIC, RETRY_DELAYS } = process.env

const kafka = new Kafka({ clientId: 'orders', brokers: KAFKA_BROKERS.split(','), logLevel: logLevel.WARN })
const producer = kafka.producer()
const consumer = kafka.consumer({ groupId: KAFKA_GROUP })
const helper = new AsyncRetryHelper({
  producer,
  groupId: KAFKA_GROUP,
  retryDelays: RETRY_DELAYS.split(',').map(Number), // in seconds
  maxRetries: 3,
})

async function takePayment({ message }) {
  const response = await fetch(`${DOWNSTREAM_URL}/v1/attempt`, {
    method: 'POST',
    body: message.value ?? '',
    signal: AbortSignal.timeout(1000),
  })
  const answer = await response.text()
  if ([400, 404, 422].includes(response.status)) throw new DeadLetter(answer)
  if (!response.ok) throw new Error(answer)
}

const handle = helper.eachMessage(takePayment)

// kafkajs reads headers without a value, but can't write them: such a value becomes an empty one.
function writable(message) {
  const filled = (value) => (Array.isArray(value) ? value.map(filled) : value ?? '')
  const headers = Object.entries(message.headers ?? {}).map(([name, value]) => [name, filled(value)])
  return { ...message, headers: Object.fromEntries(headers) }
}

// kafkajs ends its consumer for good at an error of its own, such as that of a refused dead letter.
async function eachMessage(payload) {
  try {
    await handle({ ...payload, message: writable(payload.message) })
  } catch (error) {
    throw new Error(error.message, { cause: error })
  }
}

// The mistake that tests plant is to do without that, as the documentation's example does.
const asDocumented = process.env.PLANTED_BUG === 'as-documented'

// The helper's timers don't keep the process alive: without a connection, it would end while it waits.
setInterval(() => {}, 60_000)

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, async () => {
    try {
      await consumer.disconnect()
      await producer.disconnect()
    } finally {
      process.kill(process.pid, signal)
    }
  })
}

await producer.connect()
await consumer.connect()
await consumer.subscribe({ topics: [KAFKA_TOPIC, ...helper.retryTopics], fromBeginning: true })
await consumer.run({ eachMessage: asDocumented ? handle : eachMessage })
