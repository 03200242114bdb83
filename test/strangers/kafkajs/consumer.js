// A consumer on kafkajs as its documentation writes one: eachMessage with the client's own commits, retries in place
// with a heartbeat in each wait. All settings of the client are its defaults, but for what the work needs.
import { setTimeout as sleep } from 'node:timers/promises'
import { SchemaRegistry } from '@kafkajs/confluent-schema-registry'
import { Kafka, logLevel } from 'kafkajs'

// ATTEMPTS=unlimited tries a message until it succeeds or is refused for good, with waits of MAX_BACKOFF_MS at most.
const MAX_ATTEMPTS = process.env.ATTEMPTS === 'unlimited' ? Infinity : 3
const MAX_BACKOFF_MS = Number(process.env.MAX_BACKOFF_MS ?? 100)
const FIRST_BACKOFF_MS = 50

// A mistake that tests plant, to see it named; none otherwise.
const PLANTED_BUG = process.env.PLANTED_BUG

const kafka = new Kafka({ clientId: 'orders', brokers: process.env.KAFKA_BROKERS.split(','), logLevel: logLevel.WARN })
const consumer = kafka.consumer({ groupId: process.env.KAFKA_GROUP })
const producer = kafka.producer()
const registry = process.env.SCHEMA_REGISTRY_URL && new SchemaRegistry({ host: process.env.SCHEMA_REGISTRY_URL })
let stopping = false

class Interrupted extends Error {}

class Unreadable extends Error {}

// Resolves when the registry has given the schema of a value. Tries until then: only a schema that it doesn't know is
// the record's fault.
async function schemaOf(value, heartbeat) {
  while (!stopping) {
    try {
      return await registry.getSchema(value.readInt32BE(1))
    } catch (error) {
      if (error.status === 404) throw new Unreadable(error.message)
      kafka.logger().error(`the schema registry: ${error.message}`)
      await sleep(500)
      await heartbeat()
    }
  }
  throw new Interrupted('stopped before the schema was there')
}

// Resolves to what the service sends on: the value, as JSON where it has a schema.
async function bodyOf(value, heartbeat) {
  if (!registry || !value) return value ?? ''
  if (value.length < 5 || value[0] !== 0) throw new Unreadable('the value names no schema')
  await schemaOf(value, heartbeat)
  try {
    return JSON.stringify(await registry.decode(value))
  } catch (error) {
    throw new Unreadable(error.message)
  }
}

// Looks up the customer and reserves stock, too, where there are addresses for that.
async function call(topic, partition, message, body) {
  const headers = { 'X-Kafka-Topic': topic, 'X-Kafka-Partition': String(partition), 'X-Kafka-Offset': message.offset }
  const post = (url) => request(url, { method: 'POST', body, headers })
  const { CUSTOMERS_URL, DOWNSTREAM_URL, STOCK_URL } = process.env
  if (CUSTOMERS_URL && message.key) await request(CUSTOMERS_URL + message.key.toString('hex'))
  await post(`${DOWNSTREAM_URL}/v1/attempt`)
  if (STOCK_URL) await post(STOCK_URL)
}

async function request(url, options) {
  const response = await fetch(url, { ...options, signal: AbortSignal.timeout(1000) })
  const body = await response.text()
  if (response.ok) return
  let reason = response.statusText
  try {
    reason = JSON.parse(body).error
  } catch {
    // the status says enough
  }
  const error = new Error(reason)
  error.status = response.status
  error.retryAfter = 1000 * Number(response.headers.get('Retry-After') ?? 0)
  throw error
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
      'error-message': error.message,
      attempts: String(attempts),
    },
  }
  while (!stopping) {
    try {
      const sent = producer.send({ topic: process.env.KAFKA_DLQ_TOPIC ?? `${topic}.dlt`, messages: [letter] })
      if (PLANTED_BUG === 'rejection-swallowed') {
        sent.catch((failed) => kafka.logger().error(`dead letter failed: ${failed.message}`))
        return
      }
      await sent
      return
    } catch (failed) {
      kafka.logger().error(`dead letter of ${topic}-${partition}@${message.offset} failed: ${failed.message}`)
      await sleep(500)
    }
  }
  throw new Interrupted('stopped before the dead letter was acknowledged')
}

// The mistake that tests plant is a list of waits that runs out: Math.max makes NaN of undefined, which is no wait.
function backoff(attempt) {
  if (PLANTED_BUG === 'waits-run-out') return [50, 100, 200][attempt - 1]
  return Math.min(FIRST_BACKOFF_MS * 2 ** (attempt - 1), MAX_BACKOFF_MS)
}

// Waits, and keeps the session alive meanwhile: the client sends a heartbeat every 3 s at most.
async function wait(ms, heartbeat) {
  for (let left = ms; left > 0 && !stopping; left -= 500) {
    await sleep(Math.min(left, 500))
    await heartbeat()
  }
}

// Throws at a value that is not an order: the client tries again, then crashes, leaves its group and starts anew.
function check(value) {
  if (value !== null && typeof JSON.parse(value)?.id !== 'string') throw new TypeError('not an order: it has no id')
}

async function eachMessage({ topic, partition, message, heartbeat }) {
  let body
  if (process.env.THROWS_AT_UNREADABLE) {
    try {
      check(message.value)
    } catch (error) {
      if (PLANTED_BUG !== 'unreadable-logged') throw error
      kafka.logger().error(`${topic}-${partition}@${message.offset}: ${error.message}`)
      return
    }
  }
  try {
    body = await bodyOf(message.value, heartbeat)
  } catch (error) {
    if (error instanceof Unreadable) return deadLetter(topic, partition, message, 0, error)
    throw error
  }
  for (let attempt = 1; !stopping; attempt++) {
    try {
      await call(topic, partition, message, body)
      return
    } catch (error) {
      if (error.status === 422) return
      if (error.status === 400 || attempt === MAX_ATTEMPTS) return deadLetter(topic, partition, message, attempt, error)
      await wait(Math.max(backoff(attempt), error.retryAfter ?? 0), heartbeat)
    }
  }
  throw new Interrupted('stopped') // not resolved: the message is delivered again
}

// What PLANTED_BUG=resolved-before-await runs with: what is thrown commits the message that threw it.
async function eachBatch({ batch, resolveOffset, heartbeat }) {
  for (const message of batch.messages) {
    resolveOffset(message.offset)
    await eachMessage({ topic: batch.topic, partition: batch.partition, message, heartbeat })
    await heartbeat()
  }
}

const planted = {
  'resolved-before-await': { eachBatch },
  'not-awaited': {
    eachMessage: async (payload) => {
      eachMessage(payload).catch((error) => kafka.logger().error(error.message)) // the client goes on, and commits
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
await consumer.subscribe({ topics: process.env.KAFKA_TOPIC.split(','), fromBeginning: true })
await consumer.run(planted[PLANTED_BUG] ?? { eachMessage })
