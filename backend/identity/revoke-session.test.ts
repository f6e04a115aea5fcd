import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:net'
import { it } from 'node:test'
import fastify from 'fastify'
import { packRevokedSessions, REVOKE_SESSION } from './revoke-session.ts'

it('a session that ended when the gateway had hung up is named by the next forwarded response', async (t) => {
  const app = fastify()
  t.after(() => app.close())
  packRevokedSessions(app)
  const arrived = Promise.withResolvers<void>()
  const done = Promise.withResolvers<void>()
  app.post('/end', async (request, reply) => {
    arrived.resolve()
    if (!request.socket.destroyed) await once(request.socket, 'close')
    setImmediate(done.resolve)
    return reply.header(REVOKE_SESSION, 'ended').send('nobody hears this')
  })
  app.get('/next', async () => 'fine')
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo

  const gateway = connect(port, '127.0.0.1')
  gateway.write('POST /end HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\nContent-Length: 0\r\n\r\n')
  await arrived.promise
  gateway.destroy()
  await done.promise
  const next = (headers: Record<string, string>) =>
    fetch(`http://127.0.0.1:${port}/next`, { headers }).then((response) =>
      response.headers.get(REVOKE_SESSION),
    )
  const forwarded = { 'x-forwarded-for': '192.0.2.1' }
  assert.equal(await next({}), null, 'a probe')
  assert.equal(await next(forwarded), 'ended')
  assert.equal(await next(forwarded), null)
})
