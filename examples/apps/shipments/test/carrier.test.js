import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { Carrier } from '../src/carrier.js'
import { PermanentError, TransientError } from '../src/errors.js'

const order = { orderId: 'a/b', address: { country: 'NO' }, parcels: [{ weightGrams: 300 }, { weightGrams: 200 }] }

// Books at a carrier that answers like this, and returns what it was asked.
async function book(answer, timeoutMs = 5000) {
  const asked = {}
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    Object.assign(asked, { method: request.method, url: request.url, body: JSON.parse(body) })
    answer(response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    await new Carrier({ url: `http://127.0.0.1:${server.address().port}`, timeoutMs }).book(order)
  } finally {
    server.closeAllConnections()
    server.close()
  }
  return asked
}

test('booked', async () =>
  assert.deepEqual(await book((response) => response.writeHead(201).end()), {
    method: 'PUT',
    url: '/shipments/a%2Fb',
    body: { country: 'NO', weightGrams: 500 },
  }))

test('refused', () => assert.rejects(book((response) => response.writeHead(422).end('no')), PermanentError))

test('overloaded', () =>
  assert.rejects(book((response) => response.writeHead(429, { 'Retry-After': '2' }).end()), (error) => {
    assert.ok(error instanceof TransientError)
    assert.equal(error.retryAfterMs, 2000)
    return true
  }))

test('broken', () => assert.rejects(book((response) => response.writeHead(500).end()), TransientError))

test('silent', () => assert.rejects(book(() => {}, 50), TransientError))

test('reset', () => assert.rejects(book((response) => response.destroy()), TransientError))
