// A service on node-rdkafka. In the standard API, it asks for one message at a time, as in non-flowing mode; with
// MODE=stream, it reads them from the stream of createReadStream. The offset of a message is stored when the message is
// finished, and librdkafka commits what is stored every five seconds and at the close. All settings are the client's
// defaults, but for what the work needs.
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import Kafka from 'node-rdkafka'

const MAX_ATTEMPTS = 3
const BACKOFF_MS = 100 // after the first attempt; twice as long after the second

const { DOWNSTREAM_URL, KAFKA_BROKERS, KAFKA_DLQ_TOPIC, KAFKA_GROUP, KAFKA_TOPIC, MODE } = process.env

// A mistake that tests plant, to see it named; none otherwise.
const PLANTED_BUG = process.env.PLANTED_BUG

const settings = {
  'metadata.broker.list': KAFKA_BROKERS,
  'group.id': KAFKA_GROUP,
  'enable.auto.offset.store': PLANTED_BUG === 'stored-by-client',
}
const start = { 'auto.offset.reset': 'earliest' }
const producer = new Kafka.HighLevelProducer({ 'metadata.broker.list': KAFKA_BROKERS, 'message.max.bytes': 1048588 })

let stopping = false
let stop = () => {}

function warn(client) {
  return (error) => console.warn(`WARN ${client}: ${error.message}`) // librdkafka recovers by itself
}

async function call(message) {
  const response = await fetch(`${DOWNSTREAM_URL}/v1/attempt`, {
    method: 'POST',
    body: message.value ?? '',
    headers: { 'Content-Type': 'application/json' },
    signal: AbortSignal.timeout(1000),
  })
  const body = await response.text()
  if (response.ok) return
  const error = new Error(body || response.statusText)
  error.permanent = response.status === 400 || response.status === 422
  throw error
}

// Resolves to true when the message is finished, and to false if the service is to stop before.
async function handle(message) {
  for (let attempt = 1; ; attempt++) {
    try {
      await call(message)
      return true
    } catch (error) {
      if (error.permanent || attempt === MAX_ATTEMPTS) return deadLetter(message, attempt, error.message)
      await sleep(BACKOFF_MS * 2 ** (attempt - 1))
      if (stopping) return false
    }
  }
}

function write(message, headers) {
  return new Promise((resolve, reject) => {
    producer.produce(KAFKA_DLQ_TOPIC, null, message.value, message.key, null, headers, (error) =>
      error ? reject(error) : resolve(),
    )
  })
}

// Writes the message to the dead-letter topic until it is acknowledged.
async function deadLetter(message, attempts, reason) {
  const headers = [
    ...(message.headers ?? []),
    { 'orders.topic': message.topic },
    { 'orders.partition': String(message.partition) },
    { 'orders.offset': String(message.offset) },
    { 'orders.attempts': String(attempts) },
    { 'orders.reason': reason },
  ]
  while (!stopping) {
    try {
      const written = write(message, headers)
      if (PLANTED_BUG === 'letter-not-awaited') {
        written.catch((error) => console.error(`ERROR dead letter: ${error.message}`))
        return true
      }
      await written
      return true
    } catch (error) {
      console.error(`ERROR dead letter of ${message.topic} ${message.partition}-${message.offset}: ${error.message}`)
      await sleep(500)
    }
  }
  return false
}

function finished(consumer, { topic, partition, offset }) {
  if (PLANTED_BUG === 'stored-by-client') return
  try {
    consumer.offsetsStore([{ topic, partition, offset: offset + 1 }])
  } catch (error) {
    console.warn(`WARN ${topic} ${partition}-${offset} is not stored: ${error.message}`) // its partition was taken away
  }
}

function consumeOne(consumer) {
  return new Promise((resolve, reject) => {
    consumer.consume(1, (error, messages) => (error ? reject(error) : resolve(messages[0])))
  })
}

async function poll() {
  const consumer = new Kafka.KafkaConsumer(settings, start)
  consumer.on('event.error', warn('consumer'))
  consumer.connect()
  await once(consumer, 'ready')
  consumer.subscribe([KAFKA_TOPIC])
  while (!stopping) {
    const message = await consumeOne(consumer).catch(warn('consumer'))
    if (message && (await handle(message))) finished(consumer, message)
  }
  await new Promise((resolve) => consumer.disconnect(resolve))
}

// A stream has up to three messages in hand. Those of partitions that are taken away are processed, too, but librdkafka
// refuses to store their offsets.
async function stream() {
  const messages = Kafka.createReadStream(settings, start, { topics: [KAFKA_TOPIC], waitInterval: 100 })
  const closed = once(messages, 'close')
  let busy = false
  stop = () => busy || messages.destroy()
  messages.on('error', warn('stream'))
  messages.consumer.on('event.error', warn('consumer'))
  for await (const message of messages) {
    busy = true
    if (await handle(message)) finished(messages.consumer, message)
    busy = false
    if (stopping) break
  }
  await closed
}

for (const signal of ['SIGTERM', 'SIGINT']) {
  process.once(signal, () => {
    stopping = true
    stop()
  })
}

producer.on('event.error', warn('producer'))
producer.connect()
await once(producer, 'ready')
await (MODE === 'stream' ? stream() : poll())
await new Promise((resolve) => producer.disconnect(resolve))
