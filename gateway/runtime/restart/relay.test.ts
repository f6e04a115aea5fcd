import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, Server, type Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { relay } from './connection-hand-over.ts'

test('a relay passes bytes both ways, and only to the process that was given its end', async (t) => {
  const server = createServer().listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  t.after(() => client.destroy())
  const [socket] = (await once(server, 'connection')) as [Socket]
  // Another program connects first, from the same port of another loopback address.
  const stranger = Object.assign(new PassThrough(), { remoteAddress: '127.0.0.2', remotePort: 0 })
  const { emit } = Server.prototype
  t.mock.method(Server.prototype, 'emit', function (this: Server, event: string, ...args: unknown[]) {
    if (event === 'connection' && stranger.remotePort === 0) {
      stranger.remotePort = (args[0] as Socket).remotePort as number
      emit.call(this, event, stranger)
    }
    return emit.call(this, event, ...args)
  })
  const far = await relay(socket)
  t.after(() => far.destroy())
  assert.ok(stranger.destroyed)
  client.write('request')
  assert.equal(String((await once(far.resume(), 'data'))[0]), 'request')
  far.end('response')
  assert.equal(String((await once(client, 'data'))[0]), 'response')
  client.end()
  await once(client, 'close')
})
