// An error that another attempt can't mend: a bad order, or a refusal by the carrier.
export class PermanentError extends Error {}

// An error that may be gone with the next attempt, no earlier than after retryAfterMs.
export class TransientError extends Error {
  constructor(message, { retryAfterMs = 0, cause } = {}) {
    super(message, { cause })
    this.retryAfterMs = retryAfterMs
  }
}

// The service stops: the message is to be delivered again.
export class Stopping extends Error {}
