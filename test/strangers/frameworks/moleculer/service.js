// A Moleculer service that processes orders from a channel (@moleculer/channels with its Kafka adapter). A message that
// fails goes to the end of its topic with a count of its attempts, and to the dead-letter queue after three of them, as
// by default.
const { Adapters, Middleware } = require('@moleculer/channels')
const { ServiceBroker } = require('moleculer')

const { DOWNSTREAM_URL, KAFKA_BROKERS, KAFKA_DLQ_TOPIC, KAFKA_GROUP, KAFKA_TOPIC, PLANTED_BUG } = process.env

class Kafka extends Adapters.Kafka {
  // kafkajs ends its consumer for good at an error of its own, and delivers the message again at any other.
  async other(promise, what) {
    try {
      return await promise
    } catch (error) {
      this.logger.error(error.message)
      throw new Error(`${what}: ${error.message}`)
    }
  }

  publish(name, payload, options) {
    return this.other(super.publish(name, payload, options), `not written to ${name}`)
  }

  commitOffset(consumer, topic, partition, offset) {
    return this.other(super.commitOffset(consumer, topic, partition, offset), 'not committed')
  }

  // The adapter itself logs that a dead letter was refused, and commits the message. It also leaves the count in it, so
  // that it would be dead-lettered at its first failure when it is put back.
  async moveToDeadLetter(channel, { topic, partition, message }) {
    if (PLANTED_BUG === 'refusal-logged') return super.moveToDeadLetter(channel, { topic, partition, message })
    const { 'x-group': group, 'x-redelivered-count': count, ...headers } = message.headers
    headers['x-original-channel'] = topic
    headers['x-original-group'] = channel.group
    headers['x-original-partition'] = String(partition)
    await this.publish(channel.deadLettering.queueName, message.value, { raw: true, key: message.key, headers })
  }
}

// A mistake that is easily made: nothing waits until the copy of a message that failed is written.
class Hasty extends Kafka {
  async publish(name, payload, options) {
    const written = super.publish(name, payload, options)
    if (name !== KAFKA_TOPIC) return written
    written.catch(() => {}) // it is logged
  }
}

async function call(order, message) {
  const response = await fetch(`${DOWNSTREAM_URL}/v1/attempt`, {
    method: 'POST',
    body: message.value ?? '',
    signal: AbortSignal.timeout(1000),
  })
  const body = await response.text()
  if (!response.ok) throw new Error(body || response.statusText)
}

const adapter = new (PLANTED_BUG === 'copy-not-awaited' ? Hasty : Kafka)({
  kafka: { brokers: KAFKA_BROKERS.split(','), logLevel: 2 },
  maxRetries: 3,
  deadLettering: { enabled: true, queueName: KAFKA_DLQ_TOPIC },
})
const broker = new ServiceBroker({ logLevel: 'warn', middlewares: [Middleware({ adapter })] })

broker.createService({
  name: 'orders',
  channels: {
    [KAFKA_TOPIC]: { group: KAFKA_GROUP, kafka: { fromBeginning: true }, handler: call },
  },
})

broker.start().then(() => console.log('orders: started'))
