import { setTimeout as sleep } from 'node:timers/promises'
import { Stopping } from './errors.js'

// KafkaJS reads headers without a value, but does not write them: such a value becomes an empty one.
function writable(headers = {}) {
  const filled = (value) => (Array.isArray(value) ? value.map(filled) : value ?? '')
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, filled(value)]))
}

export class DeadLetters {
  constructor({ producer, topic, logger, signal, pauseMs = 500 }) {
    Object.assign(this, { producer, topic, logger, signal, pauseMs })
  }

  // Resolves when the broker has acknowledged the dead letter. Until then the message must not be committed, so it
  // tries for as long as the service runs.
  async send({ topic, partition, message }, { attempts, error }, heartbeat) {
    const deadLetter = {
      key: message.key,
      value: message.value,
      headers: {
        ...writable(message.headers),
        'dead-letter-topic': topic,
        'dead-letter-partition': String(partition),
        'dead-letter-offset': message.offset,
        'dead-letter-attempts': String(attempts),
        'dead-letter-reason': error.message,
      },
    }
    while (!this.signal.aborted) {
      try {
        await this.producer.send({ topic: this.topic, acks: -1, messages: [deadLetter] })
        return
      } catch (failure) {
        this.logger.error(`dead letter of ${topic}-${partition}@${message.offset} was not written: ${failure.message}`)
      }
      await sleep(this.pauseMs)
      await heartbeat()
    }
    throw new Stopping()
  }
}
