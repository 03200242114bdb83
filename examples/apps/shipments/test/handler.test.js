import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PermanentError, Stopping, TransientError } from '../src/errors.js'
import { createHandler } from '../src/handler.js'

const value = Buffer.from(JSON.stringify({ orderId: '7', address: { country: 'NO' }, parcels: [{ weightGrams: 1 }] }))
const config = { maxAttempts: 3, backoffMs: 1, maxBackoffMs: 4 }

// Handles a message, with these results of the carrier, one after the other.
async function handle(results, message = { value, offset: '1' }, { signal = new AbortController().signal, beat } = {}) {
  const seen = { calls: 0, beats: 0, deadLetters: [] }
  const carrier = {
    book: async () => {
      const result = results[seen.calls++]
      if (result) throw result
    },
  }
  const deadLetters = { send: async (payload, { attempts, error }) => seen.deadLetters.push([attempts, error.message]) }
  const eachMessage = createHandler({ carrier, deadLetters, config, signal })
  await eachMessage({ topic: 'orders', partition: 0, message, heartbeat: beat ?? (async () => seen.beats++) })
  return seen
}

test('booked at once', async () => assert.deepEqual(await handle([null]), { calls: 1, beats: 0, deadLetters: [] }))

test('booked after a failure', async () =>
  assert.deepEqual(await handle([new TransientError('503'), null]), { calls: 2, beats: 1, deadLetters: [] }))

test('never booked', async () => {
  const failures = ['a', 'b', 'c'].map((reason) => new TransientError(reason))
  assert.deepEqual(await handle(failures), { calls: 3, beats: 2, deadLetters: [[3, 'c']] })
})

test('refused', async () =>
  assert.deepEqual(await handle([new PermanentError('no such country')]), {
    calls: 1,
    beats: 0,
    deadLetters: [[1, 'no such country']],
  }))

test('not an order', async () => {
  const seen = await handle([], { value: Buffer.from('x'), offset: '1' })
  assert.equal(seen.calls, 0)
  assert.equal(seen.deadLetters[0][0], 0)
})

test('a tombstone', async () =>
  assert.deepEqual(await handle([], { value: null, offset: '1' }), { calls: 0, beats: 0, deadLetters: [] }))

test('stopped', async () => {
  await assert.rejects(handle([null], { value, offset: '1' }, { signal: AbortSignal.abort() }), Stopping)
})

test('a rebalance between two attempts', async () => {
  const beat = async () => {
    throw new Error('The group is rebalancing, so a rejoin is needed')
  }
  await assert.rejects(handle([new TransientError('503')], { value, offset: '1' }, { beat }), /rejoin/)
})
