import { PermanentError, TransientError } from './errors.js'

// The carrier's API: PUT /shipments/{orderId} books a shipment once, however often it is called.
export class Carrier {
  constructor({ url, timeoutMs, fetch = globalThis.fetch }) {
    this.url = url
    this.timeoutMs = timeoutMs
    this.fetch = fetch
  }

  async book(order) {
    let response
    let body
    try {
      response = await this.fetch(`${this.url}/shipments/${encodeURIComponent(order.orderId)}`, {
        method: 'PUT',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({
          country: order.address.country,
          weightGrams: order.parcels.reduce((sum, parcel) => sum + parcel.weightGrams, 0),
        }),
        signal: AbortSignal.timeout(this.timeoutMs),
      })
      body = await response.text()
    } catch (error) {
      throw new TransientError(`the carrier does not answer: ${error.cause?.message ?? error.message}`, {
        cause: error,
      })
    }
    if (response.ok) return
    const reason = `the carrier answers ${response.status}: ${body.slice(0, 200)}`
    if (response.status >= 500 || response.status === 429) {
      throw new TransientError(reason, { retryAfterMs: 1000 * Number(response.headers.get('Retry-After') ?? 0) })
    }
    throw new PermanentError(reason)
  }
}
