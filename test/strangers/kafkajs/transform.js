// A transformer on kafkajs with transactions, as its documentation writes one: the result or the dead letter of a
// message, and its offset, are written in one transaction. All settings of the client are its defaults, but for what
// the work needs.
import { setTimeout as sleep } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'

const MAX_ATTEMPTS = 4
const BACKOFF_MS = [50, 100, 200]

const kafka = new Kafka({
  clientId: 'transformer',
  brokers: process.env.KAFKA_BROKERS.split(','),
  logLevel: logLevel.WARN,
})
const groupId = process.env.KAFKA_GROUP
const consumer = kafka.consumer({ groupId })
const producer = kafka.producer({
  transactionalId: process.env.TRANSACTIONAL_ID,
  maxInFlightRequests: 1,
  idempotent: true,
})
let stopping = false

class Interrupted extends Error {}

// Writes a record and the offset of the message that it was made of, both or none.
async function write(record, topic, partition, message) {
  const transaction = await producer.transaction().catch(giveUp)
  try {
    if (record) await transaction.send(record)
    await transaction.sendOffsets({
      consumerGroupId: groupId,
      topics: [{ topic, partitions: [{ partition, offset: (BigInt(message.offset) + 1n).toString() }] }],
    })
  } catch (error) {
    await transaction.abort().catch(giveUp)
    throw error
  }
  await transaction.commit().catch(giveUp)
}

// A producer that can't end its transaction can't begin another one, and neither can one that was fenced.
function giveUp(error) {
  kafka.logger().error(`the producer is of no use any more: ${error.message}`)
  process.exit(1)
}

// kafkajs reads headers without a value, but can't write them: such a value becomes an empty one.
function writable(headers) {
  const filled = (value) => (Array.isArray(value) ? value.map(filled) : value ?? '')
  return Object.fromEntries(Object.entries(headers ?? {}).map(([name, value]) => [name, filled(value)]))
}

function result({ key, value, headers }) {
  const made = JSON.stringify({ order: value?.toString() ?? null, at: Date.now() })
  return { topic: process.env.KAFKA_OUTPUT_TOPIC, messages: [{ key, value: made, headers: writable(headers) }] }
}

function letter(topic, partition, message, error) {
  const headers = {
    ...writable(message.headers),
    'from-topic': topic,
    'from-partition': String(partition),
    'from-offset': message.offset,
    'from-error': error.type ?? error.message,
  }
  return { topic: process.env.KAFKA_DLQ_TOPIC, messages: [{ key: message.key, value: message.value, headers }] }
}

async function eachMessage({ topic, partition, message, heartbeat }) {
  for (let attempt = 1; !stopping; attempt++) {
    try {
      await write(result(message), topic, partition, message)
      return
    } catch (error) {
      if (error.type === 'POLICY_VIOLATION') return until(() => write(null, topic, partition, message))
      if (error.type === 'INVALID_RECORD' || attempt === MAX_ATTEMPTS) {
        return until(() => write(letter(topic, partition, message, error), topic, partition, message))
      }
      kafka.logger().warn(`${topic}-${partition}@${message.offset}: ${error.message}`)
      await sleep(BACKOFF_MS[attempt - 1])
    }
    await heartbeat()
  }
  throw new Interrupted('stopped')
}

// Writes until it succeeds, or until the service is to stop.
async function until(written) {
  while (!stopping) {
    try {
      return await written()
    } catch (error) {
      kafka.logger().error(`not written: ${error.message}`)
      await sleep(500)
    }
  }
  throw new Interrupted('stopped before the message was finished')
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
await consumer.subscribe({ topics: [process.env.KAFKA_TOPIC], fromBeginning: true })
await consumer.run({ autoCommit: false, eachMessage })
