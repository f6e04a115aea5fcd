import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { it } from 'node:test'
import { Bystanders } from './bystanders.ts'

it('bystanders come from addresses of their own, and count what is refused or reset as failed', async (t) => {
  const addresses = new Set<string | undefined>()
  let asked = 0
  const server = createServer((req, res) => {
    addresses.add(req.socket.remoteAddress)
    asked++
    if (asked === 2) req.socket.destroy()
    else res.writeHead(asked === 3 ? 503 : 200).end()
  }).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const make = () => ({ method: 'GET', path: '/', headers: {}, body: '' })
  const bystanders = new Bystanders({ port: (server.address() as AddressInfo).port, secure: false, make })
  while (asked < 5) await once(server, 'request')
  const outcomes = await bystanders.end()
  assert.equal(outcomes.failed, 2)
  assert.ok(outcomes.sent >= 5 && outcomes.longestMs > 0)
  assert.equal(addresses.size, outcomes.sent)
})
