// A consumer on @platformatic/kafka as its documentation writes one: a stream of messages, each committed after its
// outcome, retries in place. A client whose stream ends with an error is made anew. All settings are the client's
// defaults, but for what the work needs.
import { setTimeout as sleep } from 'node:timers/promises'
import { Consumer, Producer } from '@platformatic/kafka'

const MAX_ATTEMPTS = 3
const BACKOFF_MS = [50, 100]

// A mistake that tests plant, to see it named; none otherwise.
const PLANTED_BUG = process.env.PLANTED_BUG

const { DOWNSTREAM_URL, KAFKA_BROKERS, KAFKA_DLQ_TOPIC, KAFKA_GROUP, KAFKA_TOPIC } = process.env

// A request may take as long as the group waits for its members: with the default of 5 s, JoinGroup gives up before a
// killed member's session has ended, and is repeated as a member of its own.
const connection = { clientId: 'orders', bootstrapBrokers: KAFKA_BROKERS.split(','), timeout: 20_000 }
const group = { groupId: KAFKA_GROUP, sessionTimeout: 10_000, rebalanceTimeout: 15_000 }
const producer = new Producer(connection)
let consumer
let stopping = false

async function call(message) {
  const response = await fetch(`${DOWNSTREAM_URL}/v1/attempt`, {
    method: 'POST',
    body: message.value ?? '',
    headers: {
      'X-Kafka-Topic': message.topic,
      'X-Kafka-Partition': String(message.partition),
      'X-Kafka-Offset': String(message.offset),
    },
    signal: AbortSignal.timeout(1000),
  })
  await response.arrayBuffer()
  if (response.ok) return
  const error = new Error(`HTTP ${response.status}`)
  error.status = response.status
  error.retryAfter = 1000 * Number(response.headers.get('Retry-After') ?? 0)
  throw error
}

// Resolves when the dead letter is acknowledged. Tries until then, or until the service is to stop.
async function deadLetter(message, attempts, error) {
  const headers = new Map(message.headers)
  headers.set(Buffer.from('original-topic'), Buffer.from(message.topic))
  headers.set(Buffer.from('original-partition'), Buffer.from(String(message.partition)))
  headers.set(Buffer.from('original-offset'), Buffer.from(String(message.offset)))
  headers.set(Buffer.from('error-message'), Buffer.from(error.message))
  headers.set(Buffer.from('attempts'), Buffer.from(String(attempts)))
  const letter = { topic: KAFKA_DLQ_TOPIC, key: message.key, value: message.value, headers }
  while (!stopping) {
    try {
      const sent = producer.send({ messages: [letter], acks: -1 }) // all replicas; the leader alone by default
      if (PLANTED_BUG === 'letter-not-awaited') {
        sent.catch((failed) => console.error(`dead letter failed: ${failed.message}`))
        return
      }
      await sent
      return
    } catch (failed) {
      console.error(`dead letter of ${message.topic}-${message.partition}@${message.offset} failed: ${failed.message}`)
      await sleep(500)
    }
  }
  throw new Error('stopped')
}

async function handle(message) {
  for (let attempt = 1; !stopping; attempt++) {
    try {
      await call(message)
      return
    } catch (error) {
      if (error.status === 422) return
      if (error.status === 400 || attempt === MAX_ATTEMPTS) return deadLetter(message, attempt, error)
      await sleep(Math.max(BACKOFF_MS[attempt - 1], error.retryAfter ?? 0))
    }
  }
  throw new Error('stopped')
}

// Resolves when the service is to stop, and throws what ends a stream of the client. When the group rebalances, a stream
// keeps the messages that it holds, and delivers those of retained partitions again behind them; so each generation of
// the group gets a stream of its own. The old one ends after the new one is there, as its end unsubscribes.
async function consume() {
  consumer = new Consumer({ ...connection, ...group })
  const autocommit = PLANTED_BUG === 'autocommit'
  const options = { autocommit, mode: 'committed', fallbackMode: 'earliest' }
  const open = () => consumer.consume({ topics: [KAFKA_TOPIC], ...options })
  let stream = await open()
  consumer.on('error', (error) => stream.destroy(error))
  const renew = async () => {
    const old = stream
    stream = await open()
    old.destroy()
  }
  if (PLANTED_BUG !== 'stream-kept') {
    consumer.on('consumer:group:join', () => renew().catch((error) => stream.destroy(error)))
  }
  while (!stopping) {
    const current = stream
    const next = new Map() // by partition: a fetch that is repeated after a leader has moved delivers messages again
    try {
      for await (const message of current) {
        if (message.offset < next.get(message.partition)) continue
        await handle(message)
        if (current !== stream) break // the partition may be another consumer's
        if (!autocommit) await message.commit()
        next.set(message.partition, message.offset + 1n)
      }
    } catch (error) {
      if (current === stream) throw error
    }
  }
}

const end = async () => {
  stopping = true
  await consumer?.close(true)
  await producer.close()
  process.exit(0)
}
process.once('SIGTERM', end)
process.once('SIGINT', end)

while (!stopping) {
  try {
    await consume()
  } catch (error) {
    if (stopping) break
    console.error(`the client gave up: ${error.message}`, error.errors ?? '')
    await consumer.close(true).catch((failed) => console.error(`closing it: ${failed.message}`))
    await sleep(1000)
  }
}
