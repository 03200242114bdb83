// A stub of the service that is called, as a developer writes one: one call in twenty fails, and answers are
// compressed.
import { createServer } from 'node:http'
import { gzipSync } from 'node:zlib'

let calls = 0
createServer((request, response) => {
  request.resume().on('end', () => {
    const fails = request.method === 'POST' && ++calls % 20 === 0
    const body = gzipSync(JSON.stringify(fails ? { error: 'the stub is tired' } : { accepted: true }))
    response.writeHead(fails ? 503 : 200, { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' }).end(body)
  })
}).listen(process.argv[2], '127.0.0.1')
