// A consumer on confluent-kafka-javascript as its documentation writes one: eachMessage, offsets that the client
// commits, retries in place. What eachMessage throws makes the client deliver the message again. All settings are the
// client's defaults, but for what the work needs.
import { setTimeout as sleep } from 'node:timers/promises'
import confluent from '@confluentinc/kafka-javascript'

const { Kafka, logLevel } = confluent.KafkaJS

const MAX_ATTEMPTS = 3
const BACKOFF_MS = [50, 100]

// A mistake that tests plant, to see it named; none otherwise.
const PLANTED_BUG = process.env.PLANTED_BUG

const { DOWNSTREAM_URL, KAFKA_BROKERS, KAFKA_DLQ_TOPIC, KAFKA_GROUP, KAFKA_TOPIC } = process.env

const kafka = new Kafka({ kafkaJS: { brokers: KAFKA_BROKERS.split(','), logLevel: logLevel.WARN } })
const consumer = kafka.consumer({ kafkaJS: { groupId: KAFKA_GROUP, fromBeginning: true } })
const producer = kafka.producer()
const logger = consumer.logger()
let stopping = false

async function call(topic, partition, message) {
  const response = await fetch(`${DOWNSTREAM_URL}/v1/attempt`, {
    method: 'POST',
    body: message.value ?? '',
    headers: { 'X-Kafka-Topic': topic, 'X-Kafka-Partition': String(partition), 'X-Kafka-Offset': message.offset },
    signal: AbortSignal.timeout(1000),
  })
  await response.arrayBuffer()
  if (response.ok) return
  const error = new Error(`HTTP ${response.status}`)
  error.status = response.status
  error.retryAfter = 1000 * Number(response.headers.get('Retry-After') ?? 0)
  throw error
}

// Resolves when the dead letter is acknowledged. If it is refused, the message is delivered again.
async function deadLetter(topic, partition, message, attempts, error) {
  const letter = {
    key: message.key,
    value: message.value,
    headers: {
      ...message.headers,
      'original-topic': topic,
      'original-partition': String(partition),
      'original-offset': message.offset,
      'error-message': error.message,
      attempts: String(attempts),
    },
  }
  const sent = producer.send({ topic: KAFKA_DLQ_TOPIC, messages: [letter] })
  if (PLANTED_BUG === 'letter-not-awaited') {
    sent.catch((failed) => logger.error(`dead letter failed: ${failed.message}`))
    return
  }
  await sent
}

async function eachMessage({ topic, partition, message }) {
  for (let attempt = 1; !stopping; attempt++) {
    try {
      await call(topic, partition, message)
      return
    } catch (error) {
      if (error.status === 422) return
      if (error.status === 400 || attempt === MAX_ATTEMPTS) return deadLetter(topic, partition, message, attempt, error)
      await sleep(Math.max(BACKOFF_MS[attempt - 1], error.retryAfter ?? 0))
    }
  }
  throw new Error('stopped') // the message stays uncommitted
}

// Resolves offsets as it begins with them, and commits them by its own clock.
async function eachBatch({ batch, resolveOffset }) {
  for (const message of batch.messages) {
    resolveOffset(message.offset)
    await eachMessage({ topic: batch.topic, partition: batch.partition, message })
  }
}

const planted = {
  'resolved-before-await': { eachBatch },
  'not-awaited': {
    eachMessage: async (payload) => {
      eachMessage(payload).catch((error) => logger.error(error.message)) // the client goes on, and commits
    },
  },
}

for (const signal of ['SIGTERM', 'SIGINT']) {
  process.once(signal, async () => {
    stopping = true
    await consumer.disconnect()
    await producer.disconnect()
    process.exit(0)
  })
}

await producer.connect()
await consumer.connect()
await consumer.subscribe({ topics: [KAFKA_TOPIC] })
await consumer.run(planted[PLANTED_BUG] ?? { eachMessage })
