import { PermanentError } from './errors.js'

const decoder = new TextDecoder('utf-8', { fatal: true })

// Decodes and checks the value of a message.
export function parseOrder(value) {
  let order
  try {
    order = JSON.parse(decoder.decode(value))
  } catch (error) {
    throw new PermanentError(`not an order: ${error.message}`, { cause: error })
  }
  if (order === null || typeof order !== 'object') throw new PermanentError('not an order: not an object')
  const { orderId, address, parcels } = order
  if (typeof orderId !== 'string' || orderId === '') throw new PermanentError('not an order: orderId is missing')
  if (typeof address?.country !== 'string') throw new PermanentError(`order ${orderId} has no address`)
  if (!Array.isArray(parcels) || parcels.length === 0) throw new PermanentError(`order ${orderId} has no parcels`)
  for (const parcel of parcels) {
    const weightGrams = parcel?.weightGrams // an entry may be null
    if (!Number.isInteger(weightGrams) || weightGrams <= 0) {
      throw new PermanentError(`order ${orderId} has a parcel without a weight`)
    }
  }
  return order
}
