// A consumer on kafkajs with eachBatch that fills a search index: one call for each batch, a document in each line, as
// Elasticsearch takes them. What is refused is sent again in halves, until it is known which documents are wrong.
import { setTimeout as sleep } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'

const MAX_ATTEMPTS = 3
const PLANTED_BUG = process.env.PLANTED_BUG

const kafka = new Kafka({ clientId: 'index', brokers: process.env.KAFKA_BROKERS.split(','), logLevel: logLevel.WARN })
const consumer = kafka.consumer({ groupId: process.env.KAFKA_GROUP })
const producer = kafka.producer()
let stopping = false

async function index(documents) {
  const lines = documents.flatMap(({ order }) => [JSON.stringify({ index: { _id: order.id } }), JSON.stringify(order)])
  const response = await fetch(`${process.env.INDEX_URL}/orders/_bulk`, {
    method: 'POST',
    body: `${lines.join('\n')}\n`,
    headers: { 'Content-Type': 'application/x-ndjson' },
    signal: AbortSignal.timeout(1000),
  })
  const body = await response.text()
  if (response.ok) return
  const error = new Error(`${response.status} ${body}`)
  error.final = ![429, 503].includes(response.status)
  error.retryAfter = 1000 * Number(response.headers.get('Retry-After') ?? 0)
  throw error
}

// Resolves when each document is indexed or dead-lettered.
async function indexAll(documents, heartbeat) {
  let failure
  for (let attempt = 1; attempt <= MAX_ATTEMPTS && !failure?.final; attempt++) {
    if (stopping) throw new Error('stopped before the documents were indexed')
    try {
      return await index(documents)
    } catch (error) {
      failure = error
      if (attempt < MAX_ATTEMPTS && !error.final) await sleep(Math.max(100 * 2 ** attempt, error.retryAfter ?? 0))
      await heartbeat()
    }
  }
  if (PLANTED_BUG === 'refused-batch-skipped') return
  if (documents.length === 1) return deadLetter(documents[0].message, failure)
  const half = documents.length >> 1
  await indexAll(documents.slice(0, half), heartbeat)
  await indexAll(documents.slice(half), heartbeat)
}

async function deadLetter(message, error) {
  const headers = { ...message.headers, 'error-message': error.message, 'source-topic': process.env.KAFKA_TOPIC }
  const filled = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value ?? '']))
  while (!stopping) {
    try {
      await producer.send({ topic: process.env.KAFKA_DLQ_TOPIC, messages: [{ ...message, headers: filled, timestamp: undefined }] })
      return
    } catch (failed) {
      kafka.logger().error(`dead letter of offset ${message.offset} failed: ${failed.message}`)
      await sleep(500)
    }
  }
  throw new Error('stopped before the dead letter was acknowledged')
}

async function eachBatch({ batch, heartbeat, resolveOffset, isRunning, isStale }) {
  // Small batches: a long one that is refused takes many calls.
  for (let from = 0; from < batch.messages.length && isRunning() && !isStale(); from += 50) {
    const messages = batch.messages.slice(from, from + 50)
    const documents = []
    for (const message of messages) {
      let order
      try {
        order = JSON.parse(message.value)
        if (typeof order.id !== 'string') throw new TypeError('it has no id')
      } catch (error) {
        await deadLetter(message, error)
        continue
      }
      documents.push({ message, order })
    }
    if (documents.length > 0) await indexAll(documents, heartbeat)
    resolveOffset(messages.at(-1).offset)
    await heartbeat()
  }
}

async function main() {
  await producer.connect()
  await consumer.connect()
  await consumer.subscribe({ topics: [process.env.KAFKA_TOPIC], fromBeginning: true })
  await consumer.run({ eachBatch, eachBatchAutoResolve: false })
  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.once(signal, async () => {
      stopping = true
      await consumer.disconnect()
      await producer.disconnect()
      process.exit(0)
    })
  }
}

await main()
