import { setTimeout as sleep } from 'node:timers/promises'
import { PermanentError, Stopping, TransientError } from './errors.js'
import { parseOrder } from './order.js'

// Returns what KafkaJS calls for each message. It resolves when the message is done with: booked, or dead-lettered.
export function createHandler({ carrier, deadLetters, config, signal }) {
  const backoff = (attempt) => Math.min(config.maxBackoffMs, config.backoffMs * 2 ** (attempt - 1))

  return async function eachMessage(payload) {
    const { message, heartbeat } = payload
    let attempts = 0
    try {
      if (message.value === null) return // a tombstone: nothing to ship
      const order = parseOrder(message.value)
      for (;;) {
        if (signal.aborted) throw new Stopping()
        attempts++
        try {
          await carrier.book(order)
          return
        } catch (error) {
          if (error instanceof PermanentError || attempts >= config.maxAttempts) throw error
          await sleep(Math.max(backoff(attempts), error.retryAfterMs))
          await heartbeat()
        }
      }
    } catch (error) {
      // Anything else, such as a heartbeat that tells of a rebalance, is no fault of the order: it is delivered again.
      if (!(error instanceof PermanentError || error instanceof TransientError)) throw error
      await deadLetters.send(payload, { attempts, error }, heartbeat)
    }
  }
}
