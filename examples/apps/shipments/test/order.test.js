import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PermanentError } from '../src/errors.js'
import { parseOrder } from '../src/order.js'

const order = { orderId: '7', address: { country: 'NO' }, parcels: [{ weightGrams: 300 }] }
const encode = (value) => Buffer.from(JSON.stringify(value))

test('an order', () => assert.deepEqual(parseOrder(encode(order)), order))

const bad = {
  'no JSON': Buffer.from('{"orderId":'),
  'no UTF-8': Buffer.from([0x22, 0xff, 0x22]),
  null: encode(null),
  'no id': encode({ ...order, orderId: undefined }),
  'an id that is a number': encode({ ...order, orderId: 7 }),
  'no address': encode({ ...order, address: undefined }),
  'no parcels': encode({ ...order, parcels: [] }),
  'a parcel without a weight': encode({ ...order, parcels: [{}] }),
  'no parcel among the parcels': encode({ ...order, parcels: [null] }),
}
for (const [name, value] of Object.entries(bad)) {
  test(name, () => assert.throws(() => parseOrder(value), PermanentError))
}
