import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

// A receiver that does not look at the spans.

const server = createServer((req, res) => {
  req.resume().once('end', () => res.writeHead(200, { 'content-type': 'application/json' }).end('{}'))
})
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on('disconnect', () => process.exit(0))
