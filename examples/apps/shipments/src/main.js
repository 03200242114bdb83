import { Kafka, logLevel } from 'kafkajs'
import { Carrier } from './carrier.js'
import { readConfig } from './config.js'
import { DeadLetters } from './dead-letters.js'
import { createHandler } from './handler.js'

const config = readConfig()
const kafka = new Kafka({ clientId: 'shipments', brokers: config.brokers, logLevel: logLevel.WARN })
const consumer = kafka.consumer({ groupId: config.groupId, sessionTimeout: config.sessionTimeoutMs })
const producer = kafka.producer()

const stop = new AbortController()
for (const name of ['SIGTERM', 'SIGINT']) {
  process.once(name, async () => {
    stop.abort()
    await consumer.disconnect()
    await producer.disconnect()
    process.exit(0)
  })
}

const carrier = new Carrier({ url: config.carrierUrl, timeoutMs: config.carrierTimeoutMs })
const deadLetters = new DeadLetters({
  producer,
  topic: config.deadLetterTopic,
  logger: kafka.logger(),
  signal: stop.signal,
})

await producer.connect()
await consumer.connect()
await consumer.subscribe({ topics: [config.topic], fromBeginning: true })
await consumer.run({ eachMessage: createHandler({ carrier, deadLetters, config, signal: stop.signal }) })
